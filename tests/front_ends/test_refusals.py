"""These tests check the errors of front ends: the reason, in plain words, with the user's line. The
line is found in the file by its comment.
"""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
import torch

from fx_explorer.instruments.front_ends.answers import refusal
from fx_explorer.session import SessionReader
from tests.front_ends import programs
from tests.front_ends.conftest import Traced

X = torch.ones(3, 4)


@pytest.mark.parametrize(
    ("target", "front_end", "mark", "said", "why"),
    [
        (programs.Branch, "symbolic_trace", "BRANCH", "TraceError", "choose a branch at an if"),
        (
            programs.Branch,
            "export",
            "BRANCH",
            "GuardOnDataDependentSymNode",
            "depends on the content of a tensor",
        ),
        (
            programs.Branch,
            "make_fx",
            "BRANCH",
            "RuntimeError",
            "Python number read from a tensor",
        ),
        (
            programs.Iterated,
            "symbolic_trace",
            "ITERATED",
            "TraceError",
            "whose length is unknown",
        ),
        (
            programs.Counted,
            "symbolic_trace",
            "COUNTED",
            "RuntimeError",
            "len() must return a number",
        ),
        (programs.Sized, "symbolic_trace", "SIZED", "TypeError", "Python needs a real number here"),
        (programs.Item, "make_fx", "ITEM", "RuntimeError", "Python number read from a tensor"),
        (programs.Numpy, "symbolic_trace", "NUMPY", "TypeError", "NumPy needs the memory"),
        (programs.Numpy, "export", "NUMPY", "RuntimeError", "NumPy needs the memory of a tensor"),
        (
            programs.Hidden,
            "symbolic_trace",
            "HIDDEN",
            "NameError",
            "is not an attribute of the model",
        ),
        (
            programs.Inner,
            "symbolic_trace",
            "INNER",
            "RuntimeError",
            "gave a part of the target to torch.compile",
        ),
        (
            programs.Returns,
            "symbolic_trace",
            "",
            "NotImplementedError",
            "an object that a graph cannot return",
        ),
        (programs.Returns, "export", "", "RuntimeError", "must split it"),
        (programs.Raises, "make_fx", "RAISES", "KeyError", "runs the code once with real tensors"),
        (programs.Exits, "export", "", "SystemExit", "needs one graph"),
    ],
)
def test_a_refusal_is_told_in_plain_words_with_the_users_line(
    target: type[torch.nn.Module], front_end: str, mark: str, said: str, why: str, traced: Traced
) -> None:
    row = traced(target(), X, only=(front_end,))[front_end]
    assert row.state == "refused"
    assert row.error.startswith(said)
    if mark:
        assert (row.file, row.line) == (programs.__file__, programs.line_of(mark))
        assert row.code.endswith(mark)
    told = refusal(row)
    assert told is not None
    assert why in told.why


def test_a_front_end_that_needs_too_long_is_stopped(
    traced: Traced, opened: list[SessionReader]
) -> None:
    began = time.monotonic()
    row = traced(programs.Slow(), X, only=("make_fx",), limit_s=1)["make_fx"]
    assert time.monotonic() - began < 30
    assert row.state == "timed_out"
    assert "It had not ended after 1 s" in row.error


def test_a_model_that_writes_to_itself_is_as_it_was_and_it_is_told(traced: Traced) -> None:
    model = programs.Counter()
    rows = traced(model, X)
    assert model.calls == 0
    assert model.total.equal(torch.zeros(4))
    assert any("sets calls" in remark for remark in rows["make_fx"].remarks)


def test_a_target_that_cannot_be_copied_is_put_back(traced: Traced) -> None:
    model = programs.CannotBeCopied()
    x = X.clone()
    rows = traced(model, x)
    assert "there can be only one" in rows["make_fx"].remarks[0]
    assert (model.calls, model.total.tolist(), x.tolist()) == (0, [0.0] * 4, X.tolist())


def test_front_ends_get_the_target_as_it_was_before_the_call(traced: Traced) -> None:
    """It is called between: what it wrote to itself and to its input is not what is traced."""
    model, x = programs.Counter(), X.clone()
    traced(model, x, only=("make_fx",), before=lambda: (model(x), x.add_(5)))
    assert model.calls == 1
    row = traced(programs.Silent(), x, only=("export",))["export"]
    assert row.state == "made"


@pytest.mark.parametrize("kind", ["module", "in place", "function"])
def test_a_compiled_target_is_traced_as_what_it_was_compiled_from(
    kind: str, traced: Traced
) -> None:
    if kind == "function":
        target: Any = torch.compile(programs.function)
    elif kind == "module":
        target = torch.compile(torch.nn.Linear(4, 4))
    else:
        target = torch.nn.Linear(4, 4)
        target.compile()
    rows = traced(target, X)
    assert {row.state for row in rows.values()} == {"made"}
    assert all(re.search("compiled", row.remarks[0]) for row in rows.values())


def test_lambdas_methods_and_keywords_are_traced(traced: Traced) -> None:
    model = torch.nn.Linear(4, 4)
    for target in (lambda x: x.relu() + 1, programs.function, model.forward):
        assert {row.state for row in traced(target, X).values()} == {"made"}
    rows = traced(programs.function, X, only=("export", "make_fx"), scale=3.0)
    assert {row.state for row in rows.values()} == {"made"}
    assert "scale became positional" in rows["make_fx"].remarks[-1]


def test_what_a_model_prints_while_it_is_traced_is_dropped(
    traced: Traced, capsys: pytest.CaptureFixture[str]
) -> None:
    def loud(x: torch.Tensor) -> torch.Tensor:
        print("again")
        return x + 1

    traced(loud, X)
    assert capsys.readouterr().out == ""
