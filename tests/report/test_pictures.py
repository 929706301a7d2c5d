"""These tests check the pictures of the page and the picture of a step's memory: bars are as high as
what is held, and nothing but drawing comes into the page.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fx_explorer.analysis.words import size
from fx_explorer.drawing.svg import legend_svg, svg_text
from fx_explorer.errors import UsageError
from fx_explorer.instruments.memory.session_memory import session_memory
from fx_explorer.instruments.memory.step import StepMemory
from fx_explorer.instruments.memory.timeline_picture import HEIGHT, memory_svg
from fx_explorer.instruments.memory.usage import Usage, usage
from fx_explorer.report.page.pictures import for_page, pictures
from fx_explorer.report.sections import sections
from fx_explorer.session import SessionReader

SVG = "{http://www.w3.org/2000/svg}"

WHOLE = Path(__file__).parents[1] / "data" / "screens" / "whole.fxs.gz"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    path = tmp_path_factory.mktemp("pictures") / "whole.fxs"
    path.write_bytes(gzip.decompress(WHOLE.read_bytes()))
    with SessionReader(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def used(reader: SessionReader) -> Usage:
    return usage(session_memory(reader).step)


def _height(bar: ElementTree.Element) -> float:
    return sum(float(rect.attrib["height"]) for rect in bar.iter(f"{SVG}rect"))


def test_bars_are_as_high_as_the_memory_held(used: Usage) -> None:
    root = ElementTree.fromstring(memory_svg(used))
    expected = [point.total_bytes for _, point in used.at_moments()]
    heights = [_height(bar) for bar in root.iter(f"{SVG}g")]
    whole = used.peak.total_bytes
    assert max(heights) == pytest.approx(HEIGHT, abs=0.05)
    largest = max(expected)
    assert largest == whole
    for height in heights:
        # Neighbouring calls on one line are one bar, as high as the largest.
        assert min(abs(height - HEIGHT * held / whole) for held in expected) < 0.05
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert any(text.startswith(f"peak: {size(whole)}, ") for text in texts)
    assert {"forward", "backward"} <= {*texts}


def test_the_mouse_is_told_what_a_bar_is_made_of(used: Usage) -> None:
    root = ElementTree.fromstring(memory_svg(used))
    peak = next(
        title.text or ""
        for title in root.iter(f"{SVG}title")
        if "100 % of the peak" in (title.text or "")
    )
    before = sum(
        used.peak.by_kind.get(kind, 0) for kind in ("parameter", "buffer", "input", "optimizer")
    )
    assert f"{size(before)} before the step" in peak


def test_nothing_held_is_no_picture() -> None:
    with pytest.raises(UsageError, match="no memory of a step"):
        memory_svg(usage(StepMemory((), (), 0, 0)))


def test_every_view_with_a_picture_has_it_in_the_page(reader: SessionReader) -> None:
    found = pictures(sections(reader))
    assert {"flame", "step_memory"} <= {*found.drawn}
    for picture in found.drawn.values():
        assert ElementTree.fromstring(picture["svg"]).tag == f"{SVG}svg"
        assert " style=" not in picture["svg"]
        assert "<style" not in picture["svg"]


def test_only_drawing_comes_into_the_page() -> None:
    hostile = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        'onload="alert(1)"><script>alert(2)</script><style>text { fill: red }</style>'
        '<a xlink:href="javascript:alert(3)"><text>x</text></a>'
        '<g onclick="alert(4)"><image href="http://x.example/y.png"/><foreignObject/>'
        '<use xlink:href="#a"/><use href="http://x.example/#b"/><rect style="fill: blue"/></g></svg>'
    )
    picture = for_page(hostile)
    assert picture["style"] == "text { fill: red }"
    for bad in ("alert", "example", "image", "foreign", "<a", 'style="', "onload"):
        assert bad not in picture["svg"].replace("data-style=", "")
    assert 'data-style="fill: blue"' in picture["svg"]
    assert 'href="#a"' in picture["svg"]


def test_markup_in_a_picture_is_text() -> None:
    drawn = svg_text(1, 2, "<script>alert(1)</script>\x00\uffff")
    drawn += "".join(text for _, text in legend_svg([("#fff", "a & <b>")], 10))
    root = ElementTree.fromstring(f"<g>{drawn}</g>")
    assert not list(root.iter("script"))
    assert re.sub(r"\s", "", "".join(root.itertext())).startswith("<script>alert(1)</script>")
