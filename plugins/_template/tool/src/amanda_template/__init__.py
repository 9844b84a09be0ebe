"""A plug-in for Amanda. Its entry points stand in pyproject.toml."""
