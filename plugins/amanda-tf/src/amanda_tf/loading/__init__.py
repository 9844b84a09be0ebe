"""What a caller takes of a model: inputs and outputs, a signature, frozen variables."""
