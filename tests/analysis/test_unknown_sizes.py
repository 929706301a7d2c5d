"""These tests check that a squeeze of a size known only at run time is found in recorded graphs,
and that a squeeze of a known size is not.
"""

from __future__ import annotations

from pathlib import Path

import torch

from fx_explorer import model
from fx_explorer.instruments.fixes.trial import squeezed_unknown_sizes, with_what_no_call_shows
from tests.capture.recorded import Compile, record


def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    chosen = (x > 0).nonzero()
    every = chosen.squeeze() * 2
    first = torch.squeeze(x[x > 0], 0) * 2
    of_known_size = chosen.squeeze(-1) + 1
    unknown_by_name = x[x > 0].view(-1, 1).squeeze(dim=-2)
    without_a_choice = x.view(1, -1).squeeze()
    return every, first, of_known_size, unknown_by_name, without_a_choice


def called(compile: Compile) -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compile(program)(torch.linspace(-1, 1, 6))


EQUAL = model.Verification(
    0, True, True, ("the example inputs",), {"output": 2}, 0.0, "", (), (), ()
)


def test_a_squeeze_is_named_where_the_size_it_asks_for_is_not_known(tmp_path: Path) -> None:
    reader = record(tmp_path / "squeezed.fxs", called, backend="eager")
    begins = program.__code__.co_firstlineno
    places = [(Path(file).name, line - begins) for file, line in squeezed_unknown_sizes(reader)]
    assert places == [("test_unknown_sizes.py", line) for line in (2, 3, 5)]
    told = with_what_no_call_shows(reader, EQUAL).not_compared
    assert told[0] == (
        f"a size of 1 at the squeeze in test_unknown_sizes.py:{begins + 2}, which torch "
        "assumes never to occur"
    )
