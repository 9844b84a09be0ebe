"""Counter-based random number generators (PRNG) and distributions."""
