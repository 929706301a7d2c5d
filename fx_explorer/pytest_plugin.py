"""The pytest plugin: the marker ``fx`` and the fixture ``fx_capture``.

pytest imports it in each run of each project that has fx-explorer, so it imports nothing until a
test uses it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fx_explorer.testing import Recorded

MARKER = (
    "fx(max_graph_breaks=0, max_recompiles=…, no_fallbacks=True, expect_fused=(a, b), "
    "baseline=FILE, own=PATH, build=True, …): what torch.compile may do in this test, as the "
    "options of fx-explorer check"
)


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
        pytest.fail(f"the marker fx takes names, as in {MARKER}", pytrace=False)
    conditions = dict(marker.kwargs)
    _explained(lambda: checked_conditions(conditions))
    session = _session_of(item.config, item.nodeid)
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
    """Remove the session of a marked test that was skipped."""
    report = yield
    if report.skipped and item.get_closest_marker("fx") and _has_cache(item.config):
        _session_of(item.config, item.nodeid).unlink(missing_ok=True)
    return report


def _explained(judge: Callable[[], object]) -> None:
    """Call ``judge``, and fail the test with its message alone."""
    from fx_explorer.errors import FxExplorerError
    from fx_explorer.testing import NotAsExpected

    message = ""
    try:
        judge()
    except (NotAsExpected, FxExplorerError) as error:
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
