"""This module turns a value into a form that another process can read and compare: numbers and
texts unchanged, tensors as copies.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from fx_explorer.capture.torch_compat.private_names import is_traceable_wrapper_subclass

ATOMS = (bool, int, float, complex, str, bytes, type(None))
"""Types of values without parts, which ``==`` compares. Their subclasses (members of an Enum,
NumPy's numbers) are not among them.
"""

_LONGEST = 10_000
"""Maximum number of characters of a text. A longer one is replaced by a digest."""


def copy_value(value: Any) -> Any:
    """Return a copy on the CPU that no other code can change; for an object of an unknown type, the
    name of its type.
    """
    if isinstance(value, torch.Tensor):
        return copy_tensor(value)
    if isinstance(value, ATOMS):
        return atom(value)
    return f"a {type(value).__qualname__}"


def copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a plain, dense copy of the tensor on the CPU."""
    copied = tensor.detach()
    if type(copied) is not torch.Tensor:
        copied = copied.as_subclass(torch.Tensor)
    copied = copied.clone()
    if copied.is_quantized:
        copied = copied.dequantize()
    if copied.layout != torch.strided:
        copied = copied.to_dense()
    return copied.resolve_conj().resolve_neg().cpu()


def copy_parts(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return plain, dense copies of a tensor's parts, by the suffix for its name: for a nested one
    its components, for a subclass that wraps others these, for any other one copy of the whole.
    """
    if tensor.is_nested:
        parts = {f"[{i}]": part for i, part in enumerate(tensor.detach().unbind())}
    elif is_traceable_wrapper_subclass(tensor):
        parts = {f".{name}": getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]}
    else:
        return {"": copy_tensor(tensor)}
    copies = {}
    for name, part in parts.items():
        for rest, copy in copy_parts(part).items():
            copies[f"{name}{rest}"] = copy
    return copies


def atom(value: Any) -> Any:
    """Return the value as one of Python's own types. A long text or number is replaced by a
    digest.
    """
    if value is None:
        return None
    kinds: tuple[type[Any], ...] = (bool, int, float, complex, str, bytes)
    kind = next(kind for kind in kinds if isinstance(value, kind))
    exact = kind(value)
    if kind in (str, bytes):
        is_long = len(exact) > _LONGEST
    else:
        is_long = kind is int and exact.bit_length() > 1000
    if is_long:
        return f"{kind.__name__} {digest(repr_of(exact))}"
    return exact


def repr_of(value: object) -> str:
    return (
        hex(value) if isinstance(value, int) else repr(value)
    )  # Python refuses to write very long integers as decimals


def digest(text: str | bytes) -> str:
    """Return a short digest, for something long that is only compared."""
    if isinstance(text, str):
        written = text.encode(errors="surrogatepass")
    else:
        written = text
    return hashlib.sha256(written).hexdigest()[:16]
