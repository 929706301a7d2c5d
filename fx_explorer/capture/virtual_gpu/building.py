"""A kernel's Triton source → the configurations that would be tried, and each of them compiled down to the machine's code.

The list is the one that Inductor's autotuner makes of the kernel's own decorator (``CachingAutotuner.configs``,
torch/_inductor/runtime/triton_heuristics.py), and the compile is the call it would make (``_precompile_config``). ptxas,
nvdisasm and cuobjdump are those that Triton carries.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import subprocess
import tempfile
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fx_explorer.capture.virtual_gpu.places import keep_apart
from fx_explorer.model import Gpu, Level
from fx_explorer.model.kernel_build import NOT_KNOWN

TEXT_LEVELS: tuple[Level, ...] = ("ttir", "ttgir", "llir", "ptx", "amdgcn")

BYTES_OF_A_REGISTER = 4


NOTHING = """module {
  tt.func public @nothing(%arg0: !tt.ptr<f32>) {
    tt.return
  }
}
"""


class CannotBuild(Exception):
    """The kernel's own fault, or that of what compiles it; the message is for the user."""


@dataclass(frozen=True)
class Built:
    texts: dict[Level, str]
    file: str
    """Base name of the module as the texts have it. From the cache they may be of another module with an equal kernel."""
    threads: int
    shared_bytes: int
    registers: int = NOT_KNOWN
    spill_bytes: int = NOT_KNOWN
    stack_bytes: int = NOT_KNOWN
    duration_s: float = 0.0


@dataclass(frozen=True)
class _Used:
    registers: int = NOT_KNOWN
    spill_bytes: int = NOT_KNOWN
    stack_bytes: int = NOT_KNOWN


@dataclass
class TritonKernel:
    """A kernel whose module is loaded."""

    autotuner: Any
    file: str
    """Base name of that module."""
    configs: list[Any] = field(default_factory=list)

    @property
    def options(self) -> list[dict[str, object]]:
        """Of each configuration, as people write them. A template has its block sizes in the source, not in the configs."""
        written = self.autotuner.inductor_meta.get("config_args") or {}
        return [
            {**{name: _plain(value) for name, value in {**written, **config.kwargs}.items()}, **_sizes(config)}
            for config in self.configs
        ]


def _result(config: Any, registers: int | None = None) -> types.SimpleNamespace:
    """What the autotuner asks of a configuration that it compiled."""
    return types.SimpleNamespace(config=config, kernel=types.SimpleNamespace(n_regs=registers))


def _nothing() -> None:
    """In place of what needs a device."""


def _autotuner(module: dict[str, Any], name: str) -> Any:
    """By its name. A kernel of the user's own is called as in the user's file there, and otherwise in the wrapper."""
    kinds = (value for value in module.values() if hasattr(value, "_create_compile_meta"))
    return module[name] if name in module else next(kinds)


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _sizes(config: Any) -> dict[str, object]:
    found: dict[str, object] = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if getattr(config, "num_ctas", 1) not in (None, 1):
        found["num_ctas"] = config.num_ctas
    if getattr(config, "maxnreg", None):
        found["maxnreg"] = config.maxnreg
    return found


