"""Loss functions, and distances."""
