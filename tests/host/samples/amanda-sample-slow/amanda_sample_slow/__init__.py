"""A plug-in that is slow, hangs, or crashes, as SAMPLE_SLOW says."""

import os
import time

manner = os.environ.get("SAMPLE_SLOW", "0.3")
if manner == "crash":
    os.abort()
time.sleep(float(manner))


def same(graph):
    return graph
