"""Makes the dictionaries of what JAX computes with.

dialects.py    amanda/stablehlo and amanda/chlo, from jaxlib's bindings
primitives.py  amanda/jax, from the primitives and what programs were seen to say
programs.py    the programs that show how primitives are used
"""
