"""Ops of XLA, as jax2tf writes them."""
