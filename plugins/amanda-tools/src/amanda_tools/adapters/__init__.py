"""Low-rank adapters of weights."""
