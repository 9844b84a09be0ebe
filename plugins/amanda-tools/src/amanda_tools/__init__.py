"""Tools that analyse and change models of any framework: see amanda.apply."""
