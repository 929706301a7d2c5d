"""These fixtures share captures in the whole test session: a sample is captured once for each set
of options.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer.client import forked_workers
from fx_explorer.client.worker_process import WorkerProcess
from fx_explorer.session import SessionReader, SessionWriter
from tests.guard_latency import leave_out_guard_latency
from tests.quick import note_durations, skip_when_time_is_up
from tests.sessions import Written
from tests.shared_files import digest, locked
from tests.warm_servers import served

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_models"

CAPTURE_TIMEOUT_S = 300

Captured = Callable[..., Path]
OpenedReader = Callable[[str | Path], SessionReader]


count_frozen = gc.get_freeze_count


def pytest_configure(config: pytest.Config) -> None:
    """The package has a pytest plugin, so pytest would parse each of its modules to rewrite their
    ``assert``. The app imports modules in a thread, and Python 3.11 sometimes fails to parse in two
    threads at once: "AST constructor recursion depth mismatch".
    """
    rewritten: set[str] = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set())
    rewritten.discard("fx_explorer")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected is no garbage: to look for it took an eighth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """torch and the tests stay in memory: to look through them for garbage again and again took a
    twelfth of their time.
    """
    leave_out_guard_latency()
    gc.collect()
    gc.freeze()
    frozen = count_frozen()
    # Asked at the end of each compile, it counts them one by one. More or none is all that matters.
    gc.get_freeze_count = lambda: frozen
    gc.set_threshold(20_000, 20, 20)


_seconds_of_file: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds_of_file[report.nodeid.partition("::")[0]] += report.duration


def pytest_runtest_setup() -> None:
    skip_when_time_is_up()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Store how long test files took, for ``make quick``; the process that controls the others
    writes it.
    """
    if not hasattr(session.config, "workerinput"):
        note_durations(_seconds_of_file)


@pytest.fixture(scope="session", autouse=True)
def own_state(shared_folder: Path) -> Iterator[None]:
    """The user's own secret, which marks what they captured, is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(shared_folder / "state"))
        yield


@pytest.fixture(scope="session")
def inductor_cache(shared_folder: Path) -> Path:
    """One Inductor cache for all captures, so that the C++ compiler is probed once and a kernel
    built once. Captures bypass its graph caches.
    """
    folder = shared_folder / "inductor"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def capture_environment(inductor_cache: Path) -> dict[str, str]:
    """Environment variables for a process that captures."""
    return {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(inductor_cache), "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="session")
def warm_python(shared_folder: Path, capture_environment: dict[str, str]) -> Iterator[str]:
    """A path to give as ``python`` where the test is not about the process: see warm_python.py,
    whose server runs meanwhile.
    """
    if sys.platform != "linux" or torch.cuda.is_available():  # a forked process cannot use a GPU
        yield sys.executable
        return
    with served(shared_folder / "warm", capture_environment) as python:
        yield python


@pytest.fixture(scope="session")
def warm_python_for_gpus(shared_folder: Path, capture_environment: dict[str, str]) -> Iterator[str]:
    """The same for virtual GPUs, which have to be there before torch's compiler is imported."""
    if not _can_fork_for_gpus():
        yield sys.executable
        return
    environment = {**capture_environment, "XDG_CACHE_HOME": str(shared_folder / "cache")}
    with served(shared_folder / "warm-gpu", environment, "gpu") as python:
        yield python


@pytest.fixture(scope="session")
def warm_python_for_h100(shared_folder: Path, capture_environment: dict[str, str]) -> Iterator[str]:
    """The same for captures on a virtual H100, which most tests ask for: it is set up already, and
    torch's compiler imported after it, which takes 4 s.
    """
    if not _can_fork_for_gpus():
        yield sys.executable
        return
    environment = {**capture_environment, "XDG_CACHE_HOME": str(shared_folder / "cache")}
    with served(shared_folder / "warm-h100", environment, "h100") as python:
        yield python


def _can_fork_for_gpus() -> bool:
    has_triton = importlib.util.find_spec("triton") is not None
    return sys.platform == "linux" and not torch.cuda.is_available() and has_triton


@pytest.fixture(scope="session")
def bare_python(shared_folder: Path) -> Iterator[str]:
    """The same for scripts that are run without fx-explorer: torch alone is imported."""
    if sys.platform != "linux" or torch.cuda.is_available():
        yield sys.executable
        return
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with served(shared_folder / "warm-bare", environment, "bare") as python:
        yield python


