"""The binary forms: `graph.proto` (`.ampb`) and the archive with weights (`.amanda`).

- `codec`: graphs as bytes and files in protobuf form
- `archive`: graphs with their weights beside them, mapped
- `formats`: both, for the host to choose
- `definition`: graph.proto as data; `message_classes()` for the protobuf library
- `stored_zip`, `safetensors`: both as far as they are needed, checked against hostile
  files

docs/binary-forms.md says what the files look like.
"""
