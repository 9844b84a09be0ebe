"""Compilation of a std graph: passes, partition, jitted programs, disk cache."""
