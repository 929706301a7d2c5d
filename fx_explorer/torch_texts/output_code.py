"""This module takes generated code apart: the kernels of Inductor's module and of AOTInductor's C++
wrapper, where each stands, and the lines that call them.

torch says itself which nodes a call in Inductor's module computes: a comment above it names the
call as ``KERNEL:NUMBER`` (``Provenance debug handles``), and a table that is traced beside the code
has the post-grad nodes of each (torch/_inductor/debug.py, ``create_mapping_pre_post_grad_nodes``).
Without that table, which it makes only when asked to, comments say it too: above a call
``Source Nodes``, above a kernel ``Graph fragment`` (torch/_inductor/utils.py,
``get_kernel_metadata``).

AOTInductor's wrapper, whose ``run_impl`` calls the kernels, is written by
torch/_inductor/codegen/cpp_wrapper_gpu.py and cpp_wrapper_cpu.py: a Triton kernel stands there in a
comment, one in C++ in a file of its own, and a library call is a function of AOTInductor's C
interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fx_explorer.model import Direction, KernelLanguage


@dataclass(frozen=True, slots=True)
class PrintedCall:
    """A line of the generated module that runs a kernel or calls a library."""

    line: int
    """Line of the call in the module, from 1."""
    handle: str = ""
    """``triton_poi_fused_relu_0:3``; empty if torch wrote none."""
    sources: tuple[str, ...] = ()
    """Nodes in the comment above the call: Dynamo's, or those of the graph itself without a source.
    """


@dataclass(slots=True)
class PrintedKernel:
    """A kernel, or one library call."""

    name: str
    language: KernelLanguage
    first_line: int
    """First line of its code in the module; for a library call, its own line."""
    source: str = ""
    calls: list[PrintedCall] = field(default_factory=list)
    fragment: tuple[str, ...] = ()
    """Operations of the post-grad graph that the comment above the kernel has: those of its first
    call.
    """


_BEGINS = re.compile(
    r"^(?P<name>\w+) = async_compile\.(?P<how>triton|cpp_pybinding|cpp|cuda|pallas|cutedsl)"
    r"\(.*?r?(?P<quotes>'''|\"\"\")$"
)

_LANGUAGES: dict[str, KernelLanguage] = {
    "triton": "triton",
    "cpp_pybinding": "cpp",
    "cpp": "cpp",
    "cuda": "cpp",
}

_AOT_ID = re.compile(r"^# AOT ID: \['\d+_(?P<direction>forward|backward|inference)'\]$", re.M)

HANDLES = re.compile(r"^\s*(?:#|//) \[Provenance debug handles\] (?P<handles>.+)$")
"""Matches the comment above a call, in Python or in C++."""

_SOURCES = re.compile(
    r"^\s*(?:#|//) (?:Topologically Sorted )?Source Nodes: \[(?P<names>[^\]]*)\], Original ATen: "
)
"""Matches the comment above a call, or above a kernel's code."""

_FRAGMENT = re.compile(r"^\s*(?:#|//)   %(?P<name>\w+) .*= call_function\[")

_RUNS = re.compile(r"^\s*(?:\w+ = )?(?P<name>\w+)(?:\.run)?\(")

_LIBRARY = re.compile(
    r"^\s*(?:[\w,][\w, ]* = )?"
    r"(?P<name>extern_kernels\.\w+|torch\.ops\.(?!inductor\.)\w+\.\w+(?:\.\w+)?"
    r"|aten\.\w+(?:\.\w+)?|_quantized\.\w+)\("
)


def direction_of(code: str) -> Direction:
    """Return the direction of the graph that a module computes, from its first line; empty without
    one.
    """
    match = _AOT_ID.search(code)
    directions: dict[str, Direction] = {
        "forward": "forward",
        "backward": "backward",
        "inference": "inference",
    }
    if not match:
        return ""
    return directions[match["direction"]]


