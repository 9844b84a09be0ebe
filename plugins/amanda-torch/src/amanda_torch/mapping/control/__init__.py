"""Parameters and buffers, symbolic numbers, bodies."""
