"""These tests check the animated picture of the tour: each frame once, one after the other, with
every text in its place.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from rich.style import Style

from fx_explorer.tui.tour_steps import STEPS

ROOT = Path(__file__).parents[1]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record_tour", ROOT / "docs" / "record_tour.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_frames_follow_one_another_and_rows_are_written_once(recorder: ModuleType) -> None:
    plain, bold = Style.parse("#c8d0e8 on #15161e"), Style.parse("bold #7aa2f7 on #262a3a")
    title = (("  fx <b> & ", bold), ("rest", plain))
    shown = [
        recorder.Shown((title, (("one", plain),)), 3.0),
        recorder.Shown((title, (("two", plain),)), 1.0),
    ]
    root = ElementTree.fromstring(recorder.animated(shown))
    rows = {row.get("id"): "".join(row.itertext()) for row in root.iter(f"{SVG}g") if row.get("id")}
    assert sorted(rows.values()) == ["fx <b> &rest", "one", "two"]
    frames = [group for group in root.iter(f"{SVG}g") if group.get("class") == "f"]
    assert [[rows[use.get("href")[1:]] for use in frame] for frame in frames] == [
        ["fx <b> &rest", "one"],
        ["fx <b> &rest", "two"],
    ]
    style = root.find(f"{SVG}style").text
    assert "0.000%{visibility:visible}75.000%{visibility:hidden}" in style
    assert "75.000%{visibility:visible}100.000%{visibility:hidden}" in style
    first = next(root.iter(f"{SVG}tspan"))
    assert float(first.get("x")) == pytest.approx(2 * recorder.CELL, abs=0.1)
    assert len(list(root.iter(f"{SVG}rect"))) == 2  # the picture's own, and that behind the title


def test_every_step_that_can_be_done_is_done_in_the_recording(recorder: ModuleType) -> None:
    assert list(recorder.KEYS) == [step.id for step in STEPS[:-1]]


def test_the_picture_in_the_readme_shows_every_step_of_the_tour() -> None:
    picture = ElementTree.parse(ROOT / "docs" / "images" / "tour.svg").getroot()
    told = " ".join("".join(row.itertext()) for row in picture.iter(f"{SVG}g") if row.get("id"))
    counted = {int(number) for number in re.findall(r"Tour (\d+) of", told)}
    assert counted == set(range(1, len(STEPS) + 1)), "run: make docs"
