"""What of a value another process can read and hold against its own: numbers and texts as they are, tensors as copies."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

ATOMS = (bool, int, float, complex, str, bytes, type(None))
"""Values without parts, which compare by ``==``. Their subclasses (members of an Enum, NumPy's numbers) are something else."""

_LONGEST = 10_000
"""Characters of a text, or bits of a number: of longer ones a digest is kept."""


def own(value: Any) -> Any:
    """A copy that nobody else can change, on the CPU; of an object that we do not know, its type."""
    if isinstance(value, torch.Tensor):
        return own_tensor(value)
    return atom(value) if isinstance(value, ATOMS) else f"a {type(value).__qualname__}"


def own_tensor(tensor: torch.Tensor) -> torch.Tensor:
    copied = tensor.detach()
    if type(copied) is not torch.Tensor:
        copied = copied.as_subclass(torch.Tensor)
    copied = copied.clone()
    if copied.is_quantized:
        copied = copied.dequantize()
    if copied.layout != torch.strided:
        copied = copied.to_dense()
    return copied.resolve_conj().resolve_neg().cpu()


def atom(value: Any) -> Any:
    """A plain value of Python's own types."""
    if value is None:
        return None
    kinds: tuple[type[Any], ...] = (bool, int, float, complex, str, bytes)
    kind = next(one for one in kinds if isinstance(value, one))
    exact = kind(value)
    is_long = len(exact) > _LONGEST if kind in (str, bytes) else kind is int and exact.bit_length() > 1000
    return f"{kind.__name__} {digest(repr_of(exact))}" if is_long else exact


def repr_of(value: object) -> str:
    return hex(value) if isinstance(value, int) else repr(value)  # Python refuses to write very long numbers as decimals


def digest(text: str | bytes) -> str:
    """Stands for something long that is only compared."""
    written = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return hashlib.sha256(written).hexdigest()[:16]
