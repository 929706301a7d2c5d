"""These tests check source files of a session that would crash a parser in native code: there is no
edit of them, and no crash.
"""

from __future__ import annotations

import libcst as cst
import pytest

from fx_explorer.source_edit.code import parsed

HOSTILE = {
    "brackets": "(" * 3000,
    "closed brackets": "(" * 3000 + "1" + ")" * 3000,
    "empty lines": "\n" * 1_000_000,
    "minus": "-" * 5000 + "1",
    "attributes": "a" + ".b" * 20_000,
    "calls": "a" + "()" * 5000,
    "sums": "1" + "+1" * 20_000,
    "lambdas": "lambda:" * 3000 + "1",
    "blocks": "if 1:\n" + "".join(" " * i + "if 1:\n" for i in range(1, 150)),
    "not": "not " * 3000 + "x",
    "one long name": "x" * 30_000_000,
    "null bytes": "\0" * 50,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_source_that_is_nested_without_end_is_not_parsed(name: str) -> None:
    with pytest.raises((RecursionError, cst.ParserSyntaxError)):
        parsed(HOSTILE[name])


def test_long_and_nested_code_of_people_is_parsed() -> None:
    assert parsed("x = " + " + ".join("a" for _ in range(200)) + "\n")
    assert parsed("x = " + "[" * 90 + "]" * 90 + "\n")