class Toolchain:
    """torch and Triton, made ready for one GPU, in this process and for good. No C++ compiler is needed: no tensor is made."""

    def __init__(self, gpu: Gpu) -> None:
        """Takes some seconds. Raises ImportError without torch or triton, WorkerError where the cache cannot be written."""
        self.gpu = gpu
        keep_apart(gpu)
        from fx_explorer.capture.virtual_gpu.feeding import Feeding
        from fx_explorer.capture.virtual_gpu.torch_cuda import answer
        from fx_explorer.capture.virtual_gpu.triton_driver import use_driver

        answer(Feeding(gpu))
        use_driver(gpu)
        import torch._inductor.codecache
        import torch._inductor.runtime.triton_heuristics  # noqa: F401 - what the sources import
        import triton
        from torch._inductor.runtime.compile_tasks import _set_triton_ptxas_path

        _set_triton_ptxas_path()  # a CUDA build of torch brings a ptxas of its own, and takes that

        self.name = f"triton {triton.__version__}" + (f", ptxas {_ptxas_version(gpu)}" if gpu.vendor == "nvidia" else "")

        self._warm_up()

    def _warm_up(self) -> None:
        """The first compile of a process takes 0.3 s more than the next: better now than while somebody waits."""
        import triton

        from fx_explorer.capture.virtual_gpu.triton_driver import target_of

        with _environment(TRITON_ALWAYS_COMPILE="1"), tempfile.NamedTemporaryFile("w", suffix=".ttir") as file:
            file.write(NOTHING)
            file.flush()
            triton.compile(file.name, target=target_of(self.gpu))

    def load(self, name: str, source: str) -> TritonKernel:
        """Runs the kernel's module, which defines it and compiles nothing. Raises CannotBuild."""
        from torch._inductor.codecache import PyCodeCache

        try:
            module = PyCodeCache.load(source)
            autotuner = _autotuner(vars(module), name)
        except Exception as error:
            raise CannotBuild(f"its Triton source cannot be loaded: {_message(error)}") from error
        return TritonKernel(autotuner, Path(str(module.__file__)).name, list(autotuner.configs))

    def build(self, kernel: TritonKernel, position: int) -> Built:
        """Compile one configuration, or take it from the cache on disk; all but the SASS. Raises CannotBuild."""
        log = io.StringIO()
        began = time.monotonic()
        with _environment(TRITON_DUMP_PTXAS_LOG="1"), contextlib.redirect_stdout(log):
            compiled = self._compile(kernel, kernel.configs[position])
        took = time.monotonic() - began
        texts: dict[Level, str] = {level: compiled.asm[level] for level in TEXT_LEVELS if level in compiled.asm}
        cubin = compiled.asm.get("cubin", b"")
        used = self._used_on_nvidia(cubin, log.getvalue(), texts["ptx"]) if cubin else used_on_amd(texts.get("amdgcn", ""))
        metadata = compiled.metadata
        return Built(
            texts=texts,
            file=_file_named_in(texts.get("ttir", "")) or kernel.file,
            threads=metadata.num_warps * self.gpu.warp_size,
            shared_bytes=metadata.shared,
            registers=used.registers,
            spill_bytes=used.spill_bytes,
            stack_bytes=used.stack_bytes,
            duration_s=took,
        )

    def sass(self, kernel: TritonKernel, position: int) -> str:
        """The machine's code, with the lines it is from; empty on AMD. nvdisasm takes 0.4 s, more than a compile: it is asked
        for by itself. Raises CannotBuild."""
        with contextlib.redirect_stdout(io.StringIO()):
            cubin = self._compile(kernel, kernel.configs[position]).asm.get("cubin", b"")
        if not cubin:
            return ""
        with _as_file(cubin) as path:
            return _run("nvdisasm", "-gi", "-c", path)

    def passes(self, kernel: TritonKernel, position: int) -> str:
        """What MLIR prints before each pass; this compiles anew, whatever is in the cache. Raises CannotBuild."""
        with (
            tempfile.TemporaryFile(prefix="fx-explorer-") as kept,
            _environment(MLIR_ENABLE_DUMP="1", TRITON_ALWAYS_COMPILE="1"),
        ):
            with _stderr_into(kept.fileno()), contextlib.redirect_stdout(io.StringIO()):
                self._compile(kernel, kernel.configs[position])
            kept.seek(0)
            return kept.read().decode(errors="backslashreplace")

    def add_smaller_blocks(self, kernel: TritonKernel, registers: Sequence[int]) -> None:
        """What Inductor would try too, once it has seen how many ``registers`` each of the first configurations uses."""
        autotuner = kernel.autotuner
        autotuner.compile_results = [_result(config, used) for config, used in zip(kernel.configs, registers, strict=False)]
        instead = {"_precompile_config": _result, "_make_launchers": _nothing, "_ensure_kernel_loaded": _nothing}
        vars(autotuner).update(instead)  # nothing is compiled, nothing launched: the configurations are all that is wanted
        try:
            autotuner._dynamic_scale_rblock()
        finally:
            for name in instead:
                delattr(autotuner, name)
        kernel.configs.extend(result.config for result in autotuner.compile_results[len(registers) :])

    def _compile(self, kernel: TritonKernel, config: Any) -> Any:
        import triton
        from torch._inductor.runtime.triton_compat import ASTSource

        from fx_explorer.capture.virtual_gpu.triton_driver import target_of

        autotuner = kernel.autotuner
        meta = autotuner._create_compile_meta(config)
        options = autotuner._create_compile_options(config, meta)
        source = ASTSource(autotuner.fn, meta["signature"], meta["constants"], meta["configs"][0])
        try:
            return triton.compile(source, target=target_of(self.gpu), options=options)
        except OSError:
            raise  # a full disk, a tool that is missing: no fault of the kernel's
        except Exception as error:
            raise CannotBuild(_message(error)) from error

    def _used_on_nvidia(self, cubin: bytes, log: str, ptx: str) -> _Used:
        """Registers and stack off the machine code itself. Spills are in ptxas's log only: from the cache there is none, so it
        is asked again."""
        with _as_file(cubin) as path:
            usage = _run("cuobjdump", "-res-usage", path)
        spilled = re.search(r"(\d+) bytes spill stores", log or self._ptxas_log(ptx))
        return _Used(_number(r"REG:(\d+)", usage), int(spilled[1]) if spilled else NOT_KNOWN, _number(r"STACK:(\d+)", usage))

    def _ptxas_log(self, ptx: str) -> str:
        target = re.search(r"^\.target (sm_\w+)", ptx, re.MULTILINE)
        with tempfile.NamedTemporaryFile("w", suffix=".ptx", prefix="fx-explorer-") as file:
            file.write(ptx)
            file.flush()
            command = [
                _ptxas(self.gpu),
                "-v",
                "-lineinfo",
                f"--gpu-name={target[1]}" if target else "",
                file.name,
                "-o",
                os.devnull,
            ]
            return subprocess.run(list(filter(None, command)), capture_output=True, text=True, check=False).stderr


