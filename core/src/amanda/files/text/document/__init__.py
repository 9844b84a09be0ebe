"""The schema of YAML and JSON documents: graphs to plain data and back."""
