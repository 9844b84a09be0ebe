"""How ops are defined, called on arrays, types and graph values, and checked."""
