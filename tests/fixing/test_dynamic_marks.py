"""These tests try marks in real workers; how often each program must compile can be read off it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.analysis.whole_session import session_figures, totals
from fx_explorer.capture.torch_compat.versions import marks_one_size
from fx_explorer.instruments.dynamic.trial import DynamicMarkTrial, try_marks
from fx_explorer.instruments.fixes.dynamic_marks import (
    DynamicMark,
    instruction,
    marks,
    sources_of,
    try_any,
)
from fx_explorer.instruments.fixes.offers import offer
from fx_explorer.instruments.recompiles.causes import causes
from fx_explorer.session import SessionReader
from tests.exhaustive import with_others

Captured = Callable[..., Path]

VARYING = """
import os
import torch

@torch.compile(backend="eager")
def scaled(x, k, flag):
    return x * k if flag else x

if {condition}:
    raise SystemExit("no marks, please")
for size, k, flag in [(4, 2, True), (6, 2, True), (6, 3, True), (8, 5, True), (8, 5, False)]:
    scaled(torch.ones(size, 3), k, flag)
"""
COMPILED, WITH_SIZE, WITH_NUMBER, WITH_BOTH = 4, 3, 3, 2
"""By torch alone: for size 4, for any size, for any number, and for the flag. A mark takes one of
them away.
"""


pytestmark = pytest.mark.usefixtures("warm_workers")


@pytest.fixture(scope="module")
def varying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("varying") / "varying.py"
    path.write_text(VARYING.format(condition="False"))
    return path


def tried(
    session: Path, wanted: Callable[[list[DynamicMark]], list[DynamicMark]]
) -> DynamicMarkTrial:
    with SessionReader(session) as reader:
        request = reader.request()
        found, before = marks(reader), totals(reader).compilations
    return asyncio.run(try_marks(request, sources_of(wanted(found)), before))


def test_each_size_and_number_that_varied_can_be_marked(
    captured: Captured, varying: Path, reader: Callable[[Path], SessionReader]
) -> None:
    found = marks(reader(captured(varying)))
    x, which = ("L['x']:0", "size 0") if marks_one_size() else ("L['x']", "all sizes")
    assert [mark.source for mark in found] == [x, "L['k']"]
    assert [mark.title for mark in found] == [f"mark {which} of x as dynamic", "mark k as dynamic"]
    assert found[0].instruction.startswith("torch._dynamo.mark_dynamic(x, 0), or ")
    assert instruction(found) == f"TORCH_COMPILE_DYNAMIC_SOURCES=\"{x},L['k']\""


@pytest.mark.parametrize(
    ("which", "compilations"),
    with_others([(slice(1), WITH_SIZE)], [(slice(1, 2), WITH_NUMBER), (slice(None), WITH_BOTH)]),
)
def test_a_mark_that_is_tried_takes_its_recompile_away(
    captured: Captured, varying: Path, which: slice, compilations: int
) -> None:
    trial = tried(captured(varying), lambda found: found[which])
    assert (trial.before, trial.after, trial.is_good) == (COMPILED, compilations, True)
    assert trial.description == f"tried, {COMPILED} compilations → {compilations}"


def test_marks_that_change_nothing_are_not_called_good(captured: Captured, varying: Path) -> None:
    trial = tried(captured(varying), lambda _: [])
    assert (trial.after, trial.is_good) == (COMPILED, False)


def test_a_program_that_does_not_get_through_with_marks_is_told(
    captured: Captured, tmp_path: Path
) -> None:
    path = tmp_path / "touchy.py"
    path.write_text(VARYING.format(condition="os.environ.get('TORCH_COMPILE_DYNAMIC_SOURCES')"))
    trial = tried(captured(path), lambda found: found)
    assert (trial.after, trial.is_good) == (None, False)
    assert "the program failed" in trial.description


def test_marks_are_offered_for_their_recompile_and_tried_as_fixes_are(
    captured: Captured, varying: Path
) -> None:
    session = captured(varying)
    with SessionReader(session) as reader:
        first, *_, flag = causes(reader)
        before = session_figures(reader)
    found = offer(session, first)
    assert [fix.title.rpartition(" of ")[2] for fix in found.fixes] == [
        "x as dynamic",
        "mark all changing sizes as dynamic",
    ]
    assert found.fixes[1].instruction.startswith(
        "torch._dynamo.mark_dynamic(x, 0)\n# or, without an edit: TORCH_COMPILE_DYNAMIC"
    )
    assert found.request is not None
    trial = asyncio.run(try_any(found.request, found.fixes[1], before))
    assert (trial.verdict, trial.reason) == (
        "good",
        f"tried, {COMPILED} compilations → {WITH_BOTH}; results were not compared",
    )
    assert offer(session, flag).fixes == ()
    assert offer(session, flag).why_none.startswith("No mark avoids this recompile.")


def test_what_a_mark_does_not_help_gets_none(
    captured: Captured, tmp_path: Path, reader: Callable[[Path], SessionReader]
) -> None:
    path = tmp_path / "others.py"
    path.write_text(
        "import torch\n"
        "scale = 2.0\n"
        "@torch.compile(backend='eager')\n"
        "def f(x, k=1.5):\n    return x * scale * k\n"
        "f(torch.ones(4))\nf(torch.ones(1))\nf(torch.ones(4).double())\nf(torch.ones(4), 2.5)\n"
        "scale = 3.0\nf(torch.ones(4))\n"
    )
    session = reader(captured(path))
    assert totals(session).recompiles >= 3
    assert marks(session) == []


def test_the_command_lists_recompiles_and_tries_them(
    captured: Captured,
    varying: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(varying.parent)
    session = captured(varying)
    assert cli.main(["fix", str(session)]) == 0
    listed = capsys.readouterr().out
    assert "varying.py:7  recompiled: size 0 of x was 4 and now is 6" in listed
    assert "tried" not in listed
    assert cli.main(["fix", str(session), "--try"]) == 0
    assert (
        f"tried, {COMPILED} compilations → {WITH_BOTH}: TORCH_COMPILE_DYNAMIC_SOURCES="
        in capsys.readouterr().out
    )


TOGETHER = """
import functools
import torch

