"""Control flow, effects, calls of functions."""
