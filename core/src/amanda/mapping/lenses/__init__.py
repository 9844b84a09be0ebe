"""Lenses: partial bijections between two representations of one argument.

lens.py      what a lens is, and its laws
builtin.py   the lenses that every rule set has
"""
