"""These tests check what is said of patterns that did not match: against what was planted, and
against torch's own answers in a process that knows nothing of fx-explorer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config

from fx_explorer import cli, model
from fx_explorer.capture.inductor import near_match_rows
from fx_explorer.capture.inductor import near_matches as capturing
from fx_explorer.errors import UsageError
from fx_explorer.instruments.passes.near_match_reasons import (
    NOT_RECORDED,
    Near,
    all_near,
    describe_near,
    near_about,
    near_at,
    nearest,
)
from fx_explorer.instruments.passes.view import passes_table
from fx_explorer.session import SessionReader
from tests.capture.recorded import failures, record
from tests.exhaustive import in_exhaustive_runs
from tests.passes import bare_matches, near_misses
from tests.sessions import Written


def all_cases(compile_it: Callable[[Any], Any]) -> None:
    near_misses.register_own()
    with torch._inductor.config.patch(post_grad_custom_pre_pass=near_misses.apply_own):
        for program, inputs in near_misses.CASES:
            compile_it(program)(*inputs())


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    path = tmp_path_factory.mktemp("near") / "s.fxs"
    with record(path, all_cases, record_patterns=True) as reader:
        yield reader


def of(session: SessionReader, function: Callable[..., Any]) -> list[Near]:
    """Return what did not match in a function, the nearest first."""
    compilations = [
        row.id for row in session.rows(model.Compilation) if row.function == function.__name__
    ]
    return [near for near in all_near(session) if near.graph.compilation in compilations]


def line_of(code: str) -> str:
    """Return ``near_misses.py:12``, the place of a line of the planted functions."""
    lines = Path(near_misses.__file__).read_text().splitlines()
    (number,) = [at for at, line in enumerate(lines, 1) if code in line]
    return f"near_misses.py:{number}"


Expected = tuple[Callable[..., Any], str, model.FailedCheck, str, str, str, str]

# Written before the first capture, from the patterns' sources: function, pattern, check, what the
# pattern has, what the graph has, the node that it failed at, the line.
EXPECTED: list[Expected] = [
    (
        near_misses.scale_is_a_tensor,
        "_sfdp_pattern_1_inference",
        "check",
        "if not isinstance(scale_factor, (float, int))",
        "scale_factor = add float32[]",
        "",
        "",
    ),
    (
        near_misses.mask_is_a_number,
        "_sfdp_pattern_5_inference",
        "check",
        "if not hasattr(attn_mask_node, 'meta')",
        "attn_mask_node = 1.0",
        "",
        "",
    ),
    (
        near_misses.probabilities_are_returned,
        "_sfdp_pattern_1_inference",
        "users",
        "1",
        "2: ",
        "div_1",
        line_of("probabilities = torch.matmul"),
    ),
    (
        near_misses.scale_is_missing,
        "_sfdp_pattern_1_inference",
        "operator",
        "aten.div.Tensor",
        "aten.abs.default",
        "abs_1",
        line_of(".abs().softmax"),
    ),
    (
        near_misses.scores_are_cast,
        "_sfdp_pattern_1_inference",
        "operator",
        "aten.div.Tensor",
        "prims.convert_element_type.default",
        "",
        line_of("scores.softmax(dim=-1).to(torch.float32)"),
    ),
    (
        near_misses.sum_is_larger,
        "addmm",
        "check",
        "Shape mismatch",
        "in_shape = torch.Size([3, 8, 8]), mm_shape = (8, 8)",
        "",
        "",
    ),
    (
        near_misses.relu_of_difference,
        "sum_then_relu",
        "operator",
        "aten.add.Tensor",
        "aten.sub.Tensor",
        "sub",
        line_of("torch.relu(x - y)"),
    ),
    (
        near_misses.sigmoid_of_sum,
        "sum_then_relu",
        "last operator",
        "aten.relu.default",
        "aten.sigmoid.default",
        "add",
        line_of("torch.sigmoid(x + y)"),
    ),
    (
        near_misses.sum_is_used_twice,
        "sum_then_relu",
        "users",
        "1",
        "2: relu, mul",
        "add",
        line_of("total = x + y"),
    ),
    (
        near_misses.tripled_difference,
        "doubled_difference",
        "value",
        "2.0",
        "3.0",
        "mul",
        line_of("x * 3.0 - y"),
    ),
    (
        near_misses.narrow_sine,
        "wide_sine",
        "check",
        "if width < least",
        "width = 16, least = 64",
        "",
        "",
    ),
]


@pytest.mark.parametrize("case", EXPECTED, ids=[case[0].__name__ for case in EXPECTED])
def test_the_check_that_failed_is_told_with_both_values(
    session: SessionReader, case: Expected
) -> None:
    function, pattern, check, expected, found, at, line = case
    near = next(each for each in of(session, function) if pattern in each.row.patterns)
    assert near.row.check == check
    assert expected in near.row.expected
    assert found in near.row.found
    if at:
        assert near.row.at == at
    if line:
        assert near.line == line
    sentence = describe_near(session, near)
    assert pattern in sentence
    assert expected in sentence or check == "users"


@pytest.mark.parametrize("case", EXPECTED, ids=[case[0].__name__ for case in EXPECTED])
def test_the_pattern_that_was_meant_is_among_the_nearest(
    session: SessionReader, case: Expected
) -> None:
    function, pattern = case[:2]
    chosen = {near.row.id for near in nearest(session)}
    of_function = [near for near in of(session, function) if near.row.id in chosen]
    position = [pattern in near.row.patterns for near in of_function].index(True)
    assert position < 5


def test_attention_that_matches_did_not_nearly_match(session: SessionReader) -> None:
    chosen = {near.row.id for near in nearest(session)}
    for near in of(session, near_misses.attention):
        if near.row.id in chosen:
            assert not any(name.startswith("_sfdp") for name in near.row.patterns)


def test_nothing_went_wrong_while_recording(session: SessionReader) -> None:
    assert not failures(session)


class StoppedError(Exception):
    """Ends a compilation after its passes: building its kernel would take seconds."""


def stop(graph: torch.fx.Graph) -> None:
    raise StoppedError


def test_torchs_own_answers_are_those_that_are_told(session: SessionReader) -> None:
    """The second source is torch's matcher, which nothing records here."""
    answers = bare_matches.Answers()
    function = near_misses.tripled_difference
    answers.function = function.__name__
    torch._dynamo.reset()
    with (
        answers.watched(),
        torch._inductor.config.patch(
            post_grad_custom_pre_pass=near_misses.apply_own,
            post_grad_custom_post_pass=stop,
            fx_graph_cache=False,
        ),
        pytest.raises(Exception, match="StoppedError"),
    ):
        torch.compile(function)(*near_misses.two_squares())
    bare = {(node, cut(text)) for _, node, text in answers.found}
    recorded = {
        (near.row.name, near.row.torch_says)
        for near in of(session, function)
        if near.row.torch_says
    }
    assert recorded
    assert not recorded - bare
    assert {node for node, _ in bare} <= {near.row.name for near in of(session, function)}


