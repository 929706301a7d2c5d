"""These tests check that the runtime is built by the machine's compiler; a missing or different
library is reported in a sentence.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from sample_backends.small_backend import folder, library
from sample_backends.small_backend.errors import NoRuntime, SmallBackendError
from tests.sample_backends.conftest import compiled


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SMALL_BACKEND_CACHE", str(tmp_path))
    library.library.cache_clear()
    yield tmp_path
    library.library.cache_clear()


def test_without_a_compiler_one_sentence_says_so(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(empty_cache))
    with pytest.raises(NoRuntime) as error:
        library.library()
    expected = "small_backend needs a C++ compiler, and g++, clang++ and c++ cannot be found: install one, or name it in $CXX"
    assert str(error.value) == expected
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match="small_backend needs a C\\+\\+ compiler"
    ):
        compiled(torch.relu)(torch.ones(2))


def test_a_compiler_that_fails_is_quoted(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = empty_cache / "compiler"
    compiler.write_text("#!/bin/sh\necho 'x.cpp:1: error: it is Monday' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(
        NoRuntime, match=r"cannot be built: .*compiler says: x\.cpp:1: error: it is Monday"
    ):
        library.library()
    assert [path.name for path in empty_cache.iterdir()] == [
        "compiler"
    ]  # nothing half-made is left


def other_library(folder: Path, abi_version: int, name: str) -> Path:
    source, target = folder / "other.cpp", folder / "other.so"
    functions = ("small_load", "small_free", "small_run")
    rest = "".join(f"void {function}() {{}}\n" for function in functions)
    source.write_text(
        f'extern "C" {{ unsigned small_abi_version() {{ return {abi_version}; }}\n'
        f'const char* small_kernels() {{ return "{name}"; }}\n{rest}}}\n'
    )
    subprocess.run(
        [*library.find_compiler(), "-shared", "-fPIC", source, "-o", target], check=True, timeout=60
    )
    return target


def test_a_library_of_another_abi_is_refused(tmp_path: Path) -> None:
    path = other_library(tmp_path, 7, "0123456789abcdef")
    with pytest.raises(NoRuntime) as error:
        library.Library(path)
    assert (
        str(error.value)
        == f"the runtime {path} has ABI version 7, and small_backend calls version 1"
    )


def test_a_library_of_other_sources_is_refused(tmp_path: Path) -> None:
    path = other_library(tmp_path, library.ABI_VERSION, "0123456789abcdef")
    with pytest.raises(
        NoRuntime, match=r"was built from other sources \(0123456789abcdef\) than small_backend has"
    ):
        library.Library(path)


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("no library")
    with pytest.raises(NoRuntime, match="is not the runtime of small_backend"):
        library.Library(path)


def test_the_abi_version_is_that_of_the_header() -> None:
    header = (Path(library.__file__).parent / "runtime" / "abi.h").read_text()
    assert f"#define SMALL_ABI_VERSION {library.ABI_VERSION}\n" in header


def test_a_cache_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SMALL_BACKEND_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        SmallBackendError, match=r"has no place, .*file cannot be used: File exists; name another"
    ):
        folder.cache_folder()
