"""These helpers make captures for virtual GPUs: each worker takes some seconds to start, so equal
captures are shared.
"""

from __future__ import annotations

import asyncio
import importlib.util
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.gpus import find_gpu
from fx_explorer.session import SessionReader
from tests.shared_files import digest, locked
from tests.worker.capturing import Ended, capture

HERE = Path(__file__).parent

ForGpu = Callable[..., Ended]

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="there is no triton here"
)


@pytest.fixture(scope="session")
def own_cache(shared_folder: Path) -> Iterator[Path]:
    """The shim is built here once, and the user's own cache is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        cache = shared_folder / "cache"
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield cache


@pytest.fixture(scope="session")
def for_gpu(own_cache: Path, shared_folder: Path, request: pytest.FixtureRequest) -> ForGpu:
    """``for_gpu(target, "h100", …)``: a capture with the backend inductor; further arguments are
    those of CaptureRequest.
    """

    def run(target: Path | str, gpu: str, **options: Any) -> Ended:
        output = shared_folder / f"{gpu}-{digest(target, sorted(options.items()))}.fxs"
        kept = output.with_suffix(".pickle")
        with locked(output.with_suffix(".lock")):
            if not kept.exists():
                asked = {
                    "backend": "inductor",
                    "gpu": find_gpu(gpu),
                    "timeout": 600,
                    "output": output,
                    "python": request.getfixturevalue(
                        "warm_python_for_h100" if gpu == "h100" else "warm_python_for_gpus"
                    ),
                }
                asked |= options
                kept.write_bytes(pickle.dumps(asyncio.run(capture(target, **asked))))
        ended: Ended = pickle.loads(kept.read_bytes())
        return ended

    return run


def told(ended: Ended, word: str) -> list[str]:
    """Return the lines that report.py printed: names that ``compiled``, or reasons for ``failed``."""
    return [
        line.removeprefix(f"{word} ") for line in ended.printed() if line.startswith(f"{word} ")
    ]


@pytest.fixture
def opened() -> Iterator[Callable[[Ended], SessionReader]]:
    readers: list[SessionReader] = []

    def open_session(ended: Ended) -> SessionReader:
        readers.append(SessionReader(ended.session))
        return readers[-1]

    yield open_session
    for reader in readers:
        reader.close()
