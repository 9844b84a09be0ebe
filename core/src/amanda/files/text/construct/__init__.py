"""From parsed text to graphs: parsed graphs, resolution of names, construction."""