@pytest.fixture(scope="session")
def fx_explorer(shared_folder: Path, capture_environment: dict[str, str]) -> Iterator[list[str]]:
    """The words that a command line begins with: ``[*fx_explorer, "check", …]``. Not for the app.
    It is forked from a process that has imported all commands, which takes each half a second.
    """
    if sys.platform != "linux":
        yield [sys.executable, "-m", "fx_explorer"]
        return
    with served(shared_folder / "warm-commands", capture_environment, "commands") as python:
        yield [python, str(ROOT / "fx_explorer" / "__main__.py")]


@pytest.fixture(scope="session", autouse=True)
def forks_nothing() -> Iterator[None]:
    """Workers of this process are started, not forked: what is forked has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forked_workers, "_can_fork", lambda: False)
        yield


@pytest.fixture
def warm_workers(warm_python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that the test starts run in the warm Python, where no other one is named. Not for
    virtual GPUs.
    """
    begin = WorkerProcess.__init__

    def begin_warm(self: WorkerProcess, python: str, *arguments: Any, **named: Any) -> None:
        begin(self, warm_python if python == sys.executable else python, *arguments, **named)

    monkeypatch.setattr(WorkerProcess, "__init__", begin_warm)


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that is shared by all processes of this run of the tests."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def captured(
    shared_folder: Path,
    warm_python: str,
    capture_environment: dict[str, str],
    fx_explorer: list[str],
    request: pytest.FixtureRequest,
) -> Captured:
    """``captured(target, *extra, train=…, …)`` → path of a session, captured the first time and
    kept for the test session.

    ``target`` is the name of a sample (``"mlp"``) or anything the command line takes. Keyword
    arguments are options of ``fx-explorer capture``: ``train=False`` is ``--no-train``,
    ``backend="eager"`` is ``--backend eager``; ``extra`` goes on the command line as it is.
    ``exit_code=3`` says that the capture is expected to end so.
    """

    def capture(target: str | Path, *extra: str, exit_code: int = 0, **options: object) -> Path:
        python = warm_python
        if "gpu" in options:
            is_h100 = options["gpu"] == "h100"
            name = "warm_python_for_h100" if is_h100 else "warm_python_for_gpus"
            python = request.getfixturevalue(name)
        arguments = (_target(target), *_flags({"python": python, **options}), *extra)
        path = shared_folder / f"{Path(str(target)).stem}-{digest(target, options, extra)}.fxs"
        with locked(path.with_suffix(".lock")):
            if not path.exists():
                command = [*fx_explorer, "capture", *arguments, "-o", str(path)]
                ended = subprocess.run(
                    command,
                    env=capture_environment,
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    timeout=CAPTURE_TIMEOUT_S,
                    check=False,
                )
                assert ended.returncode == exit_code, (
                    f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}"
                )
        return path

    return capture


@pytest.fixture(scope="session")
def captured_model(captured: Captured) -> Captured:
    """``captured_model("llama2")`` → path of a captured training step of one of
    benchmarks/models.py; options as above.
    """

    def capture(name: str, *extra: str, **options: object) -> Path:
        file = ROOT / "benchmarks" / "models.py"
        return captured(
            file, *extra, call=f"build('{name}')", inputs=f"inputs('{name}')", **options
        )

    return capture


@pytest.fixture
def reader() -> Iterator[OpenedReader]:
    """``reader(path)`` → a SessionReader that is closed after the test."""
    opened: list[SessionReader] = []

    def open_session(path: str | Path) -> SessionReader:
        opened.append(SessionReader(path))
        return opened[-1]

    yield open_session
    for session in opened:
        session.close()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    """``written(write)`` → a reader of a new session that ``write(writer)`` filled."""
    readers: list[SessionReader] = []

    def make(write: Callable[[SessionWriter], object]) -> SessionReader:
        path = tmp_path / f"{len(readers)}.fxs"
        with SessionWriter(path) as writer:
            write(writer)
        readers.append(SessionReader(path))
        return readers[-1]

    yield make
    for opened in readers:
        opened.close()


def _target(target: str | Path) -> str:
    sample = SAMPLES / f"{target}.py"
    return str(sample) if sample.is_file() else str(target)


def _flags(options: dict[str, object]) -> tuple[str, ...]:
    flags: list[str] = []
    for name, value in sorted(options.items()):
        option = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{option}" if value else f"--no-{option}")
        else:
            flags += [f"--{option}", str(value)]
    return tuple(flags)
