"""Control flow: If, Loop and Scan."""
