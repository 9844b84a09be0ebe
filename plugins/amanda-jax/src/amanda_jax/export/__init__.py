"""Programs of `jax.export`, and files of them."""
