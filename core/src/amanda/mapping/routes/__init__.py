"""Routes: chains of mappings between namespaces, and what a conversion reports.

route.py      finds the shortest chain of installed mappings
plan.py       a route, tried out on demand
report.py     which rule mapped which op, gaps, losses
coverage.py   which ops of a namespace a mapping supports
process.py    the mapping of a single op type
"""