def handing_on(function):
    @functools.wraps(function)
    def handed_on(*args, **kwargs):
        return function(*args, **kwargs)
    return handed_on

@handing_on
def score(ids, mask):
    return ids.float().cos() * mask

called = torch.compile(score, backend="eager")
for length in (8, 12):
    ids, mask = torch.ones(2, length), torch.ones(2, length)
    called({arguments})
"""


@pytest.mark.skipif(
    not marks_one_size(), reason="older releases of torch mark all sizes of a tensor"
)
@pytest.mark.parametrize(
    "arguments", with_others(["ids, mask=mask"], ["ids, mask", "ids=ids, mask=mask"])
)
def test_sizes_that_change_together_are_marked_together(
    captured: Captured, tmp_path: Path, arguments: str
) -> None:
    """With one of them marked, torch compiles again for the other."""
    path = tmp_path / "together.py"
    path.write_text(TOGETHER.format(arguments=arguments))
    session = captured(path)
    with SessionReader(session) as reader:
        (mark,) = marks(reader)
        request = reader.request()
    assert mark.title == "mark size 1 of ids and size 1 of mask as dynamic"
    assert mark.lines == [
        "torch._dynamo.mark_dynamic(ids, 1)",
        "torch._dynamo.mark_dynamic(mask, 1)",
    ]
    (fix,) = offer(session, mark.cause).fixes
    assert fix.marks == mark.sources
    alone = asyncio.run(try_marks(request, [mark.source], 2))
    assert (alone.after, alone.is_good) == (2, False)
    both = tried(session, lambda found: found)
    assert (both.after, both.is_good) == (1, True)
