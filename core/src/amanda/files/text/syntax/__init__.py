"""YAML and JSON syntax: parsers, printers and plain data."""
