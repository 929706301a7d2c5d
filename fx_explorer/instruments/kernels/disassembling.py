"""SASS of a kernel that was built on a real GPU: made out of the machine's code that the session
keeps, when somebody looks.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from fx_explorer.errors import WorkerError
from fx_explorer.model import NVDISASM_OPTIONS, Kernel, KernelBuild
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.levels import add_level

WHERE_TRITON_IS = (
    "import importlib.util as u; s = u.find_spec('triton'); print(s.submodule_search_locations[0] "
    "if s else '')"
)
"""Without importing it."""

NO_TOOL = (
    "SASS needs nvdisasm, which Triton carries: {python} has no triton. Install it there, choose "
    "another interpreter with --python, or name the tool in TRITON_NVDISASM_PATH."
)


def with_sass(session: Path, build: KernelBuild, python: str = sys.executable) -> KernelBuild:
    """Return the row with its SASS, which is kept in the session from now on. It is returned as it
    is when it has SASS or no machine code. Takes half a second. Raises WorkerError without a tool,
    or when the tool cannot read the code.
    """
    if not build.is_undisassembled:
        return build
    with SessionReader(session) as reader:
        kernel = reader.get(Kernel, build.kernel)
        text = disassembled(base64.b64decode(reader.text(build.machine_code)), python)
    with SessionReader(session) as reader, SessionWriter(session) as writer, writer.transaction():
        now = reader.get(KernelBuild, build.id)
        if not now.is_undisassembled:  # somebody else was first
            return now
        kernel_build = replace(
            now, levels={**now.levels, "sass": add_level(writer, kernel, "sass", text)}
        )
        writer.update(kernel_build)
    return kernel_build


def disassembled(cubin: bytes, python: str = sys.executable) -> str:
    """Disassemble as a builder does (capture/virtual_gpu/building.py). Raises WorkerError."""
    tool = nvdisasm(python)
    if not tool:
        raise WorkerError(NO_TOOL.format(python=python))
    with tempfile.NamedTemporaryFile(suffix=".cubin", prefix="fx-explorer-") as file:
        file.write(cubin)
        file.flush()
        try:
            ended = subprocess.run(
                [tool, *NVDISASM_OPTIONS, file.name], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise WorkerError(f"{tool} cannot be started: {error}") from error
    if ended.returncode:
        raise WorkerError(f"{tool} cannot read the machine's code: {ended.stderr.strip()}")
    return ended.stdout


@cache
def nvdisasm(python: str) -> str:
    """Return the path of the nvdisasm that TRITON_NVDISASM_PATH names, or that the interpreter's
    Triton carries; empty when there is none.
    """
    if named := os.environ.get("TRITON_NVDISASM_PATH"):
        return named
    try:
        said = subprocess.run(
            [python, "-c", WHERE_TRITON_IS], capture_output=True, text=True, check=False
        ).stdout.strip()
    except OSError:
        return ""
    tool = Path(said) / "backends" / "nvidia" / "bin" / "nvdisasm"
    return str(tool) if said and tool.is_file() else ""
