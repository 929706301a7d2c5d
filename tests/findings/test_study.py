"""These tests run studies: each part ends for itself, what is missing is made up for, and all of it
is in the session and on the page.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fx_explorer.cli import main
from fx_explorer.errors import NotASessionError, UsageError
from fx_explorer.findings import study as studies
from fx_explorer.findings.every_kind import findings, search
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.kept_trials import META, TriedFix, add_to_kept, kept_trials
from fx_explorer.findings.study import DoesNotApply, OutOfTime, Study
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.trials import HERE
from tests.exhaustive import in_exhaustive_runs

Run = Callable[[Study, float], Awaitable[str]]

BREAKS = """
import torch


def f(x):
    x = x * 2
    if x.sum() > 0:
        return x + 1
    return x - 1


example_inputs = (torch.ones(3),)
"""


@pytest.fixture
def session(tmp_path: Path) -> Path:
    whole = Path(__file__).parents[1] / "data" / "screens" / "whole.fxs.gz"
    path = tmp_path / "whole.fxs"
    path.write_bytes(gzip.decompress(whole.read_bytes()))
    return path


def ending(text: str | Exception) -> Run:
    """Return a part that returns or raises ``text``."""

    async def run(_: Study, __: float) -> str:
        if isinstance(text, Exception):
            raise text
        return text

    return run


def part(name: str, run: Run) -> studies._Part:
    return studies._Part(name, 1, f"fx-explorer {name}", run)


def study_of(session: Path, budget_s: float = 100.0) -> Study:
    study = Study(session, "model.py", HERE, lambda _: None)
    asyncio.run(study.run(budget_s))
    return study


def test_parts_end_each_for_itself(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = (
        part("a", ending("3 tried.")),
        part("b", ending(DoesNotApply("A script."))),
        part("c", ending(OutOfTime("1 of 3 tried."))),
        part("d", ending(UsageError("no such thing"))),
        part("e", ending(asyncio.TimeoutError())),
        part("f", ending("all equal.")),
    )
    monkeypatch.setattr(studies, "PARTS", parts)
    study = study_of(session)
    assert [(ended.name, ended.state) for ended in study.parts] == [
        ("a", "done"),
        ("b", "does not apply"),
        ("c", "out of time"),
        ("d", "failed"),
        ("e", "out of time"),
        ("f", "done"),
    ]
    assert [ended.command for ended in study.parts if ended.is_missing] == [
        "fx-explorer c model.py",
        "fx-explorer d model.py",
        "fx-explorer e model.py",
    ]
    with SessionReader(session) as reader:
        texts = [fact.text for fact in overview(reader)]
    assert "Studied: a, f." in texts
    assert "Not finished in the study: d (failed)." in texts


def test_a_later_study_does_what_is_missing(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def counting(name: str, text: str | Exception) -> studies._Part:
        async def run(study: Study, share_s: float) -> str:
            ran.append(name)
            return await ending(text)(study, share_s)

        return part(name, run)

    first = (counting("a", "done."), counting("b", OutOfTime("half.")))
    monkeypatch.setattr(studies, "PARTS", first)
    study_of(session)
    monkeypatch.setattr(studies, "PARTS", (first[0], counting("b", "whole.")))
    study = study_of(session)
    assert ran == ["a", "b", "b"]
    assert [ended.state for ended in study.parts] == ["done", "done"]


def test_without_budget_nothing_is_begun(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "PARTS", (part("a", ending("done.")),))
    (ended,) = study_of(session, budget_s=1.0).parts
    assert ended.state == "out of time"
    assert "before it began" in ended.text


def test_a_study_that_is_stopped_keeps_what_is_done(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(_: Study, __: float) -> str:
        await asyncio.sleep(60)
        return "never"

    monkeypatch.setattr(
        studies,
        "PARTS",
        (part("a", ending("done.")), part("b", endless), part("c", ending("never"))),
    )

    async def stopped() -> Study:
        study = Study(session, "model.py", HERE, lambda _: None)
        running = asyncio.create_task(study.run(100.0))
        while not study.parts:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return study

    study = asyncio.run(stopped())
    assert [ended.state for ended in study.parts] == ["done", "stopped", "stopped"]
    assert [ended.state for ended in Study(session, "", HERE, print).parts] == [
        "done",
        "stopped",
        "stopped",
    ]


def test_findings_of_runs_are_kept(session: Path) -> None:
    finding = Finding(
        kind="eager calls",
        text="model.py:3 calls the model itself.",
        urgency="not compiled",
        evidence=("4 calls.",),
        remedies=(Remedy("Call the compiled one."),),
    )
    add_to_kept(session, ["eager calls"], [finding])
    with SessionReader(session) as reader:
        assert finding in findings(reader)
        assert "compiled modules that also run in eager mode" in search(reader).looked_for


def test_fixes_of_one_title_and_line_take_the_place_of_earlier_ones(session: Path) -> None:
    first = TriedFix("m.py", 3, "GB1", "use torch.where", "timed out", "too slow", "-a\n+b", "")
    other = TriedFix("m.py", 4, "GB1", "use torch.cond", "refused", "results differ", "-a\n+c", "")
    add_to_kept(session, fixes=[first, other])
    again = TriedFix("m.py", 3, "GB1", "use torch.where", "good", "1 break → 0", "-a\n+b", "")
    add_to_kept(session, fixes=[again])
    with SessionReader(session) as reader:
        assert kept_trials(reader).fixes == (other, again)


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"looked_for": [], "findings": [{"kind": 1}], "fixes": []},
        {"looked_for": [], "findings": [], "fixes": [{"file": 3}]},
        {"looked_for": 3, "findings": [], "fixes": []},
    ],
)
def test_damaged_trials_are_refused(session: Path, stored: dict[str, object]) -> None:
    with SessionWriter(session) as writer:
        writer.set_meta(META, stored)
    with SessionReader(session) as reader, pytest.raises(NotASessionError):
        kept_trials(reader)


@in_exhaustive_runs
def test_a_page_has_the_tried_fixes_and_is_studied_on(
    tmp_path: Path,
    warm_python: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("breaks.py").write_text(BREAKS)
    fixes = next(part for part in studies.PARTS if part.name == "fixes of graph breaks")
    failing = part("bench", ending(UsageError("not today")))
    monkeypatch.setattr(studies, "PARTS", (fixes, failing))
    arguments = ["--python", warm_python, "--no-train", "--no-build"]
    assert main(["study", "breaks.py:f", "-o", "breaks.html", *arguments]) == 1
    printed = capsys.readouterr().out
    assert "choose with torch.where (line 7). Tried: good: 1 break → 0" in printed
    assert "by itself: fx-explorer bench breaks.py:f" in printed
    assert "fx-explorer study breaks.html -o breaks.html" in printed
    assert "choose with torch.where" in Path("breaks.html").read_text()

    monkeypatch.setattr(studies, "PARTS", (fixes, part("bench", ending("1.2 × as fast."))))
    assert main(["study", "breaks.html", "-o", "breaks.html", "--python", warm_python]) == 1
    again = capsys.readouterr()
    assert "bench: done: 1.2 × as fast." in again.out
    assert "trying a fix" not in again.err
    assert main(["report", "breaks.html", "--format", "text"]) == 0
    assert "Studied: fixes of graph breaks, bench." in capsys.readouterr().out


def test_a_study_is_a_page_or_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "model.py", "-o", str(tmp_path / "model.txt")]) == 2
    assert "a page (.html) or a session (.fxs)" in capsys.readouterr().err
