"""Libraries in a process of their own, so that a crash ends that process only."""
