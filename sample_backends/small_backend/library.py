"""The runtime as a shared library: built once by the machine's compiler, kept by its content, called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from sample_backends.small_backend.errors import ArtefactRefused, NoRuntime, SmallBackendError
from sample_backends.small_backend.folder import cache_folder, written_whole

Seconds: TypeAlias = "ctypes.Array[ctypes.c_double]"

ABI_VERSION = 1
"""SMALL_ABI_VERSION of runtime/abi.h: the functions that are called below."""

_RUNTIME = Path(__file__).parent / "runtime"
_SOURCES = ("load", "run", "kernels", "elementwise", "rows", "matmul")
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC")


class Library:
    """The functions of runtime/abi.h. Raises NoRuntime for a file that is another library."""

    def __init__(self, path: Path) -> None:
        try:
            self._functions = ctypes.CDLL(str(path))
            version = self._functions.small_abi_version()
        except (OSError, AttributeError) as error:
            raise NoRuntime(f"{path} is not the runtime of small_backend: {error}") from error
        if version != ABI_VERSION:
            raise NoRuntime(
                f"the runtime {path} has ABI version {version}, and small_backend calls version {ABI_VERSION}"
            )
        self._functions.small_kernels.restype = ctypes.c_char_p
        self._functions.small_load.restype = ctypes.c_void_p
        self._functions.small_load.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
            ctypes.c_size_t,
        ]
        self._functions.small_free.argtypes = [ctypes.c_void_p]
        self._functions.small_run.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_int, ctypes.c_void_p]
        if self.kernels() != kernels():
            raise NoRuntime(
                f"the runtime {path} was built from other sources ({self.kernels()}) than small_backend has ({kernels()})"
            )

    def kernels(self) -> str:
        name: bytes = self._functions.small_kernels()
        return name.decode()

    def load(self, artefact: bytes) -> Loaded:
        """Return the artefact as a program that can run. Raises ArtefactRefused."""
        error = ctypes.create_string_buffer(1024)
        program = self._functions.small_load(artefact, len(artefact), error, len(error))
        if not program:
            raise ArtefactRefused(error.value.decode(errors="replace"))
        return Loaded(self._functions, program)


class Loaded:
    """A program in the runtime's memory, for as long as this object lives."""

    def __init__(self, functions: ctypes.CDLL, program: int) -> None:
        self._functions, self._program = functions, program

    def run(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        threads: int,
        seconds: Seconds | None = None,
    ) -> None:
        """Run on addresses of tensors that are as the program says. ``seconds`` gets the time of each instruction."""
        addresses_in, addresses_out = (
            (ctypes.c_void_p * len(inputs))(*inputs),
            (ctypes.c_void_p * len(outputs))(*outputs),
        )
        if self._functions.small_run(self._program, addresses_in, addresses_out, threads, seconds):
            raise SmallBackendError("there is not enough memory to run the program")

    def __del__(self) -> None:
        self._functions.small_free(self._program)


@functools.cache
def kernels() -> str:
    """Return the name of the kernels' sources, as ``small_kernels`` of the library tells it."""
    return _digest(
        *(path.read_bytes() for path in sorted(_RUNTIME.iterdir()) if path.suffix in (".h", ".cpp"))
    )[:16]


@functools.cache
def library() -> Library:
    """Return the runtime, which is built if that was not done on this machine before. Raises NoRuntime."""
    return Library(_library_file())


def _library_file() -> Path:
    return built("library.so", _SOURCES, ("-shared",))


def standalone() -> Path:
    """Return the program that runs an artefact without Python, by the same library. Raises NoRuntime."""
    return built("standalone", ("standalone",), (str(_library_file()),))


def built(name: str, sources: Sequence[str], flags: Sequence[str]) -> Path:
    """Return what the compiler makes of the sources, kept under a name that stands for sources, flags and processor."""
    compiler = find_compiler()
    target = (
        cache_folder()
        / f"{_digest(_processor(*compiler), name.encode(), kernels().encode())[:16]}-{name}"
    )
    if not target.exists():
        files = [str(_RUNTIME / f"{source}.cpp") for source in sources]
        command = [*compiler, *_FLAGS, f'-DSMALL_KERNELS="{kernels()}"', *files, *flags]
        with written_whole(target, 0o755) as place:
            with_threads = _ended([*command, "-fopenmp", "-o", str(place)])
            ended = (
                with_threads
                if with_threads.returncode == 0
                else _ended([*command, "-o", str(place)])
            )
            if ended.returncode:
                raise NoRuntime(
                    f"the runtime of small_backend cannot be built: {' '.join(compiler)} says: {_first_error(ended.stderr)}"
                )
    return target


def find_compiler() -> list[str]:
    """Return the C++ compiler as the beginning of a command: $CXX, or what is there. Raises NoRuntime."""
    asked_for = shlex.split(os.environ.get("CXX", ""))
    for command in [asked_for] if asked_for else [["g++"], ["clang++"], ["c++"]]:
        if shutil.which(command[0]):
            return command
    names = asked_for[0] if asked_for else "g++, clang++ and c++"
    raise NoRuntime(
        f"small_backend needs a C++ compiler, and {names} cannot be found: install one, or name it in $CXX"
    )


@functools.cache
def _processor(*compiler: str) -> bytes:
    """What the compiler defines for this processor: its version and every instruction set that -march=native means."""
    command = [*compiler, "-march=native", "-dM", "-E", "-x", "c++", os.devnull]
    return " ".join(compiler).encode() + _ended(command).stdout.encode()


def _ended(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _first_error(printed: str) -> str:
    lines = (
        [line for line in printed.splitlines() if "error" in line]
        or printed.splitlines()
        or ["nothing"]
    )
    return lines[0]


def _digest(*contents: bytes) -> str:
    return hashlib.sha256(b"\0".join(contents)).hexdigest()
