"""Control flow, functions, variables, side effects and device placement."""
