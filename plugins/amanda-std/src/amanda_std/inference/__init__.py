"""Types of results: dtypes, shapes and known content."""
