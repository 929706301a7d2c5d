"""These tests check JUnit XML: its structure, as the readers of CI systems expect it, and texts
that XML cannot hold.
"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from fx_explorer.model import Outcome
from fx_explorer.overview.checks import Check, CheckFinding
from fx_explorer.report.check_formats import CheckedTarget, junit_xml

MET = Check("max-recompiles", 2, "2 recompiles, 2 allowed")
MISSED = Check(
    "max-graph-breaks",
    0,
    "2 graph breaks, 0 allowed",
    (CheckFinding("m.py", 3, "print is called"), CheckFinding("m.py", 9, "a branch on data")),
    is_met=False,
)
FINISHED = Outcome("finished")

ATTRIBUTES = {
    "testsuites": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testcase": {"classname", "name", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
}
"""Required, as in the schemas of Jenkins' xunit plugin and of Ant; ``file`` and ``line`` of a test
case are pytest's.
"""
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error"},
}


def parsed(
    *checks: Check, target: str = "m.py", outcome: Outcome | None = FINISHED
) -> ElementTree.Element:
    root = ElementTree.fromstring(
        junit_xml([CheckedTarget(target, checks, outcome, 1.25)]).encode()
    )
    for element in root.iter():
        optional = {"file", "line"} if element.tag == "testcase" else set()
        assert ATTRIBUTES[element.tag] <= set(element.attrib) <= ATTRIBUTES[element.tag] | optional
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
    for suite in (root, *root.iter("testsuite")):
        cases = list(suite.iter("testcase"))
        counted = {
            "tests": len(cases),
            "failures": len(list(suite.iter("failure"))),
            "errors": len(list(suite.iter("error"))),
        }
        assert {name: int(suite.attrib[name]) for name in counted} == counted
    return root


def test_each_condition_is_a_test_case() -> None:
    root = parsed(MET, MISSED)
    cases = list(root.iter("testcase"))
    assert [case.attrib["name"] for case in cases] == ["--max-recompiles 2", "--max-graph-breaks 0"]
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"]]


def test_a_failure_has_its_place_and_all_places_in_its_text() -> None:
    (case,) = parsed(MISSED).iter("testcase")
    assert (case.attrib["file"], case.attrib["line"]) == ("m.py", "3")
    assert case[0].attrib["message"] == MISSED.description
    assert (case[0].text or "").splitlines()[1:] == [
        "m.py:3: print is called",
        "m.py:9: a branch on data",
    ]


@pytest.mark.parametrize(
    "outcome", [Outcome("raised", "ValueError: no", 1), Outcome("exited", "", 3), None]
)
def test_a_run_that_did_not_end_well_is_an_error_of_its_own(outcome: Outcome | None) -> None:
    *_, run = parsed(MET, outcome=outcome).iter("testcase")
    assert [child.tag for child in run] == ["error"]
    assert run[0].attrib["type"] == (outcome.kind if outcome else "incomplete")


@pytest.mark.parametrize("outcome", [FINISHED, Outcome("exited", "", 0)])
def test_a_run_that_ended_well_is_no_test_case(outcome: Outcome) -> None:
    assert len(list(parsed(MET, outcome=outcome).iter("testcase"))) == 1


@pytest.mark.parametrize(
    "hostile",
    [
        "</failure><failure>",
        "]]>",
        "&lt;",
        '" onload="',
        "\x1b[31m\x00\x0b",
        "\udcff",
        "\ufffe\uffff",
        "é 漢 🙂",
    ],
)
def test_whatever_a_name_or_text_holds_the_document_stays_one(hostile: str) -> None:
    check = Check(
        "max-graph-breaks", 0, hostile, (CheckFinding(hostile, 3, hostile),), is_met=False
    )
    root = parsed(check, target=hostile, outcome=Outcome("raised", hostile, 1))
    assert len(list(root.iter("testcase"))) == 2
    assert len(list(root.iter("failure"))) == 1


def test_what_xml_can_hold_comes_back_as_it_was_and_the_rest_as_its_escape() -> None:
    check = Check("max-graph-breaks", 0, "a<b>&\"'é🙂\x1b", is_met=False)
    (failure,) = parsed(check).iter("failure")
    assert failure.attrib["message"] == "a<b>&\"'é🙂\\x1b (--max-graph-breaks 0)"
