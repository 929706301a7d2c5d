"""These tests check several fixes as one: merged, tried by a real worker, written to all their
files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer.errors import UsageError
from fx_explorer.instruments.fixes.command import SessionFixes, trial
from fx_explorer.instruments.fixes.fix import Fix, distinct
from fx_explorer.instruments.fixes.offers import accept, next_to_try, together
from fx_explorer.instruments.fixes.trial import Trial
from fx_explorer.model import CaptureRequest
from fx_explorer.source_edit.user_files import FileEdit
from tests.exhaustive import IS_EXHAUSTIVE
from tests.figures import NOTHING
from tests.fixes import after, before, with_text
from tests.fixing.conftest import Case

BEFORE = "import os\n\n\ndef f(x):\n    a = 1\n    b = 2\n    c = 3\n    return x\n"


def edit(old: str, new: str, *, path: str = "/p/m.py", title: str = "") -> Fix:
    assert old in BEFORE
    return Fix(
        title or f"{old} → {new}",
        "why",
        line=1,
        edits=(FileEdit(path, BEFORE, BEFORE.replace(old, new)),),
    )


def good(*fixes: Fix) -> list[Trial]:
    return [Trial(fix, "good", "", NOTHING, NOTHING, None, 0.0) for fix in fixes]


def test_options_change_no_file_and_say_how_they_are_set() -> None:
    fix = Fix("put the number into the graph", "", settings={"dynamo.capture_scalar_outputs": True})
    with pytest.raises(UsageError, match=r"torch\._dynamo\.config\.capture_scalar_outputs = True"):
        accept(fix)
    assert "--setting dynamo.capture_scalar_outputs=True" in fix.instruction


def test_fixes_that_change_the_same_are_one_and_marks_of_two_sizes_are_two() -> None:
    one, same = edit("a = 1", "a = 10"), edit("a = 1", "a = 10", title="the same by another way")
    marks = [Fix(f"mark size {size}", "", marks=(f"L['x']:{size}",)) for size in (0, 1)]
    assert distinct([one, same, *marks]) == [one, *marks]


def test_edits_of_one_file_are_merged_and_an_import_that_both_need_comes_once() -> None:
    one = edit("import os\n\n\n", "import os\nimport torch\n\n\n")
    first, second = (
        with_text(one, after(one).replace(old, new))
        for old, new in (("a = 1", "a = 10"), ("    c = 3\n", ""))
    )
    whole = together([[first], [second]], good(first, second))
    assert whole is not None
    assert after(whole.fix) == BEFORE.replace("os\n", "os\nimport torch\n").replace(
        "a = 1", "a = 10"
    ).replace("    c = 3\n", "")
    assert (whole.taken, whole.left_out) == ((first, second), ())


def test_an_edit_of_the_same_line_is_left_out_and_named() -> None:
    one, two, three = edit("b = 2", "b = 20"), edit("b = 2", "b = 30"), edit("c = 3", "c = 30")
    whole = together([[one], [two], [three]], good(one, two, three))
    assert whole is not None
    assert after(whole.fix) == BEFORE.replace("b = 2", "b = 20").replace("c = 3", "c = 30")
    assert whole.left_out == (
        (
            "'b = 2 → b = 30' (line 1) edits line 6 like 'b = 2 → b = 20': accept one, capture again, "
            "and try the other"
        ),
    )
    assert whole.left_out[0] in whole.fix.why


def test_edits_that_do_not_parse_together_are_not_merged() -> None:
    one, two = (
        edit("    a = 1\n", "    if x:\n        a = 1\n"),
        edit("    b = 2\n", "    else:\n        b = 2\n"),
    )
    three = edit("c = 3", "c = 4")
    whole = together([[two], [one], [three]], good(two, one, three))
    assert whole is not None
    assert whole.taken == (one, three)
    assert "could not be parsed" in whole.left_out[0]


def test_options_and_edits_of_several_files_go_together() -> None:
    option = Fix(
        "put the number into the graph", "", settings={"dynamo.capture_scalar_outputs": True}
    )
    one, two = edit("a = 1", "a = 2"), edit("b = 2", "b = 1", path="/p/other.py")
    whole = together([[one], [option], [two]], good(one, option, two))
    assert whole is not None
    assert [fix.path for fix in whole.fix.edits] == ["/p/m.py", "/p/other.py"]
    assert whole.fix.settings == option.settings
    assert whole.fix.diff == one.diff + two.diff


def test_one_fix_is_enough_for_a_break_and_one_alone_is_nothing_to_do_together() -> None:
    first, second, third = edit("a = 1", "a = 2"), edit("b = 2", "b = 1"), edit("c = 3", "c = 4")
    assert next_to_try([[first, second], [third]], []) == first
    refused = replace(good(first)[0], verdict="refused")
    assert next_to_try([[first, second], [third]], [refused]) == second
    assert next_to_try([[first, second], [third]], good(first)) == third
    assert next_to_try([[first, second], [third]], good(first, third)) is None
    assert (
        together(
            [[first, second], [third]],
            [*good(first), replace(good(third)[0], verdict="prints differ")],
        )
        is None
    )


def test_all_files_are_written_or_none(tmp_path: Path) -> None:
    files = [tmp_path / "one.py", tmp_path / "folder" / "two.py"]
    files[1].parent.mkdir()
    for file in files:
        file.write_text(BEFORE)
    one, two = (edit("a = 1", "a = 2", path=str(file)) for file in files)
    whole = together([[one], [two]], good(one, two))
    assert whole is not None
    files[1].chmod(0o444)
    with pytest.raises(UsageError, match=r"two\.py is read-only"):
        accept(whole.fix)
    assert files[0].read_text() == BEFORE
    files[1].chmod(0o644)
    files[1].parent.chmod(0o555)
    with pytest.raises(UsageError, match=r"the folder of \S*two\.py is read-only"):
        accept(whole.fix)
    files[1].parent.chmod(0o755)
    assert [len(list(file.parent.iterdir())) for file in files] == [2, 1]
    assert accept(whole.fix).backups == [file.with_name(f"{file.name}.orig") for file in files]
    assert [file.read_text() for file in files] == [after(one), after(two)]


def test_breaks_of_the_whole_are_counted_before_and_after(case: Callable[[str], Case]) -> None:
    found = case("control:three_breaks")
    wanted = (
        "keep the value in a tensor",
        "run this only in eager mode",
        "choose with torch.where",
    )
    fixes = [found.fix(title) for title in wanted]
    whole = together([[fix] for fix in fixes], good(*fixes))
    assert whole is not None
    trial = found.tried(whole.fix)
    assert trial.verdict == "good where compared", (
        trial.reason
    )  # one of them is: what it leaves out is not lost from what is said
    assert trial.reason.startswith("3 breaks → 0; equal in 20 calls; not compared: the effects of ")


def test_fixes_that_are_good_alone_and_not_together_are_refused(
    case: Callable[[str], Case],
) -> None:
    found = case("control:depends_on_both")
    (asked,) = {before(fix): fix for fix in found.fixes}.values()
    cut = "    torch._dynamo.graph_break()\n"
    edits = [
        replace(
            with_text(asked, before(asked).replace(f"    {name} = 1\n{cut}", f"    {name} = 2\n")),
            title=name,
        )
        for name in ("one", "other")
    ]
    if IS_EXHAUSTIVE:
        assert [found.tried(fix).verdict for fix in edits] == ["good", "good"]
    whole = together([[fix] for fix in edits], good(*edits))
    assert whole is not None
    trial = found.tried(whole.fix)
    assert (trial.verdict, trial.reason.partition(":")[0]) == ("refused", "results differ")


def test_a_fix_of_which_one_edit_clashes_leaves_nothing_behind() -> None:
    first, second = edit("b = 2", "b = 20"), edit("c = 3", "c = 30")
    elsewhere, clashing = edit("a = 1", "a = 10", path="/p/other.py"), edit("b = 2", "b = 99")
    both = replace(clashing, title="both", edits=(*elsewhere.edits, *clashing.edits))
    whole = together([[first], [both], [second]], good(first, both, second))
    assert whole is not None
    assert whole.taken == (first, second)
    assert [one.path for one in whole.fix.edits] == ["/p/m.py"]


async def test_a_fix_of_two_breaks_of_a_line_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Fix] = []

    async def try_fix(request: CaptureRequest, fix: Fix, *_: object, **__: object) -> Trial:
        tried.append(fix)
        return Trial(fix, "good", "1 break → 0", NOTHING, None, None, 2.0)

    monkeypatch.setattr("fx_explorer.instruments.fixes.trial.try_fix", try_fix)
    monkeypatch.setattr(
        "fx_explorer.instruments.fixes.command.check_program", lambda arguments: None
    )
    arguments = argparse.Namespace(python=sys.executable, timeout=60.0)
    found = SessionFixes(CaptureRequest("m.py", ""), NOTHING)
    one, same = edit("a = 1", "a = 10"), edit("a = 1", "a = 10")
    other = replace(one, untried="a call with zeros")
    for fix in (one, same, other):
        assert (await trial(found, fix, arguments)).is_good
    assert tried == [one, other]
    assert [one.fix for one in found.trials] == [one, same, other]
