"""The texts of a kernel that Triton has built: files of its cache, SASS out of the cubin, and what ptxas says of spills.

Triton's cache has one directory a kernel and configuration, with a file a stage (triton/compiler/compiler.py, ``compile``).
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fx_explorer.model import Level
from fx_explorer.model.kernel_build import NOT_KNOWN

Texts = dict[Level, str]

FILES: tuple[Level, ...] = ("ttir", "ttgir", "llir", "ptx", "amdgcn")

DISASSEMBLERS_AT_ONCE = 8


def texts_of(folders: Iterable[Path]) -> dict[Path, Texts]:
    """What is there of each; nvdisasm takes 30 ms a kernel, so several run at once."""
    wanted = list(dict.fromkeys(folders))
    workers = min(DISASSEMBLERS_AT_ONCE, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers, thread_name_prefix="disassemble") as pool:
        return dict(zip(wanted, pool.map(_texts_in, wanted), strict=True))


def spilled_bytes(ptx: str) -> int:
    """Of a thread, as ptxas says it of the same code once more; NOT_KNOWN where it cannot be asked.

    The driver tells only the local memory of a thread, which is also used for what is no spill, as by ``sin``.
    """
    target = re.search(r"^\.target (sm_(\d+)\w*)", ptx, re.MULTILINE)
    if target is None:
        return NOT_KNOWN
    try:
        from triton.backends.nvidia.compiler import get_ptxas

        tool = str(get_ptxas(int(target[2])).path)
    except (ImportError, TypeError, RuntimeError):
        return NOT_KNOWN
    with tempfile.NamedTemporaryFile("w", suffix=".ptx", prefix="fx-explorer-") as file:
        file.write(ptx)
        file.flush()
        command = [tool, "-v", "-lineinfo", f"--gpu-name={target[1]}", file.name, "-o", os.devnull]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    found = re.search(r"(\d+) bytes spill stores", said)
    return int(found[1]) if found else NOT_KNOWN


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
