"""Programs made with PyTorch, with the outputs that PyTorch computes.

op_database.py   an exported program for samples of each entry of the op database
files.py         their files, and the index
__main__.py      the command that makes them
"""