@in_exhaustive_runs
def test_torch_says_the_same_in_a_bare_process(session: SessionReader) -> None:
    """Each failure of torch's matcher that is told in the session is one of a bare process, at the
    same node and in the same words; and each node of the bare process has a row, except those that
    another pattern replaced.
    """
    run = subprocess.run(
        [sys.executable, bare_matches.__file__], capture_output=True, text=True, check=True
    )
    bare = {(function, node, cut(text)) for function, node, text in json.loads(run.stdout)}
    functions = {row.id: row.function for row in session.rows(model.Compilation)}
    recorded: set[tuple[str, str, str]] = set()
    nodes: set[tuple[str, str]] = set()
    for near in all_near(session):
        function = functions[near.graph.compilation]
        nodes.add((function, near.row.name))
        if near.row.torch_says:
            recorded.add((function, near.row.name, near.row.torch_says))
    assert recorded
    assert not recorded - bare
    assert not {each[:2] for each in bare} - REPLACED - nodes


REPLACED = {("attention", "view_5")}
"""Functions, and nodes of them at which a pattern matched before others were tried."""


def cut(text: str) -> str:
    most = near_match_rows.MOST_CHARACTERS
    return text if len(text) <= most else f"{text[: most - 1]}…"


def test_a_pattern_without_any_of_its_operators_says_so(session: SessionReader) -> None:
    (near,) = [
        near for near in of(session, near_misses.narrow_sine) if "never_there" in near.row.patterns
    ]
    assert describe_near(session, near) == (
        "never_there: no node calls its last operator, aten.sinh.default."
    )


