"""These tests check that only stages of the current backend can be run to."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fx_explorer.model import GATES, Compilation
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.controllers.stepping import Stepping

OF_INDUCTOR_IN_ORDER = ["pre_grad", "post_grad", "pre_fusion", "post_fusion", "output_code"]
"""A backend of one's own may call Inductor."""


@pytest.mark.parametrize(
    ("backends", "gates"),
    [
        (["inductor"], [gate for gate in GATES if gate != "backend"]),
        (["mine.py:compile"], ["dynamo", "joint", "partition", "backend", *OF_INDUCTOR_IN_ORDER]),
        (["inductor", "mine.py:compile"], list(GATES)),
    ],
)
def test_the_gates_that_are_offered_are_those_of_the_backend(
    backends: list[str], gates: list[str], tmp_path: Path
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        for number, backend in enumerate(backends):
            writer.add(Compilation(0, f"{number}/0", number, 0, "f", "net.py", 1, backend=backend))
    with SessionReader(tmp_path / "s.fxs") as reader:
        services: Any = SimpleNamespace(stepped_session=reader, app=None)
        assert Stepping(services)._gates_ahead() == gates
