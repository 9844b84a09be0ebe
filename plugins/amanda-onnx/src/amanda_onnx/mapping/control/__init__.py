"""Control flow: If and Loop."""
