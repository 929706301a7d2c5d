"""This module compiles a kernel's configurations to machine code, as Inductor's autotuner would.

The autotuner's call is ``CachingAutotuner._precompile_config``,
torch/_inductor/runtime/triton_heuristics.py.

ptxas, nvdisasm and cuobjdump are those that come with Triton. nvdisasm takes longer than most
compiles, so SASS is made for what somebody looks at.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fx_explorer.capture.inductor.built_texts import (
    TEXT_LEVELS,
    file_named_in,
    spilled_bytes,
    spills_in_log,
)
from fx_explorer.capture.virtual_gpu.cache_directories import (
    cache_home,
    hide_real_gpu,
    private_directory,
    refuse_untrusted,
)
from fx_explorer.capture.virtual_gpu.triton_kernel import CannotBuild, TritonKernel, why
from fx_explorer.errors import WorkerError
from fx_explorer.model import NVDISASM_OPTIONS, Gpu, Level
from fx_explorer.model.rows.kernels import NOT_KNOWN

# What the machine code shows of a kernel: its SASS, and registers, stack and spills per thread.

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
    spills = spills_in_log(log) if log else spilled_bytes(ptx)
    return UsedResources(_number(r"REG:(\d+)", usage), spills, _number(r"STACK:(\d+)", usage))


def used_on_amd(amdgcn: str) -> UsedResources:
    """Read the metadata after the code (LLVM, "User Guide for AMDGPU Backend", code object
    metadata).
    """
    spilled = _number(r"\.vgpr_spill_count: +(\d+)", amdgcn)
    spills = BYTES_OF_A_REGISTER * spilled if spilled >= 0 else NOT_KNOWN
    return UsedResources(
        _number(r"\.vgpr_count: +(\d+)", amdgcn),
        spills,
        _number(r"\.private_segment_fixed_size: +(\d+)", amdgcn),
    )


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else NOT_KNOWN


def disassembled(cubin: bytes) -> str:
    """Return SASS with its source lines, inlined ones included, and its encoding. Raises
    CannotBuild.

    The result is kept on disk, so that the same machine code in another
    session takes no time.
    """
    kept = cache_home() / "virtual_gpu" / "sass" / f"{_key(cubin)}.sass"
    with contextlib.suppress(OSError, WorkerError):  # not there, or not ours: it is made again
        private_directory(kept.parent)
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
    """Return the cache key, which also depends on nvdisasm and its options."""
    tool = Path(_tool("nvdisasm"))
    asked = f"{tool} {tool.stat().st_mtime_ns} {' '.join(NVDISASM_OPTIONS)}\0"
    return hashlib.sha256(asked.encode() + cubin).hexdigest()


def _keep(path: Path, text: str) -> None:
    """Store the text. Two processes at once do no harm: each writes a file of its own."""
    private_directory(path.parent)
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
    command = [_ptxas(gpu), "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = re.search(r"release ([\d.]+)", printed)
    return match[1] if match else "?"


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


# Compiling a configuration.

NOTHING = """module {
  tt.func public @nothing(%arg0: !tt.ptr<f32>) {
    tt.return
  }
}
"""


@dataclass(frozen=True)
class Built:
    texts: dict[Level, str]
    file: str
    """Base name of the module in the texts. Texts from the cache may name another module with an
    equal kernel.
    """
    threads: int
    shared_bytes: int
    used: UsedResources
    """Resources used per thread."""
    duration_s: float


class Toolchain:
    """torch and Triton, prepared for one GPU in this process until it ends. No C++ compiler is
    needed, because no tensor is made.
    """

    def __init__(self, gpu: Gpu) -> None:
        """Prepare, which takes some seconds. Raises ImportError without torch or triton,
        WorkerError where the cache cannot be written.
        """
        self.gpu = gpu
        hide_real_gpu(gpu)
        from fx_explorer.capture.virtual_gpu.device_queries import Emulation
        from fx_explorer.capture.virtual_gpu.torch_cuda import answer
        from fx_explorer.capture.virtual_gpu.triton_driver import use_driver

        answer(Emulation(gpu))
        use_driver(gpu)
        import triton

        # what the sources import
        from fx_explorer.capture.torch_compat.private_names import (  # noqa: F401
            _set_triton_ptxas_path,
            codecache,
            triton_heuristics,
        )

        _set_triton_ptxas_path()  # a CUDA build of torch has a ptxas of its own, which it would use

        self.name = f"triton {triton.__version__}"
        if gpu.vendor == "nvidia":
            self.name += f", ptxas {ptxas_version(gpu)}"

        self._warm_up()

    def _warm_up(self) -> None:
        """Compile and load a first kernel, so that the first request need not wait. The first
        compile of a process takes 0.3 s longer than the next, and so does loading the first kernel,
        because Inductor hashes its own files for the autotuner's cache.
        """
        import triton

        from fx_explorer.capture.torch_compat.private_names import torch_key
        from fx_explorer.capture.virtual_gpu.triton_driver import target_of

        torch_key()
        # A kernel out of the cache would warm nothing up.
        with (
            _environment(TRITON_ALWAYS_COMPILE="1"),
            tempfile.NamedTemporaryFile("w", suffix=".ttir") as file,
        ):
            file.write(NOTHING)
            file.flush()
            triton.compile(file.name, target=target_of(self.gpu))

    def build(self, kernel: TritonKernel, position: int) -> Built:
        """Compile one configuration, or take it from the cache on disk, without the SASS. Raises
        CannotBuild.
        """
        log = io.StringIO()
        began = time.monotonic()
        with _environment(TRITON_DUMP_PTXAS_LOG="1"), contextlib.redirect_stdout(log):
            compiled = self._compile(kernel, kernel.configs[position])
        took = time.monotonic() - began
        texts: dict[Level, str] = {
            level: compiled.asm[level] for level in TEXT_LEVELS if level in compiled.asm
        }
        cubin = compiled.asm.get("cubin", b"")
        if cubin:
            used = used_on_nvidia(cubin, log.getvalue(), texts["ptx"])
        else:
            used = used_on_amd(texts.get("amdgcn", ""))
        metadata = compiled.metadata
        return Built(
            texts=texts,
            file=file_named_in(texts.get("ttir", "")) or kernel.file,
            threads=metadata.num_warps * self.gpu.warp_size,
            shared_bytes=metadata.shared,
            used=used,
            duration_s=took,
        )

    def sass(self, kernel: TritonKernel, position: int) -> str:
        """Return the machine code with the lines it is from; empty on AMD. Raises CannotBuild.

        It is a method of its own because nvdisasm takes 0.3 s, more than a compile.
        """
        with contextlib.redirect_stdout(io.StringIO()):
            cubin = self._compile(kernel, kernel.configs[position]).asm.get("cubin", b"")
        if not cubin:
            return ""
        return disassembled(cubin)

    def passes(self, kernel: TritonKernel, position: int) -> str:
        """Return MLIR's text before each pass. This compiles again, whatever is in the cache.
        Raises CannotBuild.
        """
        with (
            tempfile.TemporaryFile(prefix="fx-explorer-") as kept,
            _environment(MLIR_ENABLE_DUMP="1", TRITON_ALWAYS_COMPILE="1"),
        ):
            with _stderr_into(kept.fileno()), contextlib.redirect_stdout(io.StringIO()):
                self._compile(kernel, kernel.configs[position])
            kept.seek(0)
            return kept.read().decode(errors="backslashreplace")

    def _compile(self, kernel: TritonKernel, config: Any) -> Any:
        """Compile a kernel in one configuration, as Inductor's autotuner does. Raises CannotBuild
        when the compilers fail.
        """
        import triton

        from fx_explorer.capture.torch_compat.private_names import ASTSource
        from fx_explorer.capture.virtual_gpu.triton_driver import target_of

        autotuner = kernel.autotuner
        meta = autotuner._create_compile_meta(config)
        options = autotuner._create_compile_options(config, meta)
        source = ASTSource(autotuner.fn, meta["signature"], meta["constants"], meta["configs"][0])
        try:
            return triton.compile(source, target=target_of(self.gpu), options=options)
        except OSError:
            raise  # a full disk or a missing tool is no fault of the kernel's
        except Exception as error:
            raise CannotBuild(why(error)) from error


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _stderr_into(descriptor: int) -> Iterator[None]:
    """Redirect stderr inside the block. LLVM writes to the descriptor, not to ``sys.stderr``."""
    before = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
