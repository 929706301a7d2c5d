"""AOTInductor's generated C++, taken apart: the kernels it has, and the lines of ``run_impl`` that
call them.

The wrapper is written by torch/_inductor/codegen/cpp_wrapper_gpu.py and cpp_wrapper_cpu.py: a
Triton kernel stands there in a comment, one in C++ in a file of its own, and a library call is a
function of AOTInductor's C interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fx_explorer.torch_texts.output_code import HANDLES, PrintedCall, PrintedKernel

_BEGINS = "::run_impl("

_ENDS = "// AOTInductorModel::run_impl"

_CALL = re.compile(
    r"\b(?:call_(?P<triton>triton_\w+)|(?P<cpp>cpp_\w+)|(?P<library>aoti_torch_(?:cpu|cuda|xpu|mps|mkldnn)_\w+))\("
)

_TRITON = re.compile(r"^ *async_compile\.triton\('(?P<name>\w+)', '''$")

_CPP = re.compile(r"^extern \"C\"\s.*?\b(?P<name>cpp_\w+)\(")


def read_wrapper(wrapper: str, kernels: str = "") -> list[PrintedKernel]:
    """Return the kernels and library calls in the order of their first call. ``kernels`` is the
    file of C++ kernels. Each library call is one of its own; a kernel whose code is in neither text
    has an empty source.
    """
    sources = {one.name: one for one in (*_triton_kernels(wrapper), *_cpp_kernels(kernels))}
    called: dict[str, PrintedKernel] = {}
    lines = wrapper.split("\n")
    begins = next((i for i, line in enumerate(lines) if _BEGINS in line), len(lines))
    handle = ""
    for number, line in enumerate(lines[begins:], begins + 1):
        if line.rstrip().endswith(_ENDS):
            break
        handles = HANDLES.match(line)
        if handles:
            handle = handles["handles"].strip()
            continue
        found = _CALL.search(line)
        if not found or line.lstrip().startswith("//"):
            continue
        call = PrintedCall(number, handle)
        handle = ""
        if found["library"]:
            called[f"{found['library']} {number}"] = PrintedKernel(
                found["library"], "extern", number, calls=[call]
            )
            continue
        name = found["triton"] or found["cpp"]
        if name not in called:
            called[name] = sources.get(name) or PrintedKernel(
                name, "triton" if found["triton"] else "cpp", 0
            )
        called[name].calls.append(call)
    return list(called.values())


def _triton_kernels(wrapper: str) -> Iterator[PrintedKernel]:
    lines = wrapper.split("\n")
    for at, line in enumerate(lines):
        begins = _TRITON.match(line)
        if begins:
            indent = line[: len(line) - len(line.lstrip())]
            ends = next(
                (i for i in range(at + 1, len(lines)) if lines[i].startswith(f"{indent}'''")),
                len(lines),
            )
            source = "\n".join(one.removeprefix(indent) for one in lines[at + 1 : ends])
            yield PrintedKernel(begins["name"], "triton", at + 2, source + "\n")


def _cpp_kernels(kernels: str) -> Iterator[PrintedKernel]:
    """Yield the kernels of the file that has no other functions with C linkage. They have no line
    in the wrapper.
    """
    lines = kernels.split("\n")
    for at, line in enumerate(lines):
        begins = _CPP.match(line)
        if begins:
            ends = next(
                (i for i in range(at + 1, len(lines)) if lines[i].startswith("}")), len(lines) - 1
            )
            yield PrintedKernel(begins["name"], "cpp", 0, "\n".join(lines[at : ends + 1]) + "\n")
