"""Tools that measure models: FLOPs, memory, statistics, ranges, features, time."""
