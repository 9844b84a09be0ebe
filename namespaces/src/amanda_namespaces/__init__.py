"""The op dictionaries, as data files beside this one; `index.json` lists them.

There is nothing to import: readers open the files through `importlib.resources`.
"""

__version__ = "0.1.0"