def _file_named_in(ttir: str) -> str:
    """The place of the function itself, which TTIR defines first."""
    found = re.search(r'^#loc = loc\("([^"]*)"', ttir, re.MULTILINE)
    return Path(found[1]).name if found else ""


def used_on_amd(amdgcn: str) -> _Used:
    """From the metadata behind the code (LLVM, "User Guide for AMDGPU Backend", code object metadata)."""
    spilled = _number(r"\.vgpr_spill_count: +(\d+)", amdgcn)
    return _Used(
        _number(r"\.vgpr_count: +(\d+)", amdgcn),
        BYTES_OF_A_REGISTER * spilled if spilled >= 0 else NOT_KNOWN,
        _number(r"\.private_segment_fixed_size: +(\d+)", amdgcn),
    )


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else NOT_KNOWN


def _message(error: BaseException) -> str:
    """What the user can use of it. Triton's command to repeat names files that are gone."""
    text = str(error).partition("Repro command:")[0].strip()
    if isinstance(error, SyntaxError):
        text = f"line {error.lineno}: {error.msg}" + (f"\n{error.text.rstrip()}" if error.text else "")
    cause = f"\n{error.__cause__}" if error.__cause__ is not None and str(error.__cause__) not in text else ""
    name = type(error).__name__
    return (text + cause) if "ptxas" in text else f"{name}: {text}{cause}"


@functools.cache
def _tool(name: str) -> str:
    """Of Triton's own, or the one that TRITON_…_PATH names."""
    import triton

    return str(getattr(triton.knobs.nvidia, name).path)


def _ptxas(gpu: Gpu) -> str:
    from triton.backends.nvidia.compiler import get_ptxas

    return str(get_ptxas(10 * gpu.capability[0] + gpu.capability[1]).path)


def _ptxas_version(gpu: Gpu) -> str:
    said = subprocess.run([_ptxas(gpu), "--version"], capture_output=True, text=True, check=True).stdout
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
    """LLVM writes to the descriptor and knows nothing of ``sys.stderr``."""
    before = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
