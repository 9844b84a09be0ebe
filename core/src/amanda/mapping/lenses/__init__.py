"""Lenses: partial bijections between two representations of one argument.

lens.py      lenses, their laws, and lenses that are tables
builtin.py   the lenses that every rule set has
"""
