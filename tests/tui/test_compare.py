"""These tests show two variants side by side, by keys. Expected values can be read off ``branched``
below and tests/sessions.py.
"""

from dataclasses import replace
from pathlib import Path

from textual.app import App, ComposeResult

from fx_explorer import model
from fx_explorer.analysis.diff import DiffRow
from fx_explorer.analysis.documents import Document
from fx_explorer.instruments.diff.compare import DocumentPair, figures
from fx_explorer.instruments.diff.screen import (
    DIFF_COLUMNS,
    CompareScreen,
    diff_rows,
    first_to_compare,
)
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.config import Config
from fx_explorer.tui.widgets.row_list import DIFFERS, RowList, Rows
from tests.sessions import write_training_step
from tests.tui.conftest import OpenApp


def branched(path: Path) -> None:
    """The post-grad graph of the backward was lowered again, without gelu's."""
    write_training_step(path)
    with SessionWriter(path) as writer:
        first = SessionReader(path).rows(model.Compilation)[0]
        variant = writer.add(
            replace(
                first, id=0, name="0/0~1", variant_of="0/0", variant_from="partition", in_use=False
            )
        )
        nodes = [
            model.Node(0, 0, 0, "tangent", "placeholder", "tangent", ""),
            model.Node(0, 0, 0, "mm", "call_function", "aten.mm.default", "tangent, w"),
        ]
        writer.add_graph(
            model.Graph(0, variant, "post_grad", "backward", call_count=1), nodes, [(0, 1)]
        )


async def test_the_document_under_the_cursor_is_compared_and_n_goes_from_difference_to_difference(
    tmp_path: Path, open_app: OpenApp
) -> None:
    path = tmp_path / "branched.fxs"
    branched(path)
    async with open_app(path) as driver:
        reader = SessionReader(path)
        left, right = reader.rows(model.Compilation)
        screen = CompareScreen(reader, left, right)
        driver.app.push_screen(screen)
        await driver.until(lambda: "Backward · post-grad: " in driver.screen)
        assert "[0/0] beside [0/0~1] · MLP.forward" in driver.screen
        assert "variant 1: compiled again from" in driver.screen
        assert "difference" in driver.screen
        # The cursor begins on the first figure that differs.
        begins_on = next(figure for figure in figures(reader, left, right) if figure.differs)
        assert f"{begins_on.what.strip()}: {begins_on.left} beside" in driver.screen
        assert "mm = aten.mm(tangent, w)" in driver.screen
        assert "gelu_backward = aten.gelu_backward" in driver.screen
        await driver.press("tab", "n")
        difference = screen.query_one("#difference")
        first = difference.cursor  # type: ignore[attr-defined]
        await driver.press("n")
        assert difference.cursor > first  # type: ignore[attr-defined]
        await driver.press("N")
        assert difference.cursor == first  # type: ignore[attr-defined]
        await driver.press("escape")
        assert driver.app.screen is not screen
        reader.close()


async def test_the_keys_of_the_comparison_can_be_remapped_and_its_last_line_says_them(
    tmp_path: Path, open_app: OpenApp
) -> None:
    path = tmp_path / "branched.fxs"
    branched(path)
    async with open_app(path, config=Config(keys={"compare.next": ("ctrl+n",)})) as driver:
        await driver.press("v", "v")
        await driver.until(lambda: "ctrl+n N differences" in driver.screen)
        difference = driver.app.screen.query_one("#difference")
        await driver.until(lambda: difference.marks)  # type: ignore[attr-defined]
        await driver.press("ctrl+n")
        assert difference.cursor == sorted(difference.marks)[1]  # type: ignore[attr-defined]


def test_of_a_changed_line_the_words_that_differ_are_marked_on_both_sides() -> None:
    before, after = "for(x=0L; x<16L; x+=4L)", "for(x=0L; x<128L; x+=4L)"
    (row,) = diff_rows([DiffRow("~", before, after)])
    start, end = ("for(x=0L; x<", "warning"), ("; x+=4L)", "warning")
    assert row[1:] == ([start, ("16L", DIFFERS), end], [start, ("128L", DIFFERS), end])


async def test_a_line_that_does_not_fit_is_shown_from_shortly_before_what_differs() -> None:
    head = 2 * "for(int64_t x1=static_cast<int64_t>(0LL); "
    rows = diff_rows([DiffRow("~", f"{head}x1<16L; x1+=4L)", f"{head}x1<128L; x1+=4L)")])

    class OneList(App[None]):
        def compose(self) -> ComposeResult:
            yield RowList(DIFF_COLUMNS, Rows(rows), header=False)

    async with OneList().run_test(size=(80, 10)) as pilot:
        shown = pilot.app.query_one(RowList)
        texts = "".join(text for text, _ in shown.line_tokens(0))
        assert "x1<16L" in texts
        assert "x1<128L" in texts
        assert texts.count("…") >= 2


def variant(name: str, origin: str) -> model.Compilation:
    return model.Compilation(0, name, 0, 0, "f", "/p/m.py", 1, status="ok", variant_of=origin)


async def test_with_three_variants_the_newest_of_the_same_compilation_is_compared_with_first(
    tmp_path: Path, open_app: OpenApp
) -> None:
    path = tmp_path / "variants.fxs"
    with SessionWriter(path) as writer:
        for name, origin in (("0/0", ""), ("1/0", ""), ("0/0~1", "0/0"), ("0/0~2", "0/0")):
            writer.add(variant(name, origin))
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    async with open_app(path) as driver:
        await driver.press("v", "v", "enter")
        assert "Compare [0/0] with" in driver.screen
        offered = [choice.value.name for choice in driver.app.screen._choices]  # type: ignore[attr-defined]
        assert offered == ["0/0~2", "0/0~1", "1/0"]
        await driver.press("enter")
        assert "[0/0] beside [0/0~2]" in driver.screen


def test_the_first_document_to_compare_is_one_that_differs_preferably_of_the_stage_asked_for() -> (
    None
):
    mine, theirs = Document("graph", 1), Document("graph", 2)
    shared, alone, both = (
        DocumentPair(mine, mine),
        DocumentPair(mine, None),
        DocumentPair(mine, theirs),
    )
    assert first_to_compare([shared, alone, both], lambda pair: True) == 2
    assert first_to_compare([shared, alone], lambda pair: True) == 1
    assert first_to_compare([shared], lambda pair: True) == 0
    code = DocumentPair(
        Document("artifact", 3, stage="output_code"), Document("artifact", 4, stage="output_code")
    )
    pairs = [shared, both, code]
    assert first_to_compare(pairs, lambda pair: pair is code) == 2
    assert first_to_compare(pairs, lambda pair: True) == 1
    assert first_to_compare(pairs, lambda pair: True, "output_code") == 2
    assert first_to_compare(pairs, lambda pair: pair is both, "output_code") == 1
