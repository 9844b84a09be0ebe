"""Random number generation and dropout."""
