"""Rules as data: notation, parser, files, rule sets, rules that are functions.

terms.py        the parts of a rule: terms, variables, lenses, guards
tokenizer.py    rule text to tokens
parser.py       tokens to rules
checks.py       what every rule must satisfy: nothing lost, nothing invented
functions.py    rules that are functions, and the builder that they call
rule_set.py     all rules between two frameworks
rule_file.py    rule files: text, YAML, protobuf
rule_order.py   which rule is tried before which
protobuf.py     rules as protobuf messages
table_form.py   the table form of the published specification
samples.py      graphs generated from rules, for tests
"""
