"""These tests check the report on ledgers that are written by hand: sums, lines, possible speedups
and remedies.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer.instruments.ledger.figures import (
    LedgerEntry,
    LedgerFigures,
    SourceLine,
    ledger_figures,
    line_times,
    rate,
)
from fx_explorer.instruments.ledger.guard_counts import FilterEffect, GuardCounts
from fx_explorer.instruments.ledger.ledger_rows import (
    describe_branch,
    kind_rows,
    line_rows,
    step_name,
)
from fx_explorer.instruments.ledger.remedies import describe_saved, remedies, remedies_to_try
from fx_explorer.instruments.ledger.report import FORMATS, ledger_text
from fx_explorer.instruments.ledger.verdict import verdict
from fx_explorer.model import (
    CaptureRequest,
    CardCeiling,
    LedgerCall,
    LedgerKind,
    LedgerOperator,
    LedgerStep,
)
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import write_training_step

US = 1e-6

CALL = LedgerCall(
    1,
    "Net",
    "(float32[4, 8])",
    False,
    4,
    "cpu",
    "2.13.0",
    1,
    100 * US,
    2 * US,
    (100 * US,) * 8,
    50,
    0,
    3 * US,
    uncompiled_s=50 * US,
    uncompiled_rounds_s=(50 * US,) * 8,
    unguarded_s=90 * US,
    unguarded_rounds_s=(90 * US,) * 8,
)

A, B = SourceLine("net.py", 3), SourceLine("net.py", 4)


def entry(
    kind: LedgerKind,
    took_us: float,
    *lines: tuple[SourceLine, float],
    name: str = "",
    **known: object,
) -> LedgerEntry:
    step = LedgerStep(0, 1, 0, kind, name, "0/0", "inference", 1, "", 0, took_us * US, 0.0)
    return LedgerEntry(replace(step, **known), 0.0, lines, None)  # type: ignore[arg-type]


def operator(
    name: str, took_us: float, line: SourceLine | None, device_us: float = -1e6
) -> LedgerOperator:
    place = (line.file, line.line) if line else ("", 0)
    return LedgerOperator(0, 1, 0, name, "forward", *place, took_us * US, device_us * US)


def figures(
    *entries: LedgerEntry, call: LedgerCall = CALL, operators: tuple[LedgerOperator, ...] = ()
) -> LedgerFigures:
    ceilings = {
        "memory": CardCeiling(0, "cpu", "memory", 1e10, ""),
        "fp32": CardCeiling(0, "cpu", "fp32", 1e11, ""),
    }
    return LedgerFigures(call, entries, operators, ceilings)


def test_rows_by_kind_and_what_is_not_accounted_for_add_up_to_the_call() -> None:
    found = figures(entry("entry", 30), entry("kernel", 40), entry("entry", 10))
    assert kind_rows(found) == [
        ("entering torch.compile", "40 µs", "40 %"),
        ("generated kernels", "40 µs", "40 %"),
        ("not accounted for", "20 µs", "20 %"),
        ("a call", "100 µs", "100 %"),
    ]


def test_steps_that_are_longer_than_the_call_are_told_as_such() -> None:
    found = figures(entry("kernel", 120))
    assert ("not accounted for", "-20 µs", "-20 %") in kind_rows(found)
    assert any("add up to 120 %" in sentence for sentence in verdict(found))


def test_a_kernel_of_two_lines_counts_for_both_and_what_is_of_no_line_is_left() -> None:
    found = figures(
        entry("kernel", 40, (A, 0.75), (B, 0.25)),
        entry("guards", 60),
        operators=(
            operator("aten::relu", 20, A),
            operator("aten::add", 5, B),
            operator("aten::to", 1, None),
        ),
    )
    times = line_times(found)
    assert [
        (one.line, round(one.compiled_s / US), round(one.uncompiled_s / US)) for one in times.lines
    ] == [
        (A, 30, 20),
        (B, 10, 5),
    ]
    assert round(times.compiled_of_none_s / US) == 60
    assert round(times.uncompiled_of_none_s / US) == 25
    assert line_rows(found)[-1] == ("of no line", "60 µs", "25 µs", "-35 µs")


def test_lines_of_a_program_that_cannot_be_run_uncompiled_have_no_second_time() -> None:
    found = figures(
        entry("kernel", 40, (A, 1.0)),
        entry("entry", 60),
        call=replace(CALL, uncompiled_s=-1.0, uncompiled_rounds_s=()),
    )
    assert line_rows(found) == [("net.py:3", "40 µs", "", ""), ("of no line", "60 µs", "", "")]
    assert verdict(found)[0] == "A call of Net takes 100 µs."


def test_what_a_kernel_reaches_is_held_against_this_machine() -> None:
    one = entry("library", 10, name="mm", moved_bytes=50_000, flops=500_000)
    found = rate(figures(one), one)
    assert found is not None
    assert found.description == "5 GB/s (50 % of a copy), 50 GFLOP/s (50 % of a float32 product)"
    assert rate(figures(one), entry("library", 10)) is None


def test_more_than_the_machine_was_measured_to_do_is_no_share_of_it() -> None:
    one = entry("library", 1, name="mm", moved_bytes=50_000, flops=500_000)
    found = rate(figures(one), one)
    assert found is not None
    assert found.of_products == pytest.approx(5)
    assert found.description.endswith(
        "500 GFLOP/s (more than the measured limit of a float32 product)"
    )


def test_on_a_gpu_what_it_computes_is_the_work_and_the_rest_it_waits() -> None:
    on_gpu = replace(CALL, device="NVIDIA H100", busy_s=20 * US)
    one = entry("kernel", 30, (A, 1.0), device_s=15 * US)
    operators = (operator("aten::relu", 9, A, device_us=12),)
    found = figures(one, entry("wait", 70), call=on_gpu, operators=operators)
    assert one.seconds == 15 * US
    assert found.idle_s == 80 * US
    assert line_times(found).lines[0].uncompiled_s == 12 * US
    assert "The GPU computes for 20 µs of it (20 %) and waits for the rest." in verdict(found)
    assert "reduce-overhead" in [one.name for one in remedies(found)]
    assert ("starting generated kernels", "30 µs", "30 %") in kind_rows(found)


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        ([entry("checks", 20), entry("kernel", 80)], ["size_asserts=False"]),
        ([entry("library", 80), entry("kernel", 20)], ["freezing"]),
        ([entry("kernel", 100)], []),
    ],
)
def test_a_remedy_is_named_where_its_part_is_large(
    entries: list[LedgerEntry], names: list[str]
) -> None:
    assert [one.name for one in remedies(figures(*entries))] == names


def test_a_training_step_is_not_frozen() -> None:
    assert remedies(figures(entry("library", 80), call=replace(CALL, trains=True))) == []


def test_a_difference_is_claimed_only_where_the_rounds_show_it() -> None:
    noisy = replace(
        CALL,
        uncompiled_rounds_s=tuple(us * US for us in (90, 110, 95, 105, 130, 70, 99, 101)),
        uncompiled_s=100 * US,
    )
    assert (
        verdict(figures(entry("kernel", 100)))[0]
        == "A call of Net takes 100 µs, 50 µs in eager mode: 0.50 × as fast."
    )
    assert verdict(figures(entry("kernel", 100), call=noisy))[0].endswith(
        "no measurable difference."
    )


def test_skipping_guards_is_told_with_what_it_saves_and_what_it_risks() -> None:
    found = [
        one
        for one in verdict(figures(entry("guards", 12), entry("kernel", 88)))
        if "Skipping guards" in one
    ]
    assert found
    assert "saves 10 µs" in found[0]
    assert "unsafe" in found[0]


def test_breaks_and_lines_that_got_slower_are_named() -> None:
    at_break = entry("break", 40, (A, 1.0), file="net.py", user_line=3)
    assert [one.line for one in line_times(figures(at_break)).lines] == [], (
        "what it takes uncompiled is not known"
    )
    told = verdict(
        figures(at_break, entry("kernel", 60, (B, 1.0)), operators=(operator("aten::add", 5, B),))
    )
    assert any("Python at graph breaks takes 40 µs, at net.py:3" in one for one in told)
    assert any(
        one.startswith("net.py:4 got slower: 60 µs compiled, 5 µs in eager mode") for one in told
    )


@pytest.mark.parametrize(
    ("call", "steps_us"),
    [
        (CALL, 268.0),  # steps that were measured while something else ran
        (CALL, 40.0),
        (replace(CALL, iqr_s=35 * US), 100.0),
    ],
)
def test_where_steps_are_no_call_nothing_is_said_of_them_and_no_line_got_slower(
    call: LedgerCall, steps_us: float
) -> None:
    steps = (entry("library", steps_us * 0.9, (A, 1.0)), entry("checks", steps_us * 0.1))
    found = figures(*steps, call=call, operators=(operator("aten::mm", 5, A),))
    told = verdict(found)
    assert told[0].startswith("Where the time of a call goes is not known: ")
    assert told[0].endswith("measure again when the machine is idle.")
    # Whole calls took turns with uncompiled ones: they compare unless they differ among themselves.
    end = "which is faster is not known." if call is not CALL else "0.50 × as fast."
    assert told[1].startswith("A call of Net takes 100 µs, 50 µs in eager mode")
    assert told[1].endswith(end)
    assert not any("slower" in one or "It may help" in one or "%)" in one for one in told)
    assert remedies(found) == []


def test_a_line_got_slower_only_by_more_than_the_steps_are_known_to() -> None:
    def is_named(rest_us: float, operators_us: float) -> bool:
        steps = (entry("kernel", 40, (A, 1.0)), entry("entry", rest_us))
        operators = (operator("aten::mm", 20, A), operator("aten::relu", operators_us, B))
        return any("got slower" in one for one in verdict(figures(*steps, operators=operators)))

    assert is_named(60, 20)
    assert not is_named(85, 20)  # steps are 25 µs longer than the call, and the line 20 µs
    assert not is_named(35, 20)
    assert not is_named(60, 55)  # so are the operators, by 25 µs


def test_every_format_has_every_kind_and_the_verdict() -> None:
    found = figures(entry("entry", 60), entry("kernel", 40, (A, 1.0), name="cpp_fused_relu_0"))
    found = replace(found, guards=GuardCounts(3, 1, "x (90 ns)"))
    for name, told in FORMATS.items():
        text = told(found, True)
        assert "cpp_fused_relu_0" in text, name
        assert name == "csv" or "A call of Net takes 100" in text


def test_on_a_narrow_terminal_every_step_keeps_its_kind_in_words_and_both_ends_of_its_kernel() -> (
    None
):
    kernel = "cpp_fused__to_copy_add_addmm_native_dropout_native_layer_norm_native_layer_norm_backward_view_17"
    steps = [
        entry("launch", 60, (A, 1.0), name=kernel),
        entry("kernel", 40, (A, 1.0), name=kernel),
        entry("checks", 1),
    ]
    found = figures(*steps)
    assert f"starting {kernel}" in ledger_text(found, True)
    *tables, _ = ledger_text(found, True, 80).split("\n\n")[1:]
    lines = [line for table in tables for line in table.splitlines()]
    assert max(map(len, lines)) <= 80
    assert any(
        line.startswith("cpp_fused") and line.split()[0].endswith("view_17") for line in lines
    )
    assert any(line.startswith("checks of sizes and strides  ") for line in tables[-1].splitlines())


def test_a_step_finds_its_generated_line_and_the_users_through_the_sessions_links(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.fxs"
    hand = write_training_step(path)
    with SessionWriter(path) as writer:
        writer.add(CALL)
        line = 9  # extern_kernels.addmm(bias, x, w), in tests/sessions.py
        writer.add(
            LedgerStep(
                0, 1, 0, "library", "extern_kernels.addmm", "0/0", "forward", line, "", 0, US, 0.0
            )
        )
        writer.add(LedgerStep(0, 1, 1, "checks", "", "9/9", "forward", 3, "", 0, US, 0.0))
    with SessionReader(path) as reader:
        found = ledger_figures(reader)
        assert found is not None
        first, unknown = found.entries
        assert first.place is not None
        assert (first.place.document.id, first.place.line) == (hand.output_code, line - 1)
        assert unknown.place is None
        assert unknown.lines == ()
        assert unknown.began_s == US


def test_a_call_in_which_no_compiled_graph_runs_is_told_as_such() -> None:
    told = verdict(figures(entry("entry", 5), entry("python", 95)))
    assert told[0].startswith("No compiled graph runs in a call")
    assert not any("larger inputs" in one for one in told)


def test_lines_inside_what_has_no_generated_python_are_not_known() -> None:
    found = line_rows(figures(entry("graph", 90), operators=(operator("aten::relu", 20, A),)))
    assert found[0] == ("net.py:3", "", "20 µs", "")


def test_what_is_in_force_is_no_remedy_and_nothing_is_frozen_without_parameters() -> None:
    slow = [entry("checks", 20), entry("library", 80)]
    assert [one.name for one in remedies(figures(*slow))] == ["size_asserts=False", "freezing"]
    request = CaptureRequest(
        "net.py", "", options={"freezing": True, "size_asserts": False, "alignment_asserts": False}
    )
    assert remedies(replace(figures(*slow), request=request)) == []
    assert [one.name for one in remedies(figures(*slow, call=replace(CALL, parameters=0)))] == [
        "size_asserts=False"
    ]


def test_where_steps_are_not_known_what_drops_guards_can_still_be_tried() -> None:
    effect = FilterEffect("skip_all_guards_unsafe", (), 9, 9, 9, 0, "changes are not noticed")
    unsettled = replace(
        figures(entry("guards", 1), entry("library", 9)), guards=GuardCounts(9, filters=(effect,))
    )
    assert not unsettled.are_steps_known
    assert remedies(unsettled) == []
    assert [remedy.name for remedy in remedies_to_try(unsettled)] == ["skip_all_guards_unsafe"]
    settled = replace(unsettled, entries=[entry("guards", 0.1), entry("library", 99)])
    assert "skip_all_guards_unsafe" not in [remedy.name for remedy in remedies_to_try(settled)]


def test_larger_inputs_are_not_advised_to_who_is_faster_already() -> None:
    slow, fast = CALL, replace(CALL, uncompiled_s=900 * US, uncompiled_rounds_s=(900 * US,) * 8)
    around = (entry("entry", 90), entry("kernel", 10))
    assert any("larger inputs" in one for one in verdict(figures(*around, call=slow)))
    assert not any("larger inputs" in one for one in verdict(figures(*around, call=fast)))


def test_a_branch_of_cond_has_the_users_word_and_no_throughput() -> None:
    call = entry("wrapper", 1, name="true_graph_0", moved_bytes=50_000, flops=500_000)
    found = figures(call)
    assert step_name(found, call) == "around the true branch of torch.cond"
    assert rate(found, call) is None
    assert describe_branch("while_loop_body_graph_3") == "the body of while_loop"
    assert describe_branch("subgraph_0") == "subgraph_0"


def test_a_remedy_saves_something_only_where_it_is_more_than_two_processes_differ_by() -> None:
    def told(after_us: float) -> str:
        rounds = range(1, 9)
        before = dict.fromkeys(rounds, 100 * US)
        return describe_saved(before, dict.fromkeys(rounds, after_us * US), "wall")

    assert told(97).startswith("no measurable difference")
    assert told(90) == "saves 10 µs of 100 µs (6 µs to 14 µs)"
    assert told(110).startswith("costs 10 µs")
