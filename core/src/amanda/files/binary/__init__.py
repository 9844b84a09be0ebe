"""Binary forms: protobuf (`graph.proto`, `.ampb`), archives with weights (`.amanda`).

- `codec`: graphs as bytes and files in protobuf form
- `archive`: graphs with their weights in one file that is mapped
- `formats`: both as formats, chosen by name or suffix
- `messages`: the messages of graph.proto; `message_classes()` for the protobuf library
- `stored_zip`, `safetensors`: readers and writers, checked against hostile files

docs/binary-forms.md describes the files.
"""
