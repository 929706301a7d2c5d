"""Compile a kernel's configurations to machine code, as Inductor's autotuner would.

The autotuner's call is ``CachingAutotuner._precompile_config``,
torch/_inductor/runtime/triton_heuristics.py.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fx_explorer.capture.inductor.launches.built_texts import TEXT_LEVELS, file_named_in
from fx_explorer.capture.virtual_gpu.cache_directories import keep_apart
from fx_explorer.capture.virtual_gpu.kernels.cannot_build import CannotBuild, why
from fx_explorer.capture.virtual_gpu.kernels.machine_code import (
    UsedResources,
    disassembled,
    ptxas_version,
    used_on_amd,
    used_on_nvidia,
)
from fx_explorer.capture.virtual_gpu.kernels.triton_kernel import TritonKernel
from fx_explorer.model import Gpu, Level

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
    """Base name of the module as the texts have it. Texts from the cache may name another module
    with an equal kernel.
    """
    threads: int
    shared_bytes: int
    used: UsedResources
    """Resources used per thread."""
    duration_s: float


class Toolchain:
    """torch and Triton, prepared for one GPU in this process until its end. No C++ compiler is
    needed, because no tensor is made.
    """

    def __init__(self, gpu: Gpu) -> None:
        """Prepare, which takes some seconds. Raises ImportError without torch or triton,
        WorkerError where the cache cannot be written.
        """
        self.gpu = gpu
        keep_apart(gpu)
        from fx_explorer.capture.virtual_gpu.emulation.emulation_mode import Emulation
        from fx_explorer.capture.virtual_gpu.emulation.torch_cuda import answer
        from fx_explorer.capture.virtual_gpu.kernels.triton_driver import use_driver

        answer(Emulation(gpu))
        use_driver(gpu)
        import torch._inductor.codecache
        import torch._inductor.runtime.triton_heuristics  # noqa: F401 - what the sources import
        import triton
        from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path

        _set_triton_ptxas_path()  # a CUDA build of torch has a ptxas of its own, which it would use

        self.name = f"triton {triton.__version__}" + (
            f", ptxas {ptxas_version(gpu)}" if gpu.vendor == "nvidia" else ""
        )

        self._warm_up()

    def _warm_up(self) -> None:
        """Compile and load a first kernel, so that nobody has to wait for it later. The first
        compile of a process takes 0.3 s longer than the next, and so does the first kernel that is
        loaded, because Inductor hashes its own files for the autotuner's cache.
        """
        import triton
        from torch._inductor.codecache import torch_key

        from fx_explorer.capture.virtual_gpu.kernels.triton_driver import target_of

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
        used = (
            used_on_nvidia(cubin, log.getvalue(), texts["ptx"])
            if cubin
            else used_on_amd(texts.get("amdgcn", ""))
        )
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
        return disassembled(cubin) if cubin else ""

    def passes(self, kernel: TritonKernel, position: int) -> str:
        """Return what MLIR prints before each pass. This compiles anew, whatever is in the cache.
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
        when the compilers refuse it.
        """
        import triton
        from torch._inductor.runtime.triton_compat import ASTSource

        from fx_explorer.capture.virtual_gpu.kernels.triton_driver import target_of

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
