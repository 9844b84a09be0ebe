raise RuntimeError("an incompatible plug-in was imported")
