"""These tests check the requirements of a virtual GPU, and the message when one is missing."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import torch

from fx_explorer import cli
from fx_explorer.capture.torch_compat.versions import fitting_triton
from fx_explorer.capture.virtual_gpu import shim
from fx_explorer.capture.virtual_gpu.cache_directories import hide_real_gpu, not_written
from fx_explorer.capture.virtual_gpu.installing import other_triton
from fx_explorer.errors import WorkerError
from fx_explorer.gpus import find_gpu
from tests.capture.virtual_gpu.conftest import ForGpu, needs_triton
from tests.exhaustive import in_exhaustive_runs

SMALL = 200_000
"""Bytes; with a C++ library inside it would be ten times as large."""

TORCH = Path(torch.__file__).parent

Compiler = Callable[[str], shim.Compiler]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fx-explorer" / "virtual_gpu"


@pytest.fixture
def fake_compiler(tmp_path: Path) -> Compiler:
    """A compiler that is a shell script; ``$out`` is the file it is to write."""

    def make(script: str) -> shim.Compiler:
        path = tmp_path / "g++"
        find_output = 'for arg in "$@"; do [ "$before" = -o ] && out=$arg; before=$arg; done'
        path.write_text(f"#!/bin/sh\n{find_output}\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return (str(path),)

    return make


# the C++ part


def test_it_is_built_once_for_a_torch_and_a_compiler(
    cache: Path, fake_compiler: Compiler, tmp_path: Path
) -> None:
    compiler = fake_compiler(f'echo built >> {tmp_path}/log; echo library > "$out"')
    first, second = shim.built(TORCH, compiler), shim.built(TORCH, compiler)
    assert first == second
    assert first.read_text() == "library\n"
    assert (tmp_path / "log").read_text() == "built\n"


@pytest.mark.skipif(
    not (shutil.which("readelf") and shutil.which("g++")), reason="needs g++ and readelf"
)
def test_torchs_own_cpp_library_is_the_only_one(cache: Path) -> None:
    """A second one, linked in statically by some compilers, ends torch with "free(): invalid
    pointer".
    """
    library = shim.built(TORCH, shim.compiler())
    dynamic = subprocess.run(
        ["readelf", "-d", str(library)], capture_output=True, text=True, check=True
    ).stdout
    needed = [line for line in dynamic.splitlines() if "(NEEDED)" in line]
    assert any("libtorch_cpu" in line for line in needed)
    assert not any("stdc++" in line for line in needed)
    assert library.stat().st_size < SMALL


def test_another_torch_gets_another_one(
    cache: Path, fake_compiler: Compiler, tmp_path: Path
) -> None:
    other = tmp_path / "torch"
    other.mkdir()
    (other / "version.py").write_text("__version__ = '9.9'")
    compiler = fake_compiler('echo library > "$out"')
    assert shim.key(TORCH, compiler) != shim.key(other, compiler)


def test_another_compiler_gets_another_one(cache: Path, fake_compiler: Compiler) -> None:
    compiler = fake_compiler("true")
    before = shim.key(TORCH, compiler)
    os.utime(compiler[0], ns=(1, 1))
    assert shim.key(TORCH, compiler) != before


def test_two_that_build_at_once_both_get_a_whole_library(
    cache: Path, fake_compiler: Compiler, tmp_path: Path
) -> None:
    """Each waits inside the compiler for a line."""
    os.mkfifo(tmp_path / "gate")
    compiler = fake_compiler(
        f'echo in >> {tmp_path}/log; read line < {tmp_path}/gate; echo library > "$out"'
    )
    found: list[Path] = []
    builders = [
        threading.Thread(target=lambda: found.append(shim.built(TORCH, compiler))) for _ in range(2)
    ]
    for builder in builders:
        builder.start()
    gate = open(tmp_path / "gate", "w")  # noqa: SIM115 - waits until one of them reads
    gate.write("go\ngo\n")
    gate.flush()
    for builder in builders:
        builder.join(60)
    gate.close()
    assert len(found) == 2
    assert {path.read_text() for path in found} == {"library\n"}
    assert [path.name for path in cache.iterdir()] == [found[0].name]


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        WorkerError, match=r"there is no C\+\+ compiler here .*Install g\+\+ or set CXX"
    ):
        shim.compiler({})


def test_a_cxx_that_is_not_there_is_named() -> None:
    with pytest.raises(WorkerError, match="CXX is /nowhere/icc, which does not exist"):
        shim.compiler({"CXX": "/nowhere/icc"})


def test_what_a_compiler_that_fails_says_is_shown(cache: Path, fake_compiler: Compiler) -> None:
    compiler = fake_compiler(
        "echo 'shim.cpp:3:10: fatal error: unrecognized option -std=c++20' >&2; exit 1"
    )
    with pytest.raises(WorkerError) as caught:
        shim.built(TORCH, compiler)
    assert f"{compiler[0]} cannot build the C++ part of the virtual GPU" in str(caught.value)
    assert "Set CXX to a compiler that supports C++20" in str(caught.value)
    assert "fatal error: unrecognized option -std=c++20" in str(caught.value)
    assert list(cache.iterdir()) == []


def test_a_compiler_that_writes_nothing_has_failed(cache: Path, fake_compiler: Compiler) -> None:
    with pytest.raises(WorkerError, match="exit status 0"):
        shim.built(TORCH, fake_compiler("true"))


def test_a_compiler_that_only_warns_has_built_it(cache: Path, fake_compiler: Compiler) -> None:
    compiler = fake_compiler("echo 'warning: something odd' >&2; echo library > \"$out\"")
    assert shim.built(TORCH, compiler).read_text() == "library\n"


def test_a_compiler_that_says_nothing_is_told_so(cache: Path) -> None:
    false = shutil.which("false")
    assert false
    with pytest.raises(
        WorkerError, match=r"false cannot build .*\(exit status 1\).*It said nothing\.$"
    ):
        shim.built(TORCH, (false,))


def test_a_compiler_that_hangs_is_given_up(
    cache: Path, fake_compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "nobody writes")
    monkeypatch.setattr(shim, "BUILD_TIMEOUT_S", 0.2)
    with pytest.raises(
        WorkerError, match=r"took more than 0\.2 s .* Set CXX to another compiler\."
    ):
        shim.built(TORCH, fake_compiler(f"exec cat '{tmp_path}/nobody writes'"))
    assert list(cache.iterdir()) == []


def test_a_file_that_is_no_program_is_not_taken_for_a_full_disk(
    cache: Path, tmp_path: Path
) -> None:
    text = tmp_path / "notes"
    text.write_text("not a program")
    text.chmod(0o755)
    with pytest.raises(
        WorkerError,
        match=r"notes cannot be started: Exec format error\. Set CXX to a C\+\+ compiler",
    ):
        shim.built(TORCH, (str(text),))


def test_a_cxx_may_have_arguments(fake_compiler: Compiler) -> None:
    command = fake_compiler("true")[0]
    assert shim.compiler({"CXX": f"{command} -O2 '-D A'"}) == (command, "-O2", "-D A")


def test_a_compiler_is_called_by_the_name_of_its_link(
    fake_compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``/usr/lib/ccache/g++`` leads to ccache, which alone compiles nothing."""
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "g++").symlink_to(fake_compiler("true")[0])
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert shim.compiler({}) == (str(tmp_path / "links" / "g++"),)