def read_kernels(code: str) -> list[PrintedKernel]:
    """Return the kernels of a module in the order of their first call; uncalled ones come last.
    Each library call is a kernel of its own.
    """
    lines = code.split("\n")
    generated = {kernel.name: kernel for kernel in _generated(lines)}
    called: list[PrintedKernel] = []
    handle = ""
    sources: tuple[str, ...] = ()
    inside = _lines_of_sources(generated.values())
    for number, line in enumerate(lines, 1):
        if number in inside:
            continue
        if line.lstrip()[:1] in ("#", "/", ""):
            handles, named = HANDLES.match(line), _SOURCES.match(line)
            if handles:
                handle = handles["handles"].strip()
            if named:
                sources = tuple(filter(None, named["names"].split(", ")))
            continue
        library, runs = _LIBRARY.match(line), _RUNS.match(line)
        if library:
            call = PrintedCall(number, handle, sources)
            called.append(PrintedKernel(library["name"], "extern", number, calls=[call]))
            handle, sources = "", ()
        elif runs and runs["name"] in generated:
            kernel = generated[runs["name"]]
            if not kernel.calls:
                called.append(kernel)
            kernel.calls.append(PrintedCall(number, handle, sources))
            handle, sources = "", ()
    return called + [kernel for kernel in generated.values() if not kernel.calls]


def _generated(lines: list[str]) -> Iterator[PrintedKernel]:
    at = 0
    fragment: list[str] = []
    while at < len(lines):
        begins = None
        if lines[at].lstrip()[:1] in ("#", "/"):
            named = _FRAGMENT.match(lines[at])
            if named:
                fragment.append(named["name"])
            elif _SOURCES.match(lines[at]):
                fragment.clear()
        elif "async_compile" in lines[at]:
            begins = _BEGINS.match(lines[at])
        at += 1
        if not begins:
            continue
        first = at
        while at < len(lines) and not lines[at].startswith(begins["quotes"]):
            at += 1
        source = "\n".join(lines[first:at]).lstrip("\n")
        yield PrintedKernel(
            begins["name"],
            _LANGUAGES.get(begins["how"], "python"),
            first + 1,
            source + "\n",
            fragment=tuple(fragment),
        )
        fragment.clear()


def _lines_of_sources(kernels: Iterable[PrintedKernel]) -> set[int]:
    inside: set[int] = set()
    for kernel in kernels:
        inside.update(range(kernel.first_line, kernel.first_line + kernel.source.count("\n") + 1))
    return inside


# AOTInductor's generated C++.


_WRAPPER_BEGINS = "::run_impl("

_ENDS = "// AOTInductorModel::run_impl"

_CALL = re.compile(
    r"\b(?:call_(?P<triton>triton_\w+)|(?P<cpp>cpp_\w+)"
    r"|(?P<library>aoti_torch_(?:cpu|cuda|xpu|mps|mkldnn)_\w+))\("
)

_TRITON = re.compile(r"^ *async_compile\.triton\('(?P<name>\w+)', '''$")

_CPP = re.compile(r"^extern \"C\"\s.*?\b(?P<name>cpp_\w+)\(")


def read_wrapper(wrapper: str, kernels: str = "") -> list[PrintedKernel]:
    """Return the kernels and library calls in the order of their first call. ``kernels`` is the
    file of C++ kernels. Each library call is a kernel of its own; a kernel whose code is in neither
    text has an empty source.
    """
    sources = {
        kernel.name: kernel for kernel in (*_triton_kernels(wrapper), *_cpp_kernels(kernels))
    }
    called: dict[str, PrintedKernel] = {}
    lines = wrapper.split("\n")
    begins = next((i for i, line in enumerate(lines) if _WRAPPER_BEGINS in line), len(lines))
    handle = ""
    for number, line in enumerate(lines[begins:], begins + 1):
        if line.rstrip().endswith(_ENDS):
            break
        handles = HANDLES.match(line)
        if handles:
            handle = handles["handles"].strip()
            continue
        match = _CALL.search(line)
        if not match or line.lstrip().startswith("//"):
            continue
        call = PrintedCall(number, handle)
        handle = ""
        if match["library"]:
            called[f"{match['library']} {number}"] = PrintedKernel(
                match["library"], "extern", number, calls=[call]
            )
            continue
        name = match["triton"] or match["cpp"]
        if name not in called:
            language: KernelLanguage = "triton" if match["triton"] else "cpp"
            called[name] = sources.get(name) or PrintedKernel(name, language, 0)
        called[name].calls.append(call)
    return list(called.values())


def _triton_kernels(wrapper: str) -> Iterator[PrintedKernel]:
    lines = wrapper.split("\n")
    for at, line in enumerate(lines):
        begins = _TRITON.match(line)
        if not begins:
            continue
        indent = line[: len(line) - len(line.lstrip())]
        source = ""
        for following in range(at + 1, len(lines)):
            if lines[following].startswith(f"{indent}'''"):
                break
            source += lines[following].removeprefix(indent) + "\n"
        yield PrintedKernel(begins["name"], "triton", at + 2, source or "\n")


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
