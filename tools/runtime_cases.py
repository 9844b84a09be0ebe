"""Write the figures of the README of amanda-onnxruntime from docs/scoreboard-onnx.md.

    python tools/runtime_cases.py

`python -m amanda_onnx_conformance.page` writes that page, by running the suite.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scoreboard-onnx.md"
README = ROOT / "plugins" / "amanda-onnxruntime" / "README.md"

CAUSES = {
    "float4e2m1": "`float4_e2m1fn`, for which it has no casts",
    "_dft|_stft": "DFT and STFT: errors of 1e-6 to 1e-4 where the exact value is 0",
    "_bernoulli|_training_dropout":
        "random numbers: only dtypes and shapes are compared",
    "_image_decoder": "`ImageDecoder`",
    "_strnorm": "`StringNormalizer`, where the system has no locale `en_US.UTF-8`",
    "_attention_.*(bf16|fp16)":
        "attention in `bfloat16`, expanded; one element of `float16` off by one unit",
    "_maxunpool|_resize":
        "`MaxUnpool` to another shape, `Resize` by scales with aligned corners",
    "_attention_.*qk_matmul":
        "attention with masked scores as output: the lowest number instead of -inf",
    "_top_k_uint64|_convinteger":
        "`TopK` of `uint64`, `ConvInteger` with a zero point for each channel",
}  # fmt: skip
"""Names of cases that do not pass, as a pattern, and the cause."""

TEMPLATE = """\
Of the {total:,} cases of ONNX's backend test suite (`amanda scoreboard onnx --backend
onnxruntime`) {passed:,} pass with onnxruntime {version}. The rest is due to the
runtime: it refuses every form of the graph, or returns the same values without Amanda.

| cases | what |
|---|---|
"""
GENERATED = re.compile(
    r"^Of the [\d,]+ cases of .*?\n\n.*?\n(?=\n)", re.MULTILINE | re.DOTALL
)


def cause_of(case: str) -> str:
    for pattern, cause in CAUSES.items():
        if re.search(pattern, case, re.IGNORECASE):
            return cause
    raise SystemExit(f"no pattern of CAUSES matches {case}; add one with its cause")


def section() -> str:
    """The part of the page about onnxruntime."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("\n## onnxruntime\n")
    return rest.partition("\n## ")[0]


def summary() -> str:
    """The paragraph and the table of the README."""
    text = section()
    totals = re.search(r"^\| all \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    version = re.search(r"onnxruntime ([\d.]+\d)", text)
    assert totals is not None
    assert version is not None
    total, passed = map(int, totals.groups())
    cases = [
        case
        for line in re.findall(r"^- .*: (test_.*)$", text, re.MULTILINE)
        for case in line.split(", ")
    ]
    if len(cases) != total - passed:
        raise SystemExit(f"{PAGE} names {len(cases)} cases, expected {total - passed}")
    rows = Counter(map(cause_of, cases)).most_common()
    return TEMPLATE.format(total=total, passed=passed, version=version[1]) + "".join(
        f"| {count} | {cause} |\n" for cause, count in rows
    )


def updated_readme() -> str:
    """The README with the generated part."""
    text = README.read_text(encoding="utf-8")
    found = GENERATED.search(text)
    assert found is not None
    return text[: found.start()] + summary() + text[found.end() :]


if __name__ == "__main__":
    README.write_text(updated_readme(), encoding="utf-8")
