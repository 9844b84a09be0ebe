"""Which values the inputs of a graph accept: the hook `find_input_ranges`."""
