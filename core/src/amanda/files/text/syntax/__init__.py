"""YAML and JSON documents, without the meaning: parsers, printers, plain data."""
