"""Lark, a made-up framework, for Amanda. Its entry points stand in pyproject.toml."""
