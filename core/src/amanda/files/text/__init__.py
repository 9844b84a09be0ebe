"""Text forms of graphs: YAML and JSON with one schema, and a readable form.

`yaml_form`, `json_form` and `readable` have `dumps` and `loads`; `formats` has them as
formats. docs/text-forms.md describes the schema, the grammar and the limits.
"""
