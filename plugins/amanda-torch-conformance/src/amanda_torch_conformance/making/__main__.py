"""Make the files of all programs.

    python -m amanda_torch_conformance.making FOLDER [N]

N: only every Nth entry. In FOLDER, each sample of an entry has a folder `NAME/NUMBER`
with `model.pt2` and `data.npz` (inputs and outputs); `index.json` lists all. The folder
`NAME/dynamic` has a program with symbolic sizes, and also `second.npz`, of other sizes.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from amanda_torch_conformance.making.files import make_files

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    make_files(Path(sys.argv[1]), *map(int, sys.argv[2:]))
