"""These tests check that every reason for a missing kernel has its own sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer.capture.recording.stage_events import COMPUTES_NOTHING, ONLY_VIEWS
from fx_explorer.model import Compilation, Kernel
from fx_explorer.overview.overview import overview
from tests.capture.recorded import record

NO_OPERATION = "Dynamo captured no tensor operation here"


def refused(module: torch.fx.GraphModule, inputs: object) -> Any:
    raise RuntimeError("not this graph")


REASONS: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "it only returns its input": (lambda x: x, {}, NO_OPERATION),
    "it returns a constant": (lambda x: 3, {}, NO_OPERATION),
    "nothing is left of the operations": (lambda x: (x, x.contiguous()), {}, COMPUTES_NOTHING),
    "a detached input": (lambda x: (x, x.detach()), {}, COMPUTES_NOTHING),
    "views": (lambda x: x.t().view(8, 2)[1:], {}, ONLY_VIEWS),
    "uninitialized memory": (lambda x: torch.empty(4), {}, ONLY_VIEWS),
    "a backend without Inductor": (
        lambda x: x.sin(),
        {"backend": "aot_eager"},
        "backend aot_eager does not use Inductor",
    ),
    "no compiler at all": (
        lambda x: x.sin(),
        {"backend": "eager"},
        "backend eager does not use Inductor",
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_the_reason_for_no_kernels_is_true(tmp_path: Path, name: str) -> None:
    function, options, reason = REASONS[name]
    x = torch.ones(4, 4).t() if name == "views" else torch.ones(4, 4)
    reader = record(tmp_path / "k.fxs", lambda compile_: compile_(function)(x), **options)
    assert not reader.rows(Kernel)
    (compilation,) = reader.rows(Compilation)
    assert compilation.missing_stages is not None
    assert compilation.missing_stages["kernel"] == reason
    told = {fact.text for fact in overview_when_done(reader) if fact.topic == "kernels"}
    assert told == {f"No kernels were generated: {reason}."}


def test_a_backend_that_raises_is_told_as_the_reason(tmp_path: Path) -> None:
    def program(compile_: Any) -> None:
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
            torch.compile(torch.sin, backend=refused)(torch.ones(3))

    reader = record(tmp_path / "f.fxs", program)
    assert {(c.missing_stages or {}).get("kernel") for c in reader.rows(Compilation)} == {
        "compilation failed before it"
    }


def overview_when_done(reader: Any) -> Any:
    """Return the overview as for a capture that came to its end."""
    from fx_explorer.model import Outcome
    from fx_explorer.session import SessionWriter

    with SessionWriter(reader.path) as writer:
        writer.set_meta("outcome", Outcome("finished").to_json())
    return overview(reader)