def test_a_name_or_a_node_chooses(session: SessionReader) -> None:
    assert {name for near in near_about(session, "wide_s") for name in near.row.patterns} == {
        "wide_sine"
    }
    of_node = near_about(session, "abs_1")
    assert of_node
    assert {near.row.at for near in of_node} >= {"abs_1"}
    graphs = {row.id: row for row in session.rows(model.Graph)}
    node = next(
        node
        for node in session.rows(model.Node, name="abs_1")
        if graphs[node.graph].stage == "post_grad"
    )
    assert "_sfdp_pattern_1_inference" in near_at(session, node)[0].row.patterns or any(
        "_sfdp_pattern_1_inference" in near.row.patterns for near in near_at(session, node)[:4]
    )


def test_the_view_lists_them_below_their_graph(session: SessionReader) -> None:
    table = passes_table(session)
    rows = [row.cells for row in table.rows]
    heading = ("patterns that nearly matched", "1 time", "", "", "")
    assert any(row[0] == heading[0] for row in rows)
    (row,) = [row for row in table.rows if row.cells[3] == "wide_sine" and row.cells[0] == "sin"]
    assert row.cells[1] == "1 of 1 there"
    assert row.detail is not None
    assert "near_misses.py:" in row.detail().text
    assert row.find_place is not None
    assert row.find_place() is not None
    assert "A pattern nearly matched" in table.answer


def test_ask_has_the_nearest_and_those_of_a_name(session: SessionReader, capsys: Any) -> None:
    assert cli.main(["ask", str(session.path), "patterns", "wide_sine"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["answer"].startswith("wide_sine matched its node at sin (post_grad: ")
    assert answer["rows"][0]["found"] == "width = 16, least = 64"
    assert cli.main(["ask", str(session.path), "patterns"]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == len(nearest(session))
    assert cli.main(["ask", str(session.path), "patterns", "no_such_thing"]) == UsageError.exit_code
    assert "no tried pattern" in capsys.readouterr().err


def test_a_session_without_them_says_how_to_record(written: Written, capsys: Any) -> None:
    session = written(lambda writer: writer.set_meta("target", {"kind": "file", "spec": "m.py"}))
    assert cli.main(["ask", str(session.path), "patterns"]) == 0
    assert json.loads(capsys.readouterr().out)["answer"] == NOT_RECORDED


def test_nothing_is_recorded_and_nothing_watched_where_it_is_not_asked_for(tmp_path: Path) -> None:
    before = near_misses.OWN.patterns
    checks = [entry.extra_check for entries in before.values() for entry in entries]

    def program(compile_it: Callable[[Any], Any]) -> None:
        compile_it(near_misses.narrow_sine)(*near_misses.two_squares())

    with record(tmp_path / "s.fxs", program) as reader:
        assert not reader.rows(model.NearMatch)
    after = [entry.extra_check for entries in before.values() for entry in entries]
    assert all(old is new for old, new in zip(checks, after, strict=True))


def test_checks_of_patterns_are_torchs_again_afterwards(session: SessionReader) -> None:
    for entries in near_misses.OWN.patterns.values():
        for entry in entries:
            assert not isinstance(entry.extra_check, capturing._WatchedCheck)


def refuse_loudly(match: Any) -> bool:
    raise ValueError("this check fails")


def test_a_check_that_raises_ends_as_it_does_alone(tmp_path: Path) -> None:
    own = torch._inductor.pattern_matcher.PatternMatcherPass(pass_name="raising")
    pattern = torch._inductor.pattern_matcher.CallFunction(
        torch.ops.aten.sin.default, torch._inductor.pattern_matcher.Arg()
    )
    register = torch._inductor.pattern_matcher.register_graph_pattern(
        pattern, extra_check=refuse_loudly, pass_dict=own
    )
    register(lambda match, x: None)

    def program(compile_it: Callable[[Any], Any]) -> None:
        with pytest.raises(Exception, match="this check fails"):
            compile_it(near_misses.narrow_sine)(*near_misses.two_squares())

    def apply(graph: torch.fx.Graph) -> None:
        own.apply(graph)

    with torch._inductor.config.patch(post_grad_custom_pre_pass=apply):
        record(tmp_path / "s.fxs", program, record_patterns=True).close()
    (entries,) = own.patterns.values()
    assert entries[0].extra_check is refuse_loudly
    assert sys.gettrace() is None
