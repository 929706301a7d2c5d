"""What the machine code tells of a kernel: its SASS, and the registers, stack and spills per
thread.

ptxas, nvdisasm and cuobjdump are those that come with Triton.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.capture.inductor.launches.built_texts import spilled_bytes, spills_told
from fx_explorer.capture.virtual_gpu.cache_directories import cache_home, made
from fx_explorer.capture.virtual_gpu.cache_trust import refuse_untrusted
from fx_explorer.capture.virtual_gpu.kernels.cannot_build import CannotBuild
from fx_explorer.errors import WorkerError
from fx_explorer.model import NVDISASM_OPTIONS, Gpu
from fx_explorer.model.rows.kernels.kernel_build import NOT_KNOWN

BYTES_OF_A_REGISTER = 4


@dataclass(frozen=True)
class UsedResources:
    registers: int = NOT_KNOWN
    spill_bytes: int = NOT_KNOWN
    stack_bytes: int = NOT_KNOWN


def used_on_nvidia(cubin: bytes, log: str, ptx: str) -> UsedResources:
    """Read registers and stack from the machine code. Spills are only in ptxas's ``log``, which a
    cached kernel lacks; ptxas is then run again.
    """
    with _as_file(cubin) as path:
        usage = _run("cuobjdump", "-res-usage", path)
    return UsedResources(
        _number(r"REG:(\d+)", usage),
        spills_told(log) if log else spilled_bytes(ptx),
        _number(r"STACK:(\d+)", usage),
    )


def used_on_amd(amdgcn: str) -> UsedResources:
    """Read the metadata after the code (LLVM, "User Guide for AMDGPU Backend", code object
    metadata).
    """
    spilled = _number(r"\.vgpr_spill_count: +(\d+)", amdgcn)
    return UsedResources(
        _number(r"\.vgpr_count: +(\d+)", amdgcn),
        BYTES_OF_A_REGISTER * spilled if spilled >= 0 else NOT_KNOWN,
        _number(r"\.private_segment_fixed_size: +(\d+)", amdgcn),
    )


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else NOT_KNOWN


def disassembled(cubin: bytes) -> str:
    """Return SASS with the lines it is from, inlined ones too, and its encoding. Raises CannotBuild.

    The result is kept on disk, so that the same machine code in another
    session takes no time.
    """
    kept = cache_home() / "virtual_gpu" / "sass" / f"{_key(cubin)}.sass"
    with contextlib.suppress(OSError, WorkerError):  # not there, or not ours: it is made anew
        made(kept.parent)
        refuse_untrusted(kept)
        return kept.read_text()
    with _as_file(cubin) as path:
        text = _run("nvdisasm", *NVDISASM_OPTIONS, path)
    with contextlib.suppress(
        OSError, WorkerError
    ):  # the text that was asked for is there: a full disk is reported by whoever needs the disk
        _keep(kept, text)
    return text


def _key(cubin: bytes) -> str:
    """Return the cache key, which differs for another nvdisasm and other options."""
    tool = Path(_tool("nvdisasm"))
    asked = f"{tool} {tool.stat().st_mtime_ns} {' '.join(NVDISASM_OPTIONS)}\0"
    return hashlib.sha256(asked.encode() + cubin).hexdigest()


def _keep(path: Path, text: str) -> None:
    """Keep the text. Two processes at once do no harm: each writes a file of its own."""
    made(path.parent)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="writing_") as apart:
        (Path(apart) / path.name).write_text(text)
        (Path(apart) / path.name).replace(path)


@functools.cache
def _tool(name: str) -> str:
    """Return the path of a tool that comes with Triton, or that TRITON_…_PATH names."""
    import triton

    return str(getattr(triton.knobs.nvidia, name).path)


def _ptxas(gpu: Gpu) -> str:
    from triton.backends.nvidia.compiler import get_ptxas

    return str(get_ptxas(10 * gpu.capability[0] + gpu.capability[1]).path)


def ptxas_version(gpu: Gpu) -> str:
    said = subprocess.run(
        [_ptxas(gpu), "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"release ([\d.]+)", said)
    return found[1] if found else "?"


def _run(tool: str, *arguments: str) -> str:
    done = subprocess.run([_tool(tool), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"{tool} failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def _as_file(cubin: bytes) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(suffix=".cubin", prefix="fx-explorer-") as file:
        file.write(cubin)
        file.flush()
        yield file.name