def in_a_process(code: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", f"from fx_explorer.capture.virtual_gpu import shim; {code}"],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@in_exhaustive_runs
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_two_processes_that_start_with_an_empty_cache_both_load_it(cache: Path) -> None:
    both = [
        in_a_process("shim.load(); import torch; shim.use_guard(); print('loaded')")
        for _ in range(2)
    ]
    assert [one.communicate(timeout=300) for one in both] == [("loaded\n", "")] * 2
    assert len(list(cache.iterdir())) == 1


@in_exhaustive_runs
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_half_a_file_is_built_again(cache: Path) -> None:
    library = shim.built(TORCH, shim.compiler())
    whole = library.read_bytes()
    library.write_bytes(whole[:500])
    assert in_a_process("shim.load()").communicate(timeout=300) == ("", "")
    assert library.read_bytes() == whole


def test_what_a_compiler_builds_for_another_machine_is_not_kept(
    cache: Path, fake_compiler: Compiler
) -> None:
    compiler = fake_compiler('echo library > "$out"')
    said = in_a_process("shim.load()", CXX=compiler[0]).communicate(timeout=300)[1]
    assert f"{compiler[0]} built a C++ part of the virtual GPU that cannot be loaded" in said
    assert list(cache.iterdir()) == []


def test_a_full_disk_is_told_as_the_compiler_tells_it(cache: Path, fake_compiler: Compiler) -> None:
    compiler = fake_compiler(
        "echo '/usr/bin/ld: final link failed: No space left on device' >&2; exit 1"
    )
    with pytest.raises(WorkerError, match="No space left on device"):
        shim.built(TORCH, compiler)


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(
        WorkerError, match=r"file/fx-explorer.*cannot be written.*set XDG_CACHE_HOME"
    ):
        hide_real_gpu(find_gpu("h100"), {})


def raised(file: str, error: OSError) -> BaseException:
    """``error`` as a line of ``file`` raised it, in what Inductor makes of it."""
    names: dict[str, object] = {"error": error}
    exec(compile("def write():\n    raise error", file, "exec"), names)
    try:
        try:
            names["write"]()  # type: ignore[operator]
        except OSError as inner:
            raise RuntimeError(f"OSError: {inner}").with_traceback(inner.__traceback__) from None
    except RuntimeError as outer:
        return outer


NO_SPACE = (errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("package", ["torch/_inductor/codecache.py", "triton/runtime/cache.py"])
def test_a_disk_that_a_compiler_fills_is_told_with_what_to_do(cache: Path, package: str) -> None:
    told = not_written(raised(f"/lib/site-packages/{package}", OSError(*NO_SPACE)))
    assert told.startswith(
        f"the virtual GPU keeps files in {cache.parent}, which cannot be written: No space left on device."
    )
    assert "set XDG_CACHE_HOME" in told


def test_a_file_of_the_programs_own_is_left_to_the_program(cache: Path) -> None:
    assert not_written(raised("/home/me/model.py", OSError(*NO_SPACE))) == ""
    assert (
        not_written(
            raised(
                "/lib/torch/serialization.py",
                PermissionError(errno.EACCES, "no", "/home/me/model.pt"),
            )
        )
        == ""
    )
    assert (
        not_written(
            raised("/lib/triton/cache.py", FileNotFoundError(errno.ENOENT, "No such file", "ptxas"))
        )
        == ""
    )


def test_a_directory_of_ours_that_is_read_only_is_told(cache: Path) -> None:
    path = str(cache / "h100" / "triton" / "x.ttir")
    assert "Read-only file" in not_written(
        raised("/lib/triton/cache.py", OSError(errno.EROFS, "Read-only file system", path))
    )


def test_a_real_gpu_is_hidden_and_its_caches_are_not_used(cache: Path) -> None:
    environ = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "TRITON_CACHE_DIR": "/real/triton",
        "TORCHINDUCTOR_CACHE_DIR": "/real/inductor",
    }
    hide_real_gpu(find_gpu("mi300x"), environ)
    assert [
        environ[name]
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    ] == [""] * 3
    assert environ["TRITON_CACHE_DIR"] == str(cache / "mi300x" / "triton")
    assert environ["TORCHINDUCTOR_CACHE_DIR"] == str(cache / "mi300x" / "inductor")


# triton


@pytest.fixture
def with_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a module before all others of the worker's."""

    def write(name: str, text: str) -> None:
        (tmp_path / "first" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "first" / name).write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "first"))

    return write


