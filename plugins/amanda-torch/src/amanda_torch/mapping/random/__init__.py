"""Random numbers: values are drawn by the same distributions, not the same ones."""
