"""These tests check that code from a cache that somebody else could have written is refused before
it is loaded, with a reason.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer.capture.virtual_gpu import building as machine_code
from fx_explorer.capture.virtual_gpu import shim
from fx_explorer.capture.virtual_gpu.cache_directories import (
    cache_home,
    hide_real_gpu,
    private_directory,
)
from fx_explorer.errors import WorkerError
from fx_explorer.gpus import find_gpu

LIBRARY = "shim_key.so"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ours, with a library in it, which fails the test when it is loaded or built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(shim, "torch_root", lambda: tmp_path)
    monkeypatch.setattr(shim, "compiler", lambda: ("g++",))
    monkeypatch.setattr(shim, "key", lambda torch, cxx: "key")
    monkeypatch.setattr(shim, "_compile", lambda *_: pytest.fail("built"))
    monkeypatch.setattr(ctypes, "CDLL", lambda *_: pytest.fail("loaded"))
    monkeypatch.delitem(__import__("sys").modules, "torch")
    folder = private_directory(cache_home() / "virtual_gpu")
    (folder / LIBRARY).write_text("code")
    (folder / LIBRARY).chmod(0o700)
    return folder


def writable_file(folder: Path) -> None:
    (folder / LIBRARY).chmod(0o666)


def writable_for_the_group(folder: Path) -> None:
    (folder / LIBRARY).chmod(0o720)


def linked_file(folder: Path) -> None:
    (folder / LIBRARY).rename(folder.parent.parent / "elsewhere.so")
    (folder / LIBRARY).symlink_to(folder.parent.parent / "elsewhere.so")


def dangling_link(folder: Path) -> None:
    (folder / LIBRARY).unlink()
    (folder / LIBRARY).symlink_to(folder / "nothing")


def fifo(folder: Path) -> None:
    (folder / LIBRARY).unlink()
    os.mkfifo(folder / LIBRARY)


def writable_folder(folder: Path) -> None:
    folder.chmod(0o777)


def writable_home(folder: Path) -> None:
    folder.parent.chmod(0o775)


def linked_folder(folder: Path) -> None:
    elsewhere = folder.parent.parent / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)


def linked_home(folder: Path) -> None:
    elsewhere = folder.parent.parent / "elsewhere"
    folder.parent.rename(elsewhere)
    folder.parent.symlink_to(elsewhere)


def writable_above(folder: Path) -> None:
    folder.parent.parent.chmod(0o777)


SPOILT = {
    writable_file: "others can write to it (mode 0666)",
    writable_for_the_group: "others can write to it (mode 0720)",
    linked_file: "it is a symbolic link",
    dangling_link: "it is a symbolic link",
    fifo: "it is neither a file nor a directory",
    writable_folder: "others can write to it (mode 0777)",
    writable_home: "others can write to it (mode 0775)",
    linked_folder: "it is a symbolic link",
    linked_home: "it is a symbolic link",
    writable_above: "others can write to it (mode 0777)",
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_a_library_that_others_could_have_written_is_not_loaded(
    cache: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(cache)
    with pytest.raises(WorkerError) as raised:
        shim.load()
    assert SPOILT[spoil] in str(raised.value)
    assert "set XDG_CACHE_HOME to a directory that only you use" in str(raised.value)


@pytest.mark.parametrize("path", [LIBRARY, "."])
def test_what_belongs_to_somebody_else_is_not_loaded(
    cache: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, owned = os.lstat, (cache / path).stat().st_ino

    def lstat(self: Path) -> os.stat_result:
        found = whole(self)
        fields = list(found)
        fields[stat.ST_UID] = 4711
        return os.stat_result(fields) if found.st_ino == owned else found

    monkeypatch.setattr(Path, "lstat", lstat)
    with pytest.raises(WorkerError, match="it belongs to user 4711, and you are user"):
        shim.load()


@pytest.mark.parametrize(
    "spoil", [writable_folder, writable_home, linked_folder, linked_home, writable_above]
)
def test_the_compilers_are_given_no_cache_that_others_can_write_to(
    cache: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(cache)
    environ: dict[str, str] = {}
    with pytest.raises(WorkerError, match="does not load code from"):
        hide_real_gpu(find_gpu("h100"), environ)
    assert "TRITON_CACHE_DIR" not in environ


def test_what_is_made_is_ours_alone_whatever_the_umask_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "new" / "cache"))
    monkeypatch.setattr(shim, "key", lambda torch, cxx: "key")
    monkeypatch.setattr(shim, "_compile", lambda cxx, torch, output: output.write_text("code"))
    before = os.umask(0)
    try:
        library = shim.built(tmp_path, ("g++",))
    finally:
        os.umask(before)
    made_now = [library, *(one for one in library.parents if one.is_relative_to(cache_home()))]
    assert len(made_now) == 3
    assert {stat.S_IMODE(one.lstat().st_mode) for one in made_now} == {0o700}


def test_a_cache_that_others_can_read_becomes_private(cache: Path) -> None:
    cache.parent.chmod(0o755)
    assert shim.built(cache, ("g++",)) == cache / LIBRARY
    assert stat.S_IMODE(cache.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("relative", ["cache", "./cache", "../cache", "", "~/cache"])
def test_a_relative_cache_home_is_ignored(
    relative: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", relative)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_home() == tmp_path / ".cache" / "fx-explorer"


def test_a_text_that_others_could_have_written_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine_code, "_key", lambda cubin: "key")
    monkeypatch.setattr(machine_code, "_run", lambda *_: "what nvdisasm says")
    assert machine_code.disassembled(b"") == "what nvdisasm says"
    kept = tmp_path / "fx-explorer" / "virtual_gpu" / "sass" / "key.sass"
    kept.write_text("a lie")
    kept.chmod(0o666)
    assert machine_code.disassembled(b"") == "what nvdisasm says"
