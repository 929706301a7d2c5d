"""This module lists what a Triton source may contain, as Inductor writes it: triton_source.py
enforces it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from fx_explorer.errors import SessionError

LONGEST = 2_000_000
"""Maximum number of characters of a source. Inductor's largest combined kernels have some
300,000.
"""

DEEPEST = 100
"""Deepest nesting of expressions; Inductor's own have fewer than 20 levels."""

LARGEST_NUMBER = 2**64
LONGEST_STRING = 4_000

IMPORTS = {
    "import triton": {"triton": "triton"},
    "import triton.language as tl": {"tl": "tl"},
    "from torch._inductor.runtime import triton_helpers, triton_heuristics": {
        "triton_helpers": "triton_helpers",
        "triton_heuristics": "triton_heuristics",
    },
    "from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math": {
        "libdevice": "libdevice",
        "tl_math": "tl_math",
    },
    (
        "from torch._inductor.runtime.hints import AutotuneHint, ReductionHint, TileHint, "
        "DeviceProperties"
    ): {},
    "from triton.compiler.compiler import AttrsDescriptor": {},
    "from triton.backends.compiler import AttrsDescriptor": {},
    "import torch": {},
}
"""Statement → the names that functions may use, with the meaning of each."""

FROM_TRITON = re.compile(
    r"triton\.language(\.(core|standard|math|random|extra\.(cuda\.|hip\.)?libdevice))?"
)
"""Matches modules from which a user's kernel may import single functions; Inductor writes such
imports.
"""

ON_TOP = ("triton_helpers.set_driver_to_gpu()", "triton_helpers.set_driver_to_cpu()")
"""Calls that Inductor writes at the top level of a kernel's module."""

HEURISTICS = {
    "pointwise",
    "reduction",
    "persistent_reduction",
    "cooperative_reduction",
    "split_scan",
    "template",
    "foreach",
    "user_autotune",
    "fixed_config",
}

ENUMS = {"ReductionHint", "TileHint", "AutotuneHint"}

CONSTRUCTORS = {
    "DeviceProperties",
    "set",
    "instance_descriptor",
    "AttrsDescriptor",
    "AttrsDescriptor.from_dict",
    "triton.Config",
}
"""Functions that may be called in the arguments of a decorator."""

REACHES_OUT = {
    "ir_override",
    "extern_libs",
    "pre_hook",
    "post_hook",
    "profile_bandwidth_output",
    "repr",
    "launch_metadata",
}
"""Names of options that open files, or whose values are called."""

JIT_OPTIONS = {
    "do_not_specialize",
    "do_not_specialize_on_alignment",
    "noinline",
    "debug",
    "version",
}

PLAIN_TEXT = re.compile(r"[\w.*:<>\[\], +\-]*", re.ASCII)
"""Matches the allowed strings in a decorator's arguments: names, types and numbers; no path and no
call.
"""

ARITHMETIC = re.compile(r"[\w\s+\-*/%(),<>=]*", re.ASCII)
CALL = re.compile(r"[\w)>]\s*\(|__|\*\*|\b(lambda|for|if|import|yield|await)\b")

MODULES = ("tl.math", "tl.extra.libdevice", "tl.extra.cuda.libdevice", "tl.extra.hip.libdevice")
"""Modules that are reached through ``tl``; the first has the functions of ``tl_math``, the others
those of ``libdevice``.
"""

OF_TRITON = {"cdiv", "next_power_of_2"}
BUILTINS = {"range", "min", "max", "len", "float", "int", "isinstance", "print"}
"""Python's builtins that Triton understands and that are allowed. ``getattr``, which Triton
understands too, is not.
"""

