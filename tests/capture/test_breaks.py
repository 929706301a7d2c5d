import json
from pathlib import Path

import pytest

from fx_explorer.capture.breaks import parse_break

REPORTS = json.loads((Path(__file__).parents[1] / "data" / "graph_break_reports.json").read_text())["reports"]


@pytest.mark.parametrize("report", REPORTS)
def test_every_part_of_a_recorded_report_is_found(report: str) -> None:
    found = parse_break(report)
    assert f"at {found.file}:{found.line}\n" in report
    assert f"/gb/gb{found.registry_id.removeprefix('GB')}.html" in report
    assert found.reason in report.splitlines()
    assert len(found.hints) == report.count("Hint: ")
    assert found.explanation
    assert all(hint in " ".join(report.split()) for hint in (*found.hints, found.explanation))


@pytest.mark.parametrize("report", REPORTS)
def test_the_stack_ends_at_the_line_that_broke(report: str) -> None:
    found = parse_break(report)
    assert len(found.frames) == report.split("Traceback (most recent call last)")[0].count('File "')
    assert (found.frames[-1].file, found.frames[-1].line) == (found.file, found.line)
    assert found.frames[-1].code


def test_a_report_in_no_known_form_keeps_its_first_line() -> None:
    found = parse_break("Something else went wrong\nand more")
    assert found.reason == "Something else went wrong"
    assert (found.registry_id, found.file, found.line, found.hints) == ("", "", 0, ())


def test_the_reason_is_the_breaks_own_and_not_what_torch_did_about_it() -> None:
    report = next(text for text in REPORTS if "\nGraph Break Reason: Encountered graph break when attempting to trace" in text)
    start = report.index("Encountered graph break")
    about = "Encountered graph break that we cannot resume from. Graph break encountered:"
    other = report[:start] + about + report[report.index("\n", start) :]
    assert parse_break(other).reason == parse_break(report).reason
