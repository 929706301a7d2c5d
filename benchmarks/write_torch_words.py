"""This script writes ``fx_explorer/session/torch_words.txt``: the words of PyTorch's and Triton's own
names and messages, which a redacted session keeps. Run it after a new release of torch.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import keyword
import math
import operator
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
import triton.language
from torch._C._dynamo import guards

FILE = Path(__file__).parents[1] / "fx_explorer" / "session" / "torch_words.txt"

HEAD = (
    "# Words of PyTorch's and Triton's own names and messages, a line each. "
    "benchmarks/write_torch_words.py writes this file."
)

NAMESPACES = {
    "aten", "prims", "prim", "inductor", "_c10d_functional", "c10d", "quantized", "profiler",
    "higher_order", "rngprims", "mkldnn", "onednn", "mkl",
}  # fmt: skip
"""Namespaces of operators that are PyTorch's own."""

MODULES = (
    torch, torch.Tensor, torch.nn, torch.nn.functional, torch.nn.init, torch.optim, torch.linalg,
    torch.fft, torch.special, torch.autograd, torch.cuda, torch.distributed, torch.compiler,
    triton.language, builtins, math, operator, itertools, functools, random, guards,
)  # fmt: skip

CONFIGURATIONS = (torch._dynamo.config, torch._inductor.config, torch._functorch.config)

FILES = (
    "_dynamo/graph_break_registry.json", "_inductor/codegen/triton.py",
    "_inductor/codegen/wrapper.py", "_inductor/codegen/cpp.py",
    "_inductor/runtime/triton_helpers.py", "_inductor/runtime/triton_heuristics.py",
    "_inductor/runtime/hints.py", "_inductor/scheduler.py", "_inductor/dependencies.py",
    "_inductor/ir.py", "_inductor/lowering.py",
)  # fmt: skip
"""Files whose words stand in generated code and in reasons, within the package torch."""


def texts() -> Iterator[str]:
    for name in torch._C._dispatch_get_all_op_names():
        if name.split("::")[0] in NAMESPACES:
            yield name
    for module in MODULES:
        yield from dir(module)
    yield from keyword.kwlist
    for configuration in CONFIGURATIONS:
        yield from configuration._config
    package = Path(torch.__file__).parent
    for file in FILES:
        yield (package / file).read_text()


def words(texts: Iterable[str]) -> list[str]:
    """Return the parts of names in the texts, in lower case; single letters are left out."""
    found: set[str] = set()
    for text in texts:
        for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text):
            found.add(part.lower())
    return sorted(word for word in found if len(word) > 1)


if __name__ == "__main__":
    FILE.write_text("\n".join([HEAD, *words(texts())]) + "\n")