METHODS = {
    "to",
    "cast",
    "reshape",
    "view",
    "permute",
    "trans",
    "broadcast_to",
    "expand_dims",
    "split",
    "sum",
    "max",
    "min",
    "argmax",
    "argmin",
    "reduce",
    "associative_scan",
    "cumsum",
    "cumprod",
    "sort",
    "flip",
    "ravel",
    "abs",
    "exp",
    "exp2",
    "log",
    "log2",
    "sin",
    "cos",
    "sqrt",
    "rsqrt",
    "sigmoid",
    "softmax",
    "floor",
    "ceil",
    "erf",
    "histogram",
    "xor_sum",
    "gather",
    "item",
    "load",
    "store",
    "atomic_add",
    "atomic_max",
    "atomic_min",
    "atomic_and",
    "atomic_or",
    "atomic_xor",
    "atomic_cas",
    "atomic_xchg",
    "logical_and",
    "logical_or",
    "is_floating",
    "is_int",
    "is_fp8",
    "is_ptr",
    "is_block",
    "is_bf16",
    "is_fp16",
    "is_fp32",
    "is_fp64",
    "is_int_signed",
    "is_int_unsigned",
    "is_bool",
    "is_standard_floating",
}
ATTRIBUTES = {
    "dtype",
    "shape",
    "type",
    "element_ty",
    "numel",
    "T",
    "scalar",
    "value",
    "name",
    "primitive_bitwidth",
    "int_bitwidth",
    "fp_mantissa_width",
    "block_shape",
    "strides",
    "ALL",
    "NONE",
}
"""Attributes that a value inside a kernel may be asked for."""

RESERVED = {
    "triton",
    "tl",
    "triton_helpers",
    "triton_heuristics",
    "libdevice",
    "tl_math",
    "torch",
    "tlx",
    "proton",
    "pl",
    *ENUMS,
    "DeviceProperties",
    "AttrsDescriptor",
    "instance_descriptor",
    *BUILTINS,
    "set",
    "getattr",
    "hasattr",
    "list",
    "bool",
    "str",
    "constexpr",
}
"""Names with a fixed meaning, which must not be redefined."""


class UntrustedSourceError(SessionError):
    """Raised for a kernel's source that Inductor would not write, so that it is not compiled."""


@dataclass(frozen=True)
class Helpers:
    """Names of the functions, types and constants of Triton's modules, and of Inductor's
    ``triton_helpers``.
    """

    of_module: Mapping[str, frozenset[str]]
    """``tl``, ``tl_math``, ``libdevice``, ``triton_helpers`` → names."""

    def has(self, module: str, name: str) -> bool:
        if module == "triton":
            return name in OF_TRITON
        if module == "tl.math":
            module = "tl_math"
        elif module.startswith("tl.extra"):
            module = "libdevice"
        return name in self.of_module.get(module, ())


@dataclass
class TritonSource:
    """A source during the check: its text, and the meaning of its names."""

    text: str
    helpers: Helpers
    modules: dict[str, str] = field(default_factory=dict)
    """Name in the source → its module."""
    known: set[str] = field(default_factory=set)
    """Functions and constants of the source, and functions imported singly."""

    def refuse(self, node: ast.AST, what: str = "") -> UntrustedSourceError:
        line = getattr(node, "lineno", 0)
        text = ""
        if 0 < line <= len(self.text.splitlines()):
            text = self.text.splitlines()[line - 1].strip()[:120]
        why = what or f"Inductor does not write {kind_of(node)}"
        return UntrustedSourceError(
            f"line {line} of the kernel's source is rejected: {why}: {text}\n"
            "Nothing of it ran. Capture its program yourself, and the kernel is compiled from your "
            "own capture."
        )

    def plain(self, value: ast.Constant, is_path_free: bool = True) -> None:
        plain = value.value
        if isinstance(plain, int | float) and not isinstance(plain, bool):
            if abs(plain) > LARGEST_NUMBER and plain not in (float("inf"),):
                raise self.refuse(value, "this number is too large")
        elif isinstance(plain, str):
            if len(plain) > LONGEST_STRING or (is_path_free and not PLAIN_TEXT.fullmatch(plain)):
                raise self.refuse(value, "this text is no name")
        elif plain is not None and not isinstance(plain, bool):
            raise self.refuse(value)

    def annotation(self, annotation: ast.expr) -> None:
        """Allow only names in an annotation, because looking one up runs nothing."""
        if isinstance(annotation, ast.Constant):
            self.plain(annotation)
            return
        if not re.fullmatch(
            r"(tl|triton\.language)\.[a-z]\w*|constexpr|int|float|bool|str|builtins\.\w+",
            dotted(annotation) or "",
        ):
            raise self.refuse(annotation, "this annotation would run as Python code")


def kind_of(node: ast.AST) -> str:
    return {
        "FunctionDef": "a function",
        "ClassDef": "a class",
        "Lambda": "a lambda",
        "JoinedStr": "an f-string",
    }.get(type(node).__name__, type(node).__name__)


def is_public(name: str) -> bool:
    return not name.startswith("_") and name.isascii()


def dotted(node: ast.AST) -> str | None:
    """Return a chain of names as ``tl.math.exp``; None for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < 8:
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])
