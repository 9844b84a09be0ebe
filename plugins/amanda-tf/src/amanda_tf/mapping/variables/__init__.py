"""Variables: reads, assignments and training steps."""
