"""These tests check the source edit that marks a region: applied with `patch`, it parses, and marks
the chosen nodes.
"""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from fx_explorer.analysis.hand_marks import StatementBlock, marking_diff
from fx_explorer.errors import UsageError
from fx_explorer.source_edit.edits import whole_statements

IMPORT = "import torch.fx.traceback as fx_traceback"

SOURCE = '''"""A model."""
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        """What it does."""
        y = torch.sin(
            x
        )
        if y is not None:
            z = y.cos()
            z = z + 1; w = z
        text = """kept
as it is"""
        return z  # done


top = 1
'''


def patched(tmp_path: Path, source: str, diff: str) -> str:
    """Return the result of ``git apply``."""
    (tmp_path / "m.py").write_bytes(source.encode())
    subprocess.run(
        ["git", "apply", "--unsafe-paths", "-"],
        input=diff.encode(),
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    return (tmp_path / "m.py").read_bytes().decode()


def regions(source: str) -> list[tuple[str, list[str]]]:
    """(argument of annotate, statements inside), as Python reads them."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.With)]
    return [
        (ast.unparse(node.items[0].context_expr.args[0]), [ast.unparse(s) for s in node.body])
        for node in found
    ]  # type: ignore[attr-defined]


def test_lines_become_a_with_block_and_the_import_is_added(tmp_path: Path) -> None:
    after = patched(tmp_path, SOURCE, marking_diff(SOURCE, "m.py", StatementBlock("waves", 8, 10)))
    assert regions(after) == [
        ("{'compile_with_inductor': {'inductor_region': 'waves'}}", ["y = torch.sin(x)"])
    ]
    assert after.split("\n")[1:3] == ["import torch", IMPORT]


def test_statements_inside_an_if_are_marked_inside_it(tmp_path: Path) -> None:
    after = patched(tmp_path, SOURCE, marking_diff(SOURCE, "m.py", StatementBlock("r", 12, 12)))
    assert regions(after)[0][1] == ["z = y.cos()"]


def test_a_whole_body_is_marked_and_the_lines_of_its_strings_stay(tmp_path: Path) -> None:
    after = patched(tmp_path, SOURCE, marking_diff(SOURCE, "m.py", StatementBlock("net", 8, 16)))
    ((_, statements),) = regions(after)
    assert statements[0] == "y = torch.sin(x)"
    assert statements[-1] == "return z"
    assert "kept\\nas it is" in statements[2]


def test_tabs_and_windows_line_ends_are_kept_and_an_import_is_not_repeated(tmp_path: Path) -> None:
    source = "import torch.fx.traceback as fx_traceback\r\ndef f(x):\r\n\ty = x\r\n\treturn y"
    after = patched(tmp_path, source, marking_diff(source, "m.py", StatementBlock('a "b"', 3, 4)))
    lines = after.split("\r\n")
    assert lines[2].startswith("\twith fx_traceback.annotate(")
    assert lines[3:] == ["\t\ty = x", "\t\treturn y"]
    assert after.count("import") == 1
    assert (
        'a "b"'
        in ast.literal_eval(regions(after)[0][0])["compile_with_inductor"]["inductor_region"]
    )


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (8, 8, "include only part of the statement on lines 8 to 10"),
        (10, 12, "include only part of the statement on lines"),
        (13, 13, None),
        (19, 19, "are in no function"),
        (15, 19, "extend beyond forward"),
        (14, 14, "include only part of the statement on lines 14 to 15"),
        (500, 501, "are in no function"),
    ],
)
def test_lines_that_cannot_be_a_region_say_why(first: int, last: int, message: str | None) -> None:
    if message is None:
        assert "z = z + 1; w = z" in marking_diff(SOURCE, "m.py", StatementBlock("r", first, last))
        return
    with pytest.raises(UsageError, match=message):
        marking_diff(SOURCE, "m.py", StatementBlock("r", first, last))


def test_a_file_that_cannot_be_edited_says_why() -> None:
    with pytest.raises(UsageError, match="cannot be parsed"):
        marking_diff("def f(:", "m.py", StatementBlock("r", 1, 1))
    with pytest.raises(UsageError, match="share a line"):
        marking_diff("def f(x): return x\n", "m.py", StatementBlock("r", 1, 1))


NESTED = """def f(x, y):
    x = x + 1
    if y:
        x = x * 2
    else:
        x = x * 3
    x = x - 1
    return x
"""


def test_several_regions_of_a_file_are_one_diff_and_one_import_and_may_hold_each_other(
    tmp_path: Path,
) -> None:
    blocks = (
        StatementBlock("outer", 2, 7),
        StatementBlock("inner", 2, 2),
        StatementBlock("two", 4, 4),
        StatementBlock("last", 8, 8),
    )
    after = patched(tmp_path, NESTED, marking_diff(NESTED, "m.py", *blocks))
    assert after.count("import") == 1
    names = {argument.split("'")[-2]: statements for argument, statements in regions(after)}
    assert len(names["outer"]) == 3
    assert (names["inner"], names["two"], names["last"]) == (
        ["x = x + 1"],
        ["x = x * 2"],
        ["return x"],
    )


def test_configs_of_a_region_are_in_its_annotation(tmp_path: Path) -> None:
    block = StatementBlock("r", 12, 12, {"max_fusion_size": 4})
    ((argument, _),) = regions(patched(tmp_path, SOURCE, marking_diff(SOURCE, "m.py", block)))
    region = {"inductor_region": "r", "inductor_configs": {"max_fusion_size": 4}}
    assert ast.literal_eval(argument) == {"compile_with_inductor": region}


def test_regions_that_cut_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match='"a" ends on line 6, in the middle of region "b"'):
        marking_diff(NESTED, "m.py", StatementBlock("a", 2, 6), StatementBlock("b", 3, 7))


def test_lines_in_two_branches_of_an_if_are_not_one_block() -> None:
    with pytest.raises(UsageError, match="include only part of the statement on lines 3 to 6"):
        marking_diff(NESTED, "m.py", StatementBlock("r", 4, 6))


def test_an_elif_is_no_statement_of_its_own_and_what_it_holds_is(tmp_path: Path) -> None:
    source = "def f(x, y):\n  if y:\n    x = 1\n  elif x:\n    x = 2\n  return x\n"
    with pytest.raises(UsageError, match="include only part of the statement on lines 2 to 5"):
        marking_diff(source, "m.py", StatementBlock("r", 4, 5))
    after = patched(tmp_path, source, marking_diff(source, "m.py", StatementBlock("r", 5, 5)))
    assert regions(after)[0][1] == ["x = 2"]
    assert "\n      x = 2\n" in after, "the file's own indentation"


def test_lines_grow_to_whole_statements_of_the_innermost_block() -> None:
    assert whole_statements(SOURCE, "m.py", 9, 9) == (8, 10)
    assert whole_statements(SOURCE, "m.py", 9, 12) == (8, 13)
    assert whole_statements(NESTED, "m.py", 4, 4) == (4, 4)
    assert whole_statements(NESTED, "m.py", 4, 6) == (3, 6)
