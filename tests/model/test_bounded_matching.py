"""These tests check that computing the differences between texts of a file comes to an end whatever
the text.
"""

from __future__ import annotations

import difflib
import random
import time

import pytest

from fx_explorer.model.bounded_matching import changed_lines, unified_diff

LINES = ["\n", "    pass\n", "    return None\n", "x = 1\n", "y = 2\n"]

NUMBERS = random.Random(0)


def edited(lines: list[str], edits: int) -> list[str]:
    changed = list(lines)
    for _ in range(edits):
        at = NUMBERS.randrange(len(changed) + 1)
        changed[at : at + NUMBERS.randrange(3)] = NUMBERS.choices(LINES, k=NUMBERS.randrange(3))
    return changed


@pytest.mark.parametrize("edits", [0, 1, 3, 9])
def test_the_opcodes_make_the_one_text_of_the_other(edits: int) -> None:
    for length in range(40):
        before = NUMBERS.choices(LINES, k=length)
        after = edited(before, edits)
        made: list[str] = []
        reached = 0
        for kind, i, i_end, j, j_end in changed_lines(before, after):
            assert (i, j) == (reached, len(made))
            made += before[i:i_end] if kind == "equal" else after[j:j_end]
            reached = i_end
        assert (reached, made) == (length, after)


def test_a_diff_is_as_difflib_writes_it() -> None:
    before = [f"line {number}\n" for number in range(60)]
    for edits in range(1, 6):
        after = edited(before, edits)
        assert unified_diff(before, after, "a.py") == "".join(
            difflib.unified_diff(before, after, "a/a.py", "b/a.py")
        )
    assert unified_diff(before, before, "a.py") == ""
    assert unified_diff(["a"], ["b"], "a.py").endswith("+b\n\\ No newline at end of file\n")


def test_a_long_file_of_lines_that_are_alike_takes_no_minutes() -> None:
    """difflib alone took 420 s for 30,000 such lines, with an import and one changed line."""
    before = NUMBERS.choices(LINES[:3], k=20_000)
    after = ["import torch\n", *before[:19_000], "changed\n", *before[19_001:]]
    began = time.process_time()
    changed = [opcode for opcode in changed_lines(before, after) if opcode[0] != "equal"]
    assert time.process_time() - began < 30
    assert changed
