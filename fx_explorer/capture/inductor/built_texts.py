"""This module reads the files of a built kernel in Triton's cache: its texts, and the machine code.

There is one directory per kernel and configuration, with one file per stage
(triton/compiler/compiler.py, ``compile``). The machine's code is kept as it is: disassembling takes
0.4 s of CPU time per kernel, which is for those that somebody looks at.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import tempfile
from pathlib import Path

from fx_explorer.model import Level
from fx_explorer.model.rows.kernels import NOT_KNOWN

Texts = dict[Level, str]

TEXT_LEVELS: tuple[Level, ...] = ("ttir", "ttgir", "llir", "ptx", "amdgcn")


def texts_in(folder: Path) -> Texts:
    """Read the texts of all levels in the folder."""
    texts: Texts = {}
    for level in TEXT_LEVELS:
        for file in folder.glob(f"*.{level}"):
            texts[level] = file.read_text(encoding="utf-8", errors="backslashreplace")
    return texts


def file_named_in(ttir: str) -> str:
    """Return the base name of the module that defines the kernel. The location of the function
    itself comes before the locations inside it.
    """
    match = re.search(r'^#loc\d* = loc\("([^"]*)":', ttir, re.MULTILINE)
    if not match:
        return ""
    return Path(match[1]).name


def machine_code_in(folder: Path) -> str:
    """Return the cubin in base64; empty when there is none."""
    for file in folder.glob("*.cubin"):
        return base64.b64encode(file.read_bytes()).decode()
    return ""


def spilled_bytes(ptx: str) -> int:
    """Return the bytes that each thread spills, according to ptxas when it assembles the same code
    again; NOT_KNOWN where it cannot be run.

    The driver reports only the local memory of a thread, which is also used for what is no spill,
    as by ``sin``.
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
        log = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    return spills_in_log(log)


def spills_in_log(log: str) -> int:
    """Return the bytes of spills that ptxas reports in its log."""
    match = re.search(r"(?<!\d)(\d{1,18}) bytes spill stores", log)
    return int(match[1]) if match else NOT_KNOWN
