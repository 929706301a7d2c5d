"""These tests check the answer about lines: which are in graphs and which run in eager mode."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer.analysis.source_statements import statements
from fx_explorer.answers.answer import Answer
from fx_explorer.answers.of_lines import of_lines
from fx_explorer.answers.what_was_compiled import of_breaks, of_eager_functions
from fx_explorer.errors import UsageError
from fx_explorer.overview.compiled_lines import AS_ONE_CALL
from fx_explorer.session import SessionReader
from tests.capture.recorded import record


def test_statements_are_those_that_do_something() -> None:
    text = textwrap.dedent(
        '''\
        import os

        @decorated
        def f(x):
            """Doc."""
            if x:
                y = (
                    1,
                )
            else:
                pass
            try:
                with x as z:
                    def g():
                        return z
            except ValueError:
                raise
        '''
    )
    listed = [(each.first, each.last, each.function.name) for each in statements(text)]
    assert listed == [
        (6, 6, "f"),
        (7, 9, "f"),
        (13, 13, "f"),
        (15, 15, "f.g"),
        (17, 17, "f"),
    ]
    assert statements("def f(:") == []


def printing(x: torch.Tensor) -> torch.Tensor:
    print("eager")
    return x * 2


def broken(x: torch.Tensor, flag: bool) -> torch.Tensor:
    y = x.sin()
    number = y.sum().item()
    z = y * number
    z.cos()
    if flag:
        z = z.tan()
    w = printing(z)
    k = 3 + 4
    return w.relu() + k


def helper(x: torch.Tensor) -> torch.Tensor:
    return x.exp()


def unfinished(x: torch.Tensor) -> torch.Tensor:
    y = helper(x)
    for _ in range(2):
        torch._dynamo.graph_break()
        y = y + 1
    return y


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    def program(compile_it: Callable[[Any], Any]) -> None:
        compile_it(broken)(torch.randn(4), False)
        torch._dynamo.reset()
        compile_it(unfinished)(torch.randn(4))

    path = tmp_path_factory.mktemp("lines") / "lines.fxs"
    with record(path, program) as reader:
        yield reader


def rows_of(session: SessionReader, function: Callable[..., Any]) -> dict[int, dict[str, Any]]:
    """Return line within the function, from 0 for ``def`` → the row of the answer."""
    answer = of_lines(session, function.__name__)
    first = function.__code__.co_firstlineno
    return {int(row["at"].rsplit(":", 1)[1]) - first: row for row in answer.rows}


def test_each_line_is_in_graphs_or_has_a_reason(session: SessionReader) -> None:
    rows = rows_of(session, broken)
    runs = {line: row["runs"] for line, row in rows.items()}
    assert runs == {
        1: "in graphs",
        2: "in graphs and eager",
        3: "in graphs",
        4: "in graphs",
        5: "while compiling",
        6: "not traced",
        7: "eager",
        8: "while compiling",
        9: "in graphs",
    }
    assert rows[1]["targets"] == {"sin": 1}
    assert rows[1]["graphs"] == ["[0/0] Dynamo graph"]
    assert [kernel for kernel in rows[1]["kernels"] if "sin" in kernel]
    assert ".item()" in rows[2]["why"]
    assert rows[4]["kernels"] == []
    assert "not used" in rows[4]["why"]
    assert "another branch" in rows[6]["why"]
    assert "printing is called in eager mode, and compiled separately" in rows[7]["why"]
    assert rows[9]["operations"] == 2


def test_lines_of_a_function_of_which_nothing_is_compiled_are_eager(
    session: SessionReader,
) -> None:
    """The break is in a loop, so that torch gives the whole function up."""
    rows = rows_of(session, unfinished)
    assert {row["runs"] for row in rows.values()} == {"eager"}
    break_line = unfinished.__code__.co_firstlineno + 3
    assert f"cannot resume after the graph break at test_lines.py:{break_line}" in rows[4]["why"]
    assert rows_of(session, helper)[1]["runs"] == "in graphs"
    (given_up,) = [
        row for row in of_eager_functions(session).rows if row["function"] == "unfinished"
    ]
    assert given_up["line"] == unfinished.__code__.co_firstlineno


def test_a_break_in_a_function_that_is_called_has_its_own_line_and_the_callers(
    session: SessionReader,
) -> None:
    breaks = of_breaks(session).rows
    (printed,) = [row for row in breaks if row["code"].startswith("print")]
    assert printed["line"] == printing.__code__.co_firstlineno + 1
    line = broken.__code__.co_firstlineno + 7
    assert printed["callers"] == [f"{Path(__file__)}:{line} in broken"]


def test_lines_of_a_range_and_of_a_file_are_the_same(session: SessionReader) -> None:
    whole = of_lines(session, Path(__file__).name)
    first = broken.__code__.co_firstlineno + 1
    part = of_lines(session, f"{Path(__file__).name}:{first}-{first + 1}")
    assert list(part.rows) == [row for row in whole.rows if row in part.rows]
    assert [row["runs"] for row in part.rows] == ["in graphs", "in graphs and eager"]
    assert isinstance(of_lines(session, ""), Answer)
    with pytest.raises(UsageError, match=r"no file or function .* functions: .*broken"):
        of_lines(session, "nothing_like_it")


def test_a_function_of_a_library_is_found_by_name_and_its_file_is_named(tmp_path: Path) -> None:
    def program(compile_it: Callable[[Any], Any]) -> None:
        compile_it(torch.nn.Linear(4, 4))(torch.randn(2, 4))

    with record(tmp_path / "library.fxs", program) as reader:
        found = of_lines(reader, "Linear.forward")
        own = of_lines(reader, "")
    (row,) = found.rows
    assert row["code"] == "return F.linear(input, self.weight, self.bias)"
    assert row["runs"] == "not recorded", "the recorder notes no lines of torch's own functions"
    assert row["why"] == AS_ONE_CALL
    assert any(name.endswith("linear.py") for name in own.figures["other_files"])
