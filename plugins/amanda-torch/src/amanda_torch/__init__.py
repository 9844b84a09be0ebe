"""PyTorch for Amanda. Its entry points stand in pyproject.toml."""
