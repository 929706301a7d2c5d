"""These tests check which call of a function made each compilation, against a count in the program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer import model
from fx_explorer.analysis.compiled_calls import call_numbers
from fx_explorer.answers.what_was_compiled import of_recompiles
from tests.capture.recorded import record

Calls = dict[str, int]


def stepped(x: torch.Tensor, epoch: int) -> torch.Tensor:
    return x * 2 if epoch < 3 else x * 3


def broken(x: torch.Tensor, epoch: int) -> torch.Tensor:
    y = x * 2
    torch._dynamo.graph_break()
    return y * 3 if epoch < 3 else y * 4


@pytest.mark.parametrize("build", [False, True])
@pytest.mark.parametrize("function", [stepped, broken])
def test_the_number_of_the_call_is_that_of_the_program(
    function: Callable[..., Any], build: bool, tmp_path: Path
) -> None:
    made_by: Calls = {}

    def program(compile_it: Callable[[Any], Any]) -> None:
        compiled = compile_it(function)
        known = 0
        for call, (size, epoch) in enumerate([(4, 0), (4, 0), (5, 0), (6, 0), (6, 1), (6, 7)], 1):
            compiled(torch.ones(size), epoch)
            now = torch._dynamo.utils.counters["stats"]["unique_graphs"]
            if now > known:
                made_by[str(call)] = known = now

    with record(tmp_path / "s.fxs", program, backend="aot_eager", build=build) as session:
        numbers = call_numbers(session)
        rows = session.rows(model.Compilation, variant_of="")
        told = {str(numbers[row.id]) for row in rows if row.status in ("ok", "broke")}
        answer = of_recompiles(session)
    assert told == set(made_by)
    assert f"(call 3 of {function.__name__}): size 0 of x was 4 and now is 5." in answer.text
    assert answer.text.endswith("The recompile limit was not reached.")


def test_a_call_number_is_not_told_where_calls_ran_in_eager_mode(tmp_path: Path) -> None:
    def program(compile_it: Callable[[Any], Any]) -> None:
        with torch.compiler.set_stance("eager_then_compile"):
            compiled = compile_it(stepped)
            compiled(torch.ones(4), 0)
            compiled(torch.ones(4), 0)

    with record(tmp_path / "s.fxs", program, backend="aot_eager") as session:
        assert call_numbers(session) == {}