def test_without_triton_it_says_what_to_install(
    for_gpu: ForGpu, with_module: Callable[[str, str], None], tmp_path: Path
) -> None:
    with_module("sitecustomize.py", "import sys\nsys.modules['triton'] = None\n")
    (tmp_path / "model.py").write_text("model = 1\n")
    ended = for_gpu(tmp_path / "model.py", "h100", python=sys.executable)
    assert ended.outcome.kind == "not_started"
    assert ended.outcome.message.startswith(
        f"the virtual GPU needs triton, which {sys.executable} does not have. Install it there"
    )


@needs_triton
def test_a_triton_of_another_version_that_lacks_something_is_named(
    for_gpu: ForGpu, with_module: Callable[[str, str], None], tmp_path: Path
) -> None:
    with_module("triton/__init__.py", "__version__ = '1.0'\n")
    (tmp_path / "program.py").write_text("import torch\nprint('not reached')\n")
    ended = for_gpu(tmp_path / "program.py", "a100", as_script=True, python=sys.executable)
    assert ended.outcome.kind == "not_started"
    assert (
        f"cannot be set up with torch {metadata.version('torch')} and triton"
        in ended.outcome.message
    )
    assert "Triton's driver failed" in ended.outcome.message
    assert ended.printed() == []


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        ("3.7.1", "3.7", ""),
        ("3.7.1", "3.7.1", ""),
        ("3.9.0", "", ""),
        ("3.70.1", "3.7", "triton 3.70.1 is installed"),
        ("3.6.0", "3.7.1", "needs 3.7.1: the code may differ"),
    ],
)
def test_a_triton_that_does_not_go_with_torch_is_told(
    monkeypatch: pytest.MonkeyPatch, found: str, wanted: str, said: str
) -> None:
    monkeypatch.setattr("fx_explorer.capture.virtual_gpu.installing.version_of", lambda name: found)
    monkeypatch.setattr("fx_explorer.capture.torch_compat.versions.fitting_triton", lambda: wanted)
    told = other_triton()
    assert said in told
    assert bool(told) == bool(said)


def test_the_triton_of_the_constraints_goes_with_their_torch() -> None:
    """When the tests run with the torch that is pinned, so does what we say goes with it."""
    lines = (Path(__file__).parents[3] / "constraints.txt").read_text().splitlines()
    pinned = {
        line.split("==")[0]: line.split("==")[1].split(";")[0] for line in lines if "==" in line
    }
    if torch.__version__.split("+")[0] == pinned["torch"]:
        assert pinned["triton"].startswith(fitting_triton())


# options that contradict each other


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--gpu", "h100", "--build"],
            "--build cannot be combined with --gpu: nothing can run on a virtual GPU",
        ),
        (["--gpu", "h100", "--use-caches"], "--use-caches cannot be combined with --gpu"),
        (
            ["--gpu", "h100", "--backend", "aot_eager"],
            "--gpu needs the backend inductor or regional_inductor",
        ),
        (["--no-weights"], "--no-weights needs --gpu"),
        (["--gpu", "h1000"], "there is no GPU called 'h1000'; there are a100"),
    ],
)
def test_what_cannot_be_done_without_the_gpu_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], said: str
) -> None:
    assert cli.main(["capture", "model.py", "-o", str(tmp_path / "s.fxs"), *options]) == 2
    assert said in capsys.readouterr().err
