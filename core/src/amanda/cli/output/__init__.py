"""What verbs print: answers as text or JSON, tables, ops of dictionaries."""
