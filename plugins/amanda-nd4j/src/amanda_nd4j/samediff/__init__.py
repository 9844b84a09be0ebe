"""SameDiff files: `.fb`, a FlatBuffer; `.sdnb`, one behind a header; `.sdz`, a zip.

schema.py      the tables of both generations of the schema, as data
tables.py      FlatBuffers as nested dicts, by a schema, and back
arrays.py      tensors in the layout of nd4j
op_numbers.py  the numbers of ops: hashes of names, and those of older files
arguments.py   the positional arguments of nodes as attributes
reader.py      the graph of a file
writer.py      a graph as tables
archives.py    `.sdnb` and `.sdz`
format.py      the format
"""
