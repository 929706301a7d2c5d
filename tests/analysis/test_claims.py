"""These tests check that sentences of the overview that claim something of everything appear only
where it is true.
"""

from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionWriter
from tests.capture.recorded import Compile, record


def one(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def many(x: torch.Tensor, way: str) -> torch.Tensor:
    return x + len(way)


def texts(path: Path, program: object) -> list[str]:
    with torch._dynamo.config.patch(recompile_limit=1):
        reader = record(path, program, backend="eager")  # type: ignore[arg-type]
    with SessionWriter(path) as writer:
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    return [fact.text for fact in overview(reader)]


def test_all_is_said_where_all_was_compiled(tmp_path: Path) -> None:
    said = texts(tmp_path / "s.fxs", lambda compile_: compile_(one)(torch.ones(2)))
    assert any(text.startswith("Everything became one graph") for text in said)
    assert "No graph breaks: Python never had to step in." in said


def refused(compile_: Compile) -> None:
    compiled = compile_(many)
    for way in ("a", "bb"):
        compiled(torch.ones(2), way)


def failed(compile_: Compile) -> None:
    compile_(one)(torch.ones(2))

    def breaking(graph: object, inputs: object) -> object:
        raise RuntimeError("a backend of no use")

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        torch.compile(lambda x: x - 1, backend=breaking)(torch.ones(2))


@pytest.mark.parametrize("program", [refused, failed])
def test_it_is_not_said_where_a_call_ran_uncompiled_or_failed(
    tmp_path: Path, program: object
) -> None:
    said = texts(tmp_path / "s.fxs", program)
    assert not any(
        text.startswith("Everything became") or "never had to step in" in text for text in said
    )
