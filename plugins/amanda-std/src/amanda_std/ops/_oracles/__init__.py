"""Independent reference implementations that samples of ops are checked against."""
