"""Models made with TensorFlow, for what the frozen graphs lack; its outputs are stored.

table.py       what a row of a table is
control.py     functions, conditionals, loops, arrays in loops
layers.py      Keras layers, as functions
recurrent.py   recurrent layers, with masks and states
operations.py  ops by themselves: einsum, strings, images, linear algebra ...
training.py    variables, gradients, training steps
making.py      makes the files of all of them, in a process with TensorFlow

Only these modules import TensorFlow.
"""
