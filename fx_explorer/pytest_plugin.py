"""The pytest plugin: the marker ``fx`` and the fixture ``fx_capture``.

pytest imports it in each run of each project that has fx-explorer, so it imports nothing until a
test uses it.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fx_explorer.testing import Recorded

MARKER = (
    "fx(max_graph_breaks=0, max_recompiles=…, no_fallbacks=True, expect_fused=(a, b), "
    "baseline=FILE, own=PATH, build=True, …): conditions for torch.compile in this test, like the "
    "options of fx-explorer check"
)


FX_TRY = (
    "at the end of the run, try changes that may make failed tests of the marker fx pass, each in "
    "its own process, and add the results to the failures"
)

FX_TRY_SECONDS = 120.0
"""Seconds that the trials of one run take at most, unless told otherwise."""

_SESSION = "fx_session"
"""Name of the property of a failed test's report that has its session."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fx-explorer")
    group.addoption("--fx-try", action="store_true", default=False, help=FX_TRY)
    group.addoption(
        "--fx-try-seconds",
        type=float,
        default=FX_TRY_SECONDS,
        metavar="S",
        help="maximum time of --fx-try in seconds (default: %(default)s)",
    )
    parser.addini("fx_try", f"{FX_TRY} (as --fx-try)", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """In a process that --fx-try started, make the change before a file of the user's is
    imported.
    """
    if "FX_EXPLORER_CHANGE_OF_TEST" in os.environ:
        from fx_explorer.fixes_of_tests import make_change

        early_config.stash[_MAKES_SETTINGS] = make_change()


_MAKES_SETTINGS = pytest.StashKey[Callable[[], None] | None]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


# Last, so that what pytest itself puts around a test is there already: its handlers of logs.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record a marked test, and judge it when it has passed. The session of one that holds is
    removed: those of a whole suite would take gigabytes.
    """
    marker = item.get_closest_marker("fx")
    if marker is None:
        return (yield)
    from fx_explorer.testing import Recorded, checked_conditions, recorded

    if marker.args:
        pytest.fail(f"the marker fx takes only keyword arguments, as in {MARKER}", pytrace=False)
    conditions = dict(marker.kwargs)
    _explained(lambda: checked_conditions(conditions))
    session = _session_of(item.config, item.nodeid)
    if make_settings := item.config.stash.get(_MAKES_SETTINGS, None):
        make_settings()
    with contextlib.ExitStack() as recording:
        _explained(
            lambda: recording.enter_context(recorded(session, build=conditions.get("build", True)))
        )
        result = yield
    # unittest keeps what a test raised for itself.
    if not getattr(item, "_excinfo", None):
        _explained(lambda: Recorded(session).check(**conditions))
        session.unlink()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remove the session of a marked test that was skipped, and name that of one that failed."""
    report = yield
    if "FX_EXPLORER_RESULT_OF_TEST" in os.environ:
        from fx_explorer.fixes_of_tests import note_result

        note_result(report.outcome, report.longreprtext)
    if item.get_closest_marker("fx") is None or not _has_cache(item.config):
        return report
    session = _session_of(item.config, item.nodeid)
    if report.skipped:
        session.unlink(missing_ok=True)
    elif report.failed and session.exists():
        report.user_properties.append((_SESSION, str(session)))
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Try changes for the failed tests, before pytest shows the failures."""
    config = session.config
    is_worker = hasattr(config, "workerinput")
    if is_worker or not (config.getoption("fx_try") or config.getini("fx_try")):
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or "FX_EXPLORER_CHANGE_OF_TEST" in os.environ:
        return
    from fx_explorer.fixes_of_tests import try_changes

    deadline = time.monotonic() + config.getoption("fx_try_seconds")
    for report in reporter.stats.get("failed", []):
        recorded = dict(report.user_properties).get(_SESSION)
        if recorded is None:
            continue
        reporter.write_line("")
        reporter.write_line(f"fx-explorer: trying changes for {report.nodeid}")
        lines = try_changes(
            Path(recorded),
            report.nodeid,
            _arguments_of_trial(config),
            config.rootpath,
            max(0.0, deadline - time.monotonic()),
        )
        report.sections.append(("fx-explorer: changes that were tried", "\n".join(lines)))


def _arguments_of_trial(config: pytest.Config) -> list[str]:
    """Return pytest's arguments for one test in a process: the project's own settings, in this
    process alone, without its records of earlier runs.
    """
    arguments = ["-p", "no:cacheprovider", f"--rootdir={config.rootpath}"]
    for plugin in config.option.plugins:
        arguments += ["-p", plugin]
    if config.inipath:
        arguments += ["-c", str(config.inipath)]
    if config.pluginmanager.hasplugin("xdist"):
        arguments += ["-n", "0"]
    return arguments


def _explained(judge: Callable[[], object]) -> None:
    """Call ``judge``, and fail the test with its message alone."""
    from fx_explorer.errors import FxExplorerError
    from fx_explorer.testing import NotAsExpected

    message = ""
    try:
        judge()
    except NotAsExpected as error:
        message = str(error)
        if "may help, not tried:" in message:
            message += "\npytest --fx-try tries changes that may help, in a separate process"
    except FxExplorerError as error:
        message = str(error)
    # Outside of the block, or pytest shows the message twice, as that of one error during another.
    if message:
        pytest.fail(message, pytrace=False)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """Name the session of a test whose xdist worker died: it has everything up to that moment."""
    if not _has_cache(sched.config):
        return
    session = _session_of(sched.config, crashitem)
    if session.exists():
        report.longrepr = f"{report.longrepr}\nsession: fx-explorer {session}"


def _has_cache(config: pytest.Config) -> bool:
    return getattr(config, "cache", None) is not None


def _session_of(config: pytest.Config, nodeid: str) -> Path:
    """Return the session file of a test, beside pytest's other records of it; without such, in a
    new temporary folder.
    """
    import hashlib

    name = re.sub(r"[^\w.-]+", "_", nodeid.rpartition("::")[2])[:60]
    digest = hashlib.sha256(nodeid.encode(errors="backslashreplace")).hexdigest()[:8]
    if _has_cache(config):
        folder = Path(config.cache.mkdir("fx-explorer"))
    else:
        import tempfile

        folder = Path(tempfile.mkdtemp(prefix="fx-explorer-test-"))
    return folder / f"{name}-{digest}.fxs"


@pytest.fixture
def fx_capture(
    request: pytest.FixtureRequest,
) -> Callable[..., AbstractContextManager[Recorded]]:
    """Return a function that records a block: ``with fx_capture() as recorded: …``, then
    ``recorded.check(max_graph_breaks=0)``. ``recorded.session`` is the file of the session.
    """
    from fx_explorer.testing import recorded

    number = 0

    def capture(*, build: bool = True) -> AbstractContextManager[Recorded]:
        nonlocal number
        number += 1
        path = _session_of(request.config, request.node.nodeid)
        return recorded(path.with_stem(f"{path.stem}-{number}"), build=build)

    return capture
