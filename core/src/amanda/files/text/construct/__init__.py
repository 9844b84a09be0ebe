"""From parsed text to graphs: what was parsed, names resolved, graphs built."""
