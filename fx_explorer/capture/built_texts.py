"""The texts of a kernel that Triton has built: files of its cache, and SASS out of the cubin.

Triton's cache has one directory a kernel and configuration, with a file a stage (triton/compiler/compiler.py, ``compile``).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fx_explorer.model import Level

Texts = dict[Level, str]

FILES: tuple[Level, ...] = ("ttir", "ttgir", "llir", "ptx", "amdgcn")

DISASSEMBLERS_AT_ONCE = 8


def texts_of(folders: Iterable[Path]) -> dict[Path, Texts]:
    """What is there of each; nvdisasm takes 30 ms a kernel, so several run at once."""
    wanted = list(dict.fromkeys(folders))
    workers = min(DISASSEMBLERS_AT_ONCE, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers, thread_name_prefix="disassemble") as pool:
        return dict(zip(wanted, pool.map(_texts_in, wanted), strict=True))


def _texts_in(folder: Path) -> Texts:
    texts: Texts = {}
    for level in FILES:
        for file in folder.glob(f"*.{level}"):
            texts[level] = file.read_text(encoding="utf-8", errors="backslashreplace")
    for cubin in folder.glob("*.cubin"):
        sass = _disassembled(cubin)
        if sass:
            texts["sass"] = sass
    return texts


def _disassembled(cubin: Path) -> str:
    """By the nvdisasm that Triton carries, or TRITON_NVDISASM_PATH names; empty where there is none or it cannot read this."""
    from triton import knobs

    try:
        tool = knobs.nvidia.nvdisasm.path
        ended = subprocess.run([tool, "-g", "-c", str(cubin)], capture_output=True, text=True, check=True)
    except (RuntimeError, OSError, subprocess.CalledProcessError):
        return ""
    return ended.stdout
