"""The pytest plugin: the marker ``fx`` and the fixture ``fx_capture``.

pytest imports it in each run of each project that has fx-explorer, so it imports nothing until a
test uses it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record a marked test, and judge it when it has passed."""
    marker = item.get_closest_marker("fx")
    if marker is None:
        return (yield)
    from fx_explorer.testing import checked_conditions, recorded

    if marker.args:
        pytest.fail(f"the marker fx takes names, as in {MARKER}", pytrace=False)
    conditions = dict(marker.kwargs)
    _explained(lambda: checked_conditions(conditions))
    with recorded(_session_of(item), build=conditions.get("build", True)) as what:
        result = yield
    # unittest keeps what a test raised for itself.
    if not getattr(item, "_excinfo", None):
        _explained(lambda: what.check(**conditions))
    return result


def _explained(judge: Callable[[], object]) -> None:
    """Call ``judge``, and fail the test with its message alone."""
    from fx_explorer.errors import FxExplorerError
    from fx_explorer.testing import NotAsExpected

    try:
        judge()
    except (NotAsExpected, FxExplorerError) as error:
        pytest.fail(str(error), pytrace=False)


def _session_of(item: pytest.Item) -> Path:
    """Return the session file of a test, beside pytest's other records of it."""
    name = re.sub(r"[^\w.-]+", "_", item.name)[:60]
    digest = hashlib.sha256(item.nodeid.encode(errors="backslashreplace")).hexdigest()[:8]
    cache = getattr(item.config, "cache", None)
    if cache is None:
        import tempfile

        folder = Path(tempfile.mkdtemp(prefix="fx-explorer-test-"))
    else:
        folder = Path(cache.mkdir("fx-explorer"))
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
        path = _session_of(request.node)
        return recorded(path.with_stem(f"{path.stem}-{number}"), build=build)

    return capture
