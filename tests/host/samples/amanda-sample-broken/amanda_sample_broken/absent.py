import nothing_like_this  # noqa: F401
