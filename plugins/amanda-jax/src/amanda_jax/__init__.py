"""The XLA backend: graphs of `amanda/std/1`, each compiled whole by JAX."""
