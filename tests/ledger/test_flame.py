"""These tests check the flame chart of ledgers that are written by hand: how its frames nest, and
which are drawn.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from rich.cells import cell_len
from rich.console import Console

from fx_explorer.analysis.flame import FlameBlock, FlameFrame, flame_rows, marked_blocks, short_name
from fx_explorer.drawing.flame_charts import marked_chart
from fx_explorer.drawing.svg import GREY, INK
from fx_explorer.instruments.ledger import command as ledger_command
from fx_explorer.instruments.ledger.figures import (
    LedgerEntry,
    LedgerFigures,
    SourceFunction,
    SourceLine,
)
from fx_explorer.instruments.ledger.flame_chart import (
    COLOURS,
    describe_unaccounted,
    flame,
    flame_svg,
    flame_text,
    in_ascii,
)
from fx_explorer.model.rows.measured import LedgerKind
from tests.ledger.test_ledger_rows import CALL, US, A, entry, figures

SVG = "{http://www.w3.org/2000/svg}"
TRAINS = replace(CALL, trains=True)


def around(
    kind: LedgerKind, took_us: float, compilation: str = "", direction: str = ""
) -> LedgerEntry:
    """A step that is in no generated code."""
    return entry(kind, took_us, compilation=compilation, direction=direction, line=0)


def in_code(
    kind: LedgerKind,
    took_us: float,
    direction: str = "forward",
    compilation: str = "0/0",
    name: str = "",
) -> LedgerEntry:
    return entry(kind, took_us, compilation=compilation, direction=direction, line=5, name=name)


TRAINING_STEP = (
    around("gradients", 2),
    around("entry", 10),
    around("guards", 5, "0/0"),
    around("bytecode", 3, "0/0"),
    around("wrapper", 4, "0/0"),
    in_code("checks", 1),
    in_code("kernel", 20, name="cpp_fused_relu_0"),
    around("wrapper", 2, "0/0"),
    around("break", 6, "0/0"),
    around("entry", 2, "0/0"),
    around("guards", 2, "1/0"),
    around("bytecode", 2, "1/0"),
    in_code("library", 8, compilation="1/0", name="extern_kernels.addmm"),
    around("bytecode", 1, "1/0"),
    around("bytecode", 1, "0/0"),
    around("entry", 3),
    around("loss", 4),
    around("autograd", 7, direction="backward"),
    in_code("kernel", 9, "backward"),
    around("autograd", 3, direction="backward"),
    around("buffers", 1),
)

FUNCTIONS = {
    "0/0": SourceFunction("Net.forward", SourceLine("/p/net.py", 10)),
    "1/0": SourceFunction("Net.torch_dynamo_resume_in_forward_at_12", SourceLine("/p/net.py", 12)),
}


def step(entries: Sequence[LedgerEntry] = TRAINING_STEP) -> LedgerFigures:
    return replace(figures(*entries, call=TRAINS), functions=FUNCTIONS)


def shape(frame: FlameFrame) -> list[str]:
    """The frames that hold others, each indented by its depth, and how many steps they have."""
    return [
        f"{'  ' * one.depth}{one.name} ({len(one.steps)})" for one in frame.frames() if one.children
    ]


def test_the_rest_of_a_function_runs_within_the_function_that_a_break_cut() -> None:
    assert shape(flame(step())) == [
        "a training step of Net (21)",
        "  forward (15)",
        "    forward net.py:10 (13)",
        "      graph [0/0] forward (2)",
        "      rest of forward after line 12 (4)",
        "        graph [1/0] forward (1)",
        "  backward (3)",
        "    graph [0/0] backward (1)",
    ]


def test_functions_that_python_calls_one_after_the_other_lie_beside_each_other() -> None:
    twice = (around("guards", 5, "0/0"), around("bytecode", 5, "0/0"))
    found = flame(
        figures(around("entry", 1), *twice, around("python", 3), *twice, around("entry", 1))
    )
    assert shape(found) == ["a call of Net (7)", "  forward (7)", "    [0/0] (2)", "    [0/0] (2)"]


def test_a_function_that_is_entered_again_from_one_it_called_lies_within_that() -> None:
    names = ("0/0", "1/0", "0/0", "1/0", "0/0")
    kinds: tuple[LedgerKind, ...] = ("guards", "guards", "guards", "bytecode", "bytecode")
    found = flame(
        figures(*(around(kind, 5, name) for kind, name in zip(kinds, names, strict=True)))
    )
    assert [line.strip() for line in shape(found)[2:]] == ["[0/0] (5)", "[1/0] (3)", "[0/0] (1)"]


def test_a_thousand_functions_within_each_other_are_no_problem() -> None:
    down = [around("guards", 1, f"{number}/0") for number in range(1500)]
    found = flame(
        figures(*down, *(around("bytecode", 1, f"{number}/0") for number in reversed(range(1500))))
    )
    assert max(frame.depth for frame in found.frames()) == 1502
    assert len(flame_rows(found, 80)) > 10


def test_a_part_of_one_step_is_that_step_and_a_call_that_goes_backward_itself_says_so() -> None:
    parts = [frame.name for frame in flame(step()).children]
    assert parts == [
        "clearing gradients",
        "forward",
        "the loss",
        "backward",
        "buffers and views",
        "not accounted for",
    ]
    itself = figures(around("entry", 5), in_code("kernel", 5, "backward"))
    assert [frame.name for frame in flame(itself).children] == [
        "forward and backward",
        "not accounted for",
    ]


def test_what_is_not_accounted_for_ends_the_call_and_steps_beyond_it_are_told() -> None:
    short, long = figures(entry("kernel", 60)), figures(entry("kernel", 120))
    assert flame(short).duration_s == 100 * US
    assert flame(short).children[-1].kind == "rest"
    assert describe_unaccounted(short) == "40 µs of the call are in no step."
    assert flame(long).duration_s == pytest.approx(120 * US)
    assert describe_unaccounted(long) == "The steps add up to 20 µs more than a call."


def test_steps_too_narrow_for_a_cell_are_one_block_that_says_how_many() -> None:
    narrow = [entry("checks", 0.5) for _ in range(12)]
    found = figures(entry("kernel", 47, name="cpp_a"), *narrow, entry("kernel", 47, name="cpp_b"))
    merged = [block for block in flame_rows(flame(found), 100)[-1] if block.main is None]
    assert [(block.names[0], len(block.steps), block.cells) for block in merged] == [
        ("12 steps", 12, 6)
    ]
    assert "12" in flame_text(found, 100, has_colours=False).plain


@pytest.mark.parametrize("width", [1, 2, 3, 7, 20, 80, 200, 999])
def test_every_step_is_drawn_once_at_any_width(width: int) -> None:
    rows = flame_rows(flame(step()), width)
    drawn = [
        number for row in rows for block in row for frame in block.hidden for number in frame.steps
    ]
    assert sorted(drawn) == list(range(len(TRAINING_STEP)))
    for row in rows:
        assert all(block.cells > 0 for block in row)
        assert all(one.first + one.cells <= other.first for one, other in pairwise(row))
    assert rows[0][0].cells == width


@pytest.mark.parametrize("width", [20, 80, 200])
def test_no_row_is_wider_than_it_may_be(width: int) -> None:
    odd = replace(TRAINING_STEP[6], step=replace(TRAINING_STEP[6].step, name="核心\x1b[31m\n" * 9))
    for has_colours in (True, False):
        found = step([*TRAINING_STEP[:6], odd, *TRAINING_STEP[7:]])
        lines = flame_text(found, width, has_colours=has_colours).plain.splitlines()
        assert max(map(cell_len, lines)) <= width
        assert not any("\x1b" in line for line in lines)
    for number in range(len(TRAINING_STEP)):
        chart = marked_chart(flame_rows(flame(step()), width), width, 6, [number])
        assert len(chart) <= 6
        assert max(sum(cell_len(piece.text) for piece in row) for row in chart) <= width


@pytest.mark.parametrize("width", [20, 80, 200])
def test_every_step_can_be_pointed_at(width: int) -> None:
    rows = flame_rows(flame(step()), width)
    for number in range(len(TRAINING_STEP)):
        marked = marked_blocks(rows, [number])
        assert len(marked) == 1, number
        pointers = marked_chart(rows, width, 4, [number])[-1][0].text
        ((_, block),) = marked
        assert pointers.count("▲") == 1
        assert block.first <= pointers.index("▲") < block.first + block.cells


def test_what_is_marked_is_in_the_levels_that_are_shown() -> None:
    rows = flame_rows(flame(step()), 200)
    kernel = next(
        number
        for number, one in enumerate(TRAINING_STEP)
        if one.step.name == "extern_kernels.addmm"
    )
    chart = marked_chart(rows, 200, 4, [kernel])
    lit = [piece for row in chart for piece in row if piece.is_marked]
    assert [piece.text.strip("▏ ") for piece in lit] == ["addmm"]
    assert chart[-1][0].text.endswith("levels 4 to 6 of 6")
    assert "extern_kernels.addmm, 8 µs" in chart[-1][0].text


def test_a_kind_and_a_graph_mark_their_own_blocks() -> None:
    rows = flame_rows(flame(step()), 200)

    def lit(steps: Sequence[int]) -> list[FlameBlock]:
        return [block for _, block in marked_blocks(rows, steps)]

    assert [block.names[0] for block in lit(range(5, 7))] == ["graph [0/0] forward"]
    assert [block.names[0] for block in lit([17, 19])] == ["autograd around backward graphs"] * 2
    assert lit([]) == []


def test_names_are_shortened_to_what_tells_them_apart() -> None:
    assert short_name("extern_kernels.addmm") == "addmm"
    assert short_name("torch.ops.aten._scaled_dot_product.default") == "_scaled_dot_product"
    assert short_name("cpp_fused_gelu_view_2") == "gelu_view_2"
    assert short_name("triton_poi_fused_relu_0") == "relu_0"
    assert short_name("guards") == "guards"


def test_the_text_has_colours_and_a_legend_where_they_can_be_shown() -> None:
    out = io.StringIO()
    Console(file=out, width=80, force_terminal=True, color_system="truecolor").print(
        flame_text(step(), 80, has_colours=True)
    )
    assert "\x1b[" in out.getvalue()
    assert "█ generated kernels" in flame_text(step(), 80, has_colours=True).plain
    assert "█" not in flame_text(step(), 80, has_colours=False).plain


def test_the_picture_is_xml_in_which_odd_names_survive() -> None:
    names = ["<lambda>", "a & b", 'it\'s "quoted"', "]]>", "bell\x07", "核心", "\ufffe\udc80"]
    found = figures(*(entry("kernel", 10, (A, 1.0), name=name) for name in names))
    found = replace(
        found,
        call=replace(CALL, target="<Net & Co>"),
        functions={"0/0": SourceFunction("f.<locals>.<lambda>", A)},
    )
    root = ElementTree.fromstring(flame_svg(found))
    titles = [element.text or "" for element in root.iter(f"{SVG}title")]
    assert len(titles) == len(list(root.iter(f"{SVG}g"))) == len(list(flame(found).frames()))
    firsts = [title.splitlines()[0] for title in titles]
    assert {*names[:4], "bell␇", "核心", "a call of <Net & Co>"} <= set(firsts)
    about = next(title for title in titles if title.startswith("<lambda>"))
    assert about.splitlines()[1:] == [
        "10.000 µs, 10 % of a call; it begins after 0 µs",
        "generated kernels",
        "net.py:3",
    ]


def test_letters_of_the_picture_stay_in_their_blocks() -> None:
    root = ElementTree.fromstring(flame_svg(step()))
    for group in root.iter(f"{SVG}g"):
        block, letters = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        assert block is not None
        if letters is not None:
            assert cell_len(letters.text or "") * 6.7 <= float(block.get("width", "0"))


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_letters_can_be_read_on_every_block_and_beside_them_on_white_and_on_black() -> None:
    def contrast(one: str, other: str) -> float:
        dark, light = sorted((_luminance(one), _luminance(other)))
        return (light + 0.05) / (dark + 0.05)

    assert min(contrast(INK, colour) for colour in COLOURS.values()) > 6.5
    assert min(contrast(GREY, "#ffffff"), contrast(GREY, "#000000")) > 4.5
    assert len(set(COLOURS.values())) == len(COLOURS)


@pytest.mark.parametrize(
    "entries", [(), (entry("entry", 0),), (around("entry", 5), around("python", 95))]
)
def test_a_call_in_which_nothing_compiled_runs_is_drawn_as_far_as_it_is_known(
    entries: Sequence[LedgerEntry],
) -> None:
    found = figures(*entries)
    for width in (20, 80, 200):
        assert "a call of Net" in flame_text(found, width, has_colours=False).plain
        assert (
            "a call of Net"
            in flame_text(
                replace(found, call=replace(CALL, call_s=0.0)), width, has_colours=True
            ).plain
        )
    told = [
        element.text or ""
        for element in ElementTree.fromstring(flame_svg(found)).iter(f"{SVG}text")
    ]
    assert told[0].startswith("No compiled graph runs in a call")


@pytest.mark.parametrize("has_colours", [True, False])
def test_the_chart_in_ascii_is_the_chart_with_other_signs(has_colours: bool) -> None:
    odd = replace(TRAINING_STEP[6], step=replace(TRAINING_STEP[6].step, name="核心é"))
    chart = flame_text(
        step([*TRAINING_STEP[:6], odd, *TRAINING_STEP[7:]]), 100, has_colours=has_colours
    )
    plain = in_ascii(chart).plain
    assert plain.isascii()
    assert [cell_len(line) for line in plain.splitlines()] == [
        cell_len(line) for line in chart.plain.splitlines()
    ]
    assert plain.replace("|", "▏")[:20] == chart.plain[:20].replace("─", "-")


def test_an_output_that_is_ascii_gets_the_chart_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, is_ascii in (("ascii", True), ("utf-8", False)):
        raw = io.BytesIO()
        monkeypatch.setattr(
            "sys.stdout", io.TextIOWrapper(raw, encoding, errors="backslashreplace")
        )
        ledger_command._draw(step())
        sys.stdout.flush()
        told = raw.getvalue().decode(encoding)
        assert ("|a training step of Net" in told, "▏a training step of Net" in told) == (
            is_ascii,
            not is_ascii,
        )
        assert "\\u" not in told
