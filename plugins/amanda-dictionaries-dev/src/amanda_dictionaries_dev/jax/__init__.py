"""Extract the dictionaries of JAX, StableHLO and CHLO."""
