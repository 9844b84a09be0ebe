"""The op set as a namespace: its dictionary, op access in graphs, lowering."""
