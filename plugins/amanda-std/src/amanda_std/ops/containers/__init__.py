"""Values that are no tensors: sequences, optionals, tuples and maps."""
