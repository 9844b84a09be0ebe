"""Text forms of graphs: YAML and JSON of one schema, and a readable form for people.

`yaml_form`, `json_form` and `readable` have `dumps` and `loads` each; `formats` wraps
them for files. docs/text-forms.md tells the schema, the grammar and the limits.
"""
