raise RuntimeError("a listener to another event was imported")
