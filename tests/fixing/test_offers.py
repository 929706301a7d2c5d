"""These tests check what a session offers for a break beside its fixes: whether they can be tried
here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.breaks.call_tree import distinct_fallbacks
from fx_explorer.instruments.fixes.offers import offer, target_file, why_not_tried
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.session import SessionReader, SessionWriter


@pytest.mark.parametrize(
    ("target", "file"),
    [
        ("m.py", Path("m.py")),
        ("a/m.py:Model", Path("a/m.py")),
        ("package.module:f", None),
        ("a:b.py", Path("a:b.py")),
    ],
)
def test_a_target_names_a_file_or_none(target: str, file: Path | None) -> None:
    assert target_file(target) == file


def test_a_module_may_be_anywhere_and_a_file_must_be_there(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("outcome", Outcome("finished").to_json())
    here = tmp_path / "m.py"
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert why_not_tried(reader, CaptureRequest("package.module:f", "")) == ""
        assert why_not_tried(reader, CaptureRequest(f"{here}:f", "")).startswith(
            f"{here} is not in this folder ("
        )
        here.touch()
        assert why_not_tried(reader, CaptureRequest(f"{here}:f", "")) == ""


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("<lambda>", "frame is a namedtuple constructor"),
        ("__create_fn__.<locals>.__init__", "Dynamo decided to skip the frame while tracing"),
    ],
)
def test_code_that_python_made_itself_needs_no_fix(
    tmp_path: Path, function: str, reason: str
) -> None:
    """Functions and reasons are those of a capture with torch 2.13."""
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(model.Fallback(0, 0, "skipped", function, "<string>", 1, "", reason))
    with SessionReader(tmp_path / "s.fxs") as reader:
        (left,) = distinct_fallbacks(reader)
    assert "no change is needed" in left.description
    found = offer(tmp_path / "s.fxs", left)
    assert (found.fixes, found.why_none) == ((), f"{left.description}.")
