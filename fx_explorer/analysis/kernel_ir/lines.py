"""Which line of a kernel's Triton source each line of TTIR, TTGIR, LLVM IR, PTX, AMDGCN or SASS was
made from.

All of it is what the compilers wrote themselves: MLIR's ``loc``, LLVM's ``!dbg``, the assemblers'
``.loc`` and nvdisasm's ``//## File``. Code of an inlined helper (``tl.sum``,
``triton_helpers.max2``) counts for the kernel's line that called it; if the helper is in the same
source, it counts for its own line too. What a compiler marked as its own (line 0, ``unknown``)
belongs to no line.
"""

from __future__ import annotations

from collections.abc import Callable

from fx_explorer.analysis.kernel_ir.assembly_lines import assembly_lines, callers, sass_lines
from fx_explorer.analysis.kernel_ir.line_map import KernelFile, LineMap
from fx_explorer.analysis.kernel_ir.llvm_lines import llvm_lines
from fx_explorer.analysis.kernel_ir.mlir_lines import mlir_lines
from fx_explorer.model import Level

_READERS: dict[Level, Callable[[str, KernelFile], LineMap]] = {
    "ttir": mlir_lines,
    "ttgir": mlir_lines,
    "llir": llvm_lines,
    "ptx": assembly_lines,
    "amdgcn": assembly_lines,
}


def lines_of_level(level: Level, text: str, file: KernelFile, assembly: str = "") -> LineMap:
    """Map the lines of a level. ``assembly`` is the PTX that a SASS was made from: only it knows
    who called an inlined helper.
    """
    if level == "sass":
        return sass_lines(text, file, callers(assembly, file))
    return _READERS[level](text, file)
