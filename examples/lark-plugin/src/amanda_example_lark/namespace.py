"""The dictionary of Lark: its ops, a definition a line."""

from __future__ import annotations

from amanda.dictionary import DictionaryHistory

__all__ = ["LARK"]

LARK = DictionaryHistory.parse("example/lark", {"1": """
Add(a: T, b: T) -> (y: T)  T in {f32, f64}
Mul(a: T, b: T) -> (y: T)  T in {f32, f64}
Relu(x: T) -> (y: T)  T in {f32, f64}
Gelu(x: T) -> (y: T)  T in {f32, f64}
Softmax(x: T, *, axis: int = -1) -> (y: T)  T in {f32, f64}
Dense(x: T, w: T, b?: T, *, activation: string = "none") -> (y: T)  T in {f32, f64}
Conv2D(x: T, w: T, b?: T, *, strides: int[], padding: string) -> (y: T)  T in {f32, f64}
MaxPool2D(x: T, *, size: int[], strides: int[]) -> (y: T)  T in {f32, f64}
LayerNorm(x: T, s: T, b: T, *, epsilon: double = 1e-05) -> (y: T)  T in {f32, f64}
Concat(*xs: T, *, axis: int) -> (y: T)  T in {f32, f64}
Reshape(x: T, *, shape: int[]) -> (y: T)  T in {f32, f64}
Transpose(x: T, *, perm: int[]) -> (y: T)  T in {f32, f64}
"""})  # fmt: skip
"""The entry `example/lark` of `amanda.namespaces`."""
