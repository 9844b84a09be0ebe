"""Output of verbs: answers as text or JSON, tables, op definitions."""
