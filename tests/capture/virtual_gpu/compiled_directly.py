"""This script compiles the kernels of own_kernels.py by Triton straight from that file, and prints
Triton's own record of their lines.

Reads a JSON list of {kernel, name, signature, constants, divisible, options} and prints {kernel:
PTX} as JSON; ``name`` is the function's.
"""

from __future__ import annotations

import json
import sys

import kernels_elsewhere
import own_kernels
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def function(name: str) -> triton.JITFunction:
    found = getattr(own_kernels, name, None) or getattr(kernels_elsewhere, name)
    return getattr(found, "fn", found) if isinstance(found, triton.runtime.Autotuner) else found


def ptx(wanted: dict) -> str:
    attributes = {(index,): [["tt.divisibility", 16]] for index in wanted["divisible"]}
    source = ASTSource(
        function(wanted["name"]), wanted["signature"], wanted["constants"], attributes
    )
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=wanted["options"]).asm[
        "ptx"
    ]


if __name__ == "__main__":
    json.dump({wanted["kernel"]: ptx(wanted) for wanted in json.load(sys.stdin)}, sys.stdout)
