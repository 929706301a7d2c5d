"""These tests check which kernels are said to be apart, why, and what one kernel would save."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.findings.every_kind import findings, search
from fx_explorer.instruments.fusion.figures import Unfused, distinct_pairs, unfused_pairs
from fx_explorer.instruments.fusion.unfused_reasons import cause_of
from fx_explorer.instruments.fusion.view import NOT_IN_LOG, explain_pair, fusion_table
from fx_explorer.session import SessionReader, SessionWriter
from tests.fusion.test_log import PLANTED
from tests.sessions import Written

X_BYTES = 256 * 128 * 4

LINES = {
    text.split("(")[0].removeprefix("def "): number
    for number, text in enumerate(PLANTED.read_text().split("\n"), 1)
    if text.startswith("def ")
}
"""Function → its first line."""


def pairs_of(reader: SessionReader, function: str) -> list[Unfused]:
    """Return the pairs of a planted function."""
    first = LINES[function]
    last = min((line for line in LINES.values() if line > first), default=10_000)
    found = []
    for pair in unfused_pairs(reader):
        line = pair.second.line or pair.first.line
        if line and first <= line[1] < last:
            found.append(pair)
    return found


@pytest.mark.parametrize(
    ("function", "kind", "saved"),
    [
        # The second kernel reads x again, and another function of it along the other dimension.
        ("transposed", "other order", X_BYTES),
        # Two reads of 255 rows are all 256 rows; exp itself is a result, and is written all the same.
        ("shifted", "other order", X_BYTES),
        # The sum over four rows is unrolled, to a read of each.
        ("unrolled", "other order", 4 * 128 * 4),
        ("other_sizes", "other order", 32 * 128 * 4),
        ("whole_first", "one between", X_BYTES),
        ("whole_first", "split reduction", 2 * 4 * 4),
        ("normalized_twice", "other order", X_BYTES + 256 * 4),
        ("gathered", "other order", X_BYTES),
        ("mutated", "other order", X_BYTES),
        # The product is read by relu alone: it is written and read once.
        ("library", "library call", 2 * 256 * 256 * 4),
    ],
)
def test_planted_pairs(function: str, kind: str, saved: int, captured, reader) -> None:
    pairs = pairs_of(reader(captured(PLANTED, gpu="h100")), function)
    assert (kind, saved) in {(pair.cause.kind, pair.pair.saved_bytes) for pair in pairs}


def test_what_is_fused_is_no_pair(captured, reader) -> None:
    session = reader(captured(PLANTED, gpu="h100"))
    assert not pairs_of(session, "many")
    assert not pairs_of(session, "scan")


def test_a_time_is_the_time_of_both_less_that_of_one(captured, reader) -> None:
    session = reader(captured(PLANTED, gpu="h100"))
    (pair,) = pairs_of(session, "library")
    assert 0 < pair.saved_s < 1e-5


def test_library_calls_stand_last(captured, reader) -> None:
    of_library = [
        pair.is_of_library for pair in unfused_pairs(reader(captured(PLANTED, gpu="h100")))
    ]
    assert of_library == sorted(of_library)
    assert of_library[-1]


def test_the_view_answers_with_the_pair_that_would_save_most(captured, reader) -> None:
    table = fusion_table(reader(captured(PLANTED, gpu="h100")))
    assert table.answer.startswith("The largest saving: #")
    assert "another order" in table.answer
    row = table.rows[0]
    assert row.detail is not None
    text = row.detail().text
    numbers = " and ".join(re.findall(r"#\d+", " ".join(row.cells)))
    assert f"Inductor says of {numbers}: “" in text
    assert "What may change it: " in text
    assert "Not tried" in text


def test_pairs_with_a_kernel_between_stand_after_those_that_can_be_fused_alone(
    captured, reader
) -> None:
    pairs = unfused_pairs(reader(captured(PLANTED, gpu="h100")))
    generated = [pair.has_one_between for pair in pairs if not pair.is_of_library]
    assert generated == sorted(generated)
    assert any(generated)


def test_the_kernel_between_is_called_by_its_number(captured, reader) -> None:
    session = reader(captured(PLANTED, gpu="h100"))
    between = [pair for pair in unfused_pairs(session) if "runs between" in pair.cause.text]
    assert between
    calls = {row.id: row for row in session.rows(model.KernelCall)}
    for pair in between:
        number = re.match(r"#(\d+) runs between them: ", pair.cause.text)
        assert number, pair.cause.text
        lines = [row.line for row in calls.values() if row.kernel == int(number[1])]
        first, second = calls[pair.pair.first].line, calls[pair.pair.second].line
        assert any(first < line < second for line in lines)


def test_on_a_processor_there_are_bytes_and_no_times(captured, reader) -> None:
    session = reader(captured(PLANTED))
    pairs = unfused_pairs(session)
    assert {pair.saved_s for pair in pairs} == {0.0}
    # sin is written for the sort, which alone reads it.
    (sort,) = pairs_of(session, "opaque")
    assert sort.pair.saved_bytes == 2 * X_BYTES
    assert sort.pair.state == "not asked"
    assert "time" not in [column.title for column in fusion_table(session).columns]


def pair_row(reason: str, **fields: object) -> model.UnfusedPair:
    values: dict[str, object] = {
        "id": 1,
        "first": 1,
        "second": 2,
        "is_dependent": True,
        "first_buffers": ("buf0",),
        "second_buffers": ("buf1",),
        "state": "refused",
        "reason": reason,
        "check": "can_fuse",
        "saved_bytes": 8_000_000,
        "first_loops": "(64,), ()",
        "second_loops": "(8,), ()",
        "buffers": ("buf0",),
        "names": ("op0", "op1"),
        "is_exact": True,
    }
    return model.UnfusedPair(**{**values, **fields})  # type: ignore[arg-type]


def generated(number: int, language: str = "triton") -> model.Kernel:
    return model.Kernel(
        id=number,
        compilation=1,
        direction="forward",
        position=number,
        name=f"kernel_{number}",
        language=language,  # type: ignore[arg-type]
        artifact=0,
        output_code=0,
        first_line=0,
        estimated_bytes=16_000_000,
    )


@pytest.mark.parametrize(
    ("reason", "kind", "setting"),
    [
        ("exceeds max fusion", "size limit", "inductor.max_fusion_size"),
        (
            "fusion_prevent_too_many_reads_and_writes",
            "buffer limit",
            "inductor.max_fusion_unique_io_buffers",
        ),
        (
            "tiling mismatch ({'x': 8}, {'x': 4}, {'x': 4})",
            "tiles differ",
            "inductor.triton.tiling_prevents_pointwise_fusion",
        ),
        ("device mismatch (cuda:0 vs cpu)", "devices differ", ""),
        ("nodes numel incompatibility", "sizes differ", ""),
        ("Fusion will increase peak memory", "peak memory", ""),
        ("a reason of a later release {with braces}", "other", ""),
    ],
)
def test_reasons_of_inductor(reason: str, kind: str, setting: str) -> None:
    cause = cause_of(pair_row(reason), generated(1), generated(2), is_split=False)
    assert cause.kind == kind
    assert list(cause.settings) == ([setting] if setting else [])
    if kind in ("other", "devices differ"):
        assert reason in cause.text


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("numel/rnumel mismatch (reduce) (4, 1), (8192, 4)", "split reduction"),
        ("no shared data", "split reduction"),
        # Both compute one reduction, and yet a limit is what keeps them apart.
        ("exceeds max fusion", "size limit"),
    ],
)
def test_parts_of_one_reduction(reason: str, kind: str) -> None:
    assert cause_of(pair_row(reason), generated(1), generated(2), is_split=True).kind == kind


@pytest.mark.parametrize(
    ("check", "loops", "kind"),
    [
        ("CppScheduling.can_fuse_vertical", "(8,), ()", "loops differ"),
        ("CppScheduling.can_fuse_vertical", "(64,), ()", "reduction first"),
        ("cpp.max_horizontal_fusion_size", "(64,), ()", "size limit"),
        ("OtherScheduling.can_fuse_vertical", "(64,), ()", "no reason"),
    ],
)
def test_refused_without_a_reason(check: str, loops: str, kind: str) -> None:
    row = pair_row("", check=check, second_loops=loops)
    assert cause_of(row, generated(1), generated(2), is_split=False).kind == kind


def two_kernels(writer: SessionWriter, reason: str, **fields: object) -> None:
    compilation = model.Compilation(1, "0/0", 0, 0, "f", "f.py", 1, status="ok")
    writer.add(compilation)
    for number in (1, 2):
        writer.add(generated(number))
        writer.add(model.KernelCall(number, number, 0, number))
    writer.add(pair_row(reason, **fields))


def test_a_limit_that_costs_megabytes_is_a_finding(written: Written) -> None:
    session = written(lambda writer: two_kernels(writer, "exceeds max fusion"))
    (finding,) = [row for row in findings(session) if row.kind == "missed fusion"]
    assert "8.0 MB" in finding.text
    (remedy,) = finding.remedies
    assert remedy.changes == {"settings": {"inductor.max_fusion_size": 256}}
    assert remedy.state == "not tried"
    assert "kernels that could be one" in search(session).looked_for


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        ("exceeds max fusion", {"saved_bytes": 80_000}),
        ("Fusion will increase peak memory", {}),
        ("", {"state": "not asked"}),
        # Without a GPU nothing is known of the time that another order costs.
        ("no shared data", {}),
    ],
)
def test_what_is_no_finding(reason: str, fields: dict[str, object], written: Written) -> None:
    session = written(lambda writer: two_kernels(writer, reason, **fields))
    assert unfused_pairs(session)
    assert not [row for row in findings(session) if row.kind == "missed fusion"]


def test_repeated_layers_are_one_row(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        two_kernels(writer, "no shared data")
        writer.add(pair_row("no shared data", id=2))

    session = written(write)
    pairs = distinct_pairs(unfused_pairs(session))
    assert [count for _, count in pairs] == [2]
    assert "2 times" in explain_pair(session, *pairs[0])[-1]


def test_a_log_says_that_it_has_no_decisions(written: Written) -> None:
    session = written(lambda writer: writer.set_meta("target", {"kind": "log", "spec": "t.log"}))
    table = fusion_table(session)
    assert not table.rows
    assert table.empty == NOT_IN_LOG


REFUSED = (
    "V1130 13:12:51.635000 5860 torch/_inductor/scheduler.py:5001] [0/0] [__fusion] cannot fuse op2 "
    "with op7: no shared data\n"
)


def test_a_log_with_the_decisions_as_text_has_the_pair_and_names_the_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "printed.txt"
    other = REFUSED.replace("cannot fuse op2 with op7: no shared data", "found 1 possible fusions")
    text.write_text(other.replace("13:12:51", "13:12:50") + REFUSED)
    assert main(["ask", str(text), "fusion"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert "Of op2 and op7 Inductor says: “no shared data”." in answer["answer"]
    assert answer["rows"][0]["at"] == "[0/0] fusion:2"
    assert main(["ask", str(text), "code", "[0/0] fusion:2"]) == 0
    assert "cannot fuse op2 with op7" in capsys.readouterr().out


def test_an_option_that_the_program_sets_itself_is_not_tried(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        two_kernels(writer, "exceeds max fusion")
        writer.add(
            model.OptionInForce(
                0, "inductor.max_fusion_size", "1", "program", file="/home/me/step.py", line=4
            )
        )

    (finding,) = [row for row in findings(written(write)) if row.kind == "missed fusion"]
    (remedy,) = finding.remedies
    assert remedy.state == "cannot be tried"
    assert "step.py:4: change it there" in remedy.result
    assert not remedy.changes


def test_the_check_of_a_strangers_session_is_quoted_as_it_stands() -> None:
    row = pair_row("", check="{first.__class__}{0}")
    cause = cause_of(row, generated(1), generated(2), is_split=False)
    assert cause.text == "Inductor gives no reason ({first.__class__}{0})."


def test_a_conditional_is_no_library_call() -> None:
    conditional = replace(generated(1, "extern"), name="torch.cond", runs=("true_graph_0",))
    cause = cause_of(pair_row("", state="not asked"), conditional, generated(2), is_split=False)
    assert cause.kind == "own graph"
