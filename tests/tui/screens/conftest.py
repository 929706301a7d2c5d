"""These fixtures have the kept screens: the option that draws them again, and the sessions they are
drawn from.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

RECORDED = Path(__file__).parents[2] / "data" / "screens"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-screens", action="store_true", help="keep the screens as they are drawn now"
    )


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-screens", default=False))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sessions of tests/data/screens, by name."""
    folder = tmp_path_factory.mktemp("screens")
    found = {}
    for packed in sorted(RECORDED.glob("*.fxs.gz")):
        name = packed.name.partition(".")[0]
        found[name] = folder / f"{name}.fxs"
        found[name].write_bytes(gzip.decompress(packed.read_bytes()))
    return found
