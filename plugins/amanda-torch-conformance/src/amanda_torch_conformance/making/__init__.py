"""Programs made with PyTorch, with the outputs that PyTorch computes.

op_database.py   an exported program for samples of each entry of the op database
dynamic_sizes.py  programs with symbolic sizes, and inputs of two sizes
files.py         their files, and the index
__main__.py      the command that makes them
model_table.py   models of `transformers`, with small sizes
model_inputs.py  their inputs, by kind
models.py        models as exported programs, and a step of their training
model_files.py   the files of models; a command
quantized_programs.py  programs that torchao quantizes
"""
