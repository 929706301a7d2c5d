"""These tests compare bytecode listings with ``dis`` and with the code that torch itself counts and
installs.
"""

import ast
import dis
import inspect
import re
import types
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

from fx_explorer.analysis.documents import Place, document_of
from fx_explorer.analysis.linked_lines import linked_places
from fx_explorer.capture.dynamo.bytecode_gutter import MAX_COLUMNS, gutter
from fx_explorer.capture.dynamo.bytecode_instructions import handled, instructions
from fx_explorer.capture.dynamo.bytecode_listing import (
    ListingRow,
    format_line_ranges,
    listing,
    remark,
)
from fx_explorer.model import Artifact, Compilation, LineSource, ResumeFunction, SourceFile
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, failures, record


def with_loops(n: int) -> int:
    for i in range(n):
        if i > 3:
            continue
        while n:
            n -= 1
            if n == 2:
                break
    return n


def with_branches(n: int) -> str:
    if n > 2 and n < 9:
        return "some"
    return "many" if n else "none"


def with_handlers(n: int) -> int:
    try:
        n += 1
    except ValueError as error:
        print(error)
    finally:
        n += 2
    return n


def with_a_loop_of_one_instruction() -> None:
    while True:
        pass


FUNCTIONS = (with_loops, with_branches, with_handlers, with_a_loop_of_one_instruction)


def targets_of_dis(code: types.CodeType) -> dict[int, int]:
    jumps = {*dis.hasjrel, *dis.hasjabs}
    return {one.offset: one.argval for one in dis.get_instructions(code) if one.opcode in jumps}


def instruction_rows(rows: list[ListingRow]) -> dict[int, str]:
    """Offset → the row of its instruction."""
    found = ((re.match(r"\s*(\d+) ", row.text), row.text) for row in rows)
    return {int(match[1]): text for match, text in found if match}


def followed(rows: list[ListingRow]) -> dict[int, int]:
    """Offset → offset of the arrow head that its line leads to, found by walking along the
    characters.
    """
    grid = [row.text for row in rows]
    starts = [
        (y, x)
        for y, text in enumerate(grid)
        if (x := text.find("─ ")) >= 0 and text[: x + 1].strip()[:1].isdigit()
    ]
    return {offset_of(grid[y]): offset_of(grid[head_from(grid, y, x)]) for y, x in starts}


def offset_of(text: str) -> int:
    return int(text.split()[0])


def head_from(grid: list[str], y: int, x: int) -> int:
    """Left to the first corner of this row, then both ways along its upright line to the row with
    the head.
    """
    corner = next(i for i in range(x, -1, -1) if grid[y][i] in "╭╰├" and is_leftmost(grid[y], i))
    for step in (-1, 1):
        row = y
        while 0 <= row < len(grid) and grid[row][corner : corner + 1] in tuple("│├╭╰┼┬┴"):
            has_head = "▸" in grid[row]
            if has_head and grid[row][corner] in "├╭╰┬┴":
                return row
            if grid[row][corner] == ("╰" if step > 0 else "╭"):
                break
            row += step
    raise AssertionError(f"no arrow head for row {y}: {grid[y]}")


def is_leftmost(text: str, x: int) -> bool:
    return not any(character in "╭╰├" for character in text[:x])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_jump_says_the_target_that_dis_says(function: types.FunctionType) -> None:
    rows = instruction_rows(listing(function.__code__))
    expected = targets_of_dis(function.__code__)
    assert {
        offset: int(match[1])
        for offset, text in rows.items()
        if (match := re.search(r" to (\d+)", text))
    } == expected


@pytest.mark.parametrize("function", FUNCTIONS)
def test_arrow_heads_stand_at_the_targets_of_dis_and_nowhere_else(
    function: types.FunctionType,
) -> None:
    rows = instruction_rows(listing(function.__code__))
    assert {offset for offset, text in rows.items() if "▸" in text} == set(
        targets_of_dis(function.__code__).values()
    )


@pytest.mark.parametrize("function", [with_branches, with_handlers])
def test_the_line_of_each_jump_leads_to_its_target(function: types.FunctionType) -> None:
    assert followed(listing(function.__code__)) == targets_of_dis(function.__code__)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_instructions_have_the_line_that_dis_says(function: types.FunctionType) -> None:
    code = function.__code__
    starts = dict(dis.findlinestarts(code))
    found = {one.offset: one.line for one in instructions(code)}
    assert {offset: found[offset] for offset, line in starts.items() if line} == {
        k: v for k, v in starts.items() if v
    }


def test_source_lines_stand_where_they_begin() -> None:
    source, first = inspect.getsourcelines(with_loops)
    comments = [row for row in listing(with_loops.__code__) if re.match(r"^[^#\d]*# \d", row.text)]
    assert comments
    for row in comments:
        assert row.text.endswith(f"# {row.line}  {source[row.line - first].strip()}")


@pytest.mark.skipif(
    not hasattr(dis.Bytecode(with_handlers), "exception_entries"), reason="a jump sets handlers up"
)
def test_handlers_are_those_that_setting_up_an_error_leads_to() -> None:
    rows = instruction_rows(listing(with_handlers.__code__))
    found = handled(with_handlers.__code__)
    pushes = {
        one.offset for one in dis.get_instructions(with_handlers) if one.opname == "PUSH_EXC_INFO"
    }
    assert pushes
    assert pushes <= found.keys()
    assert {offset for offset, text in rows.items() if "# on an error in " in text} == found.keys()
    assert {
        offset for stretches in found.values() for pair in stretches for offset in pair
    } <= rows.keys()


def test_stretches_that_raise_begin_and_end_where_the_exception_table_says() -> None:
    printed = dis.Bytecode(with_handlers).dis().partition("ExceptionTable:")[2]
    expected = sorted(
        (int(a), int(b), int(c)) for a, b, c in re.findall(r"(\d+) to (\d+) -> (\d+)", printed)
    )
    found = sorted(
        (a, b, target)
        for target, stretches in handled(with_handlers.__code__).items()
        for a, b in stretches
    )
    assert not expected or found == expected  # 3.13 prints names of offsets


def test_a_jump_in_another_has_a_column_of_its_own() -> None:
    assert gutter(5, [(0, 4), (1, 3)]) == ["╭──", "│╭─", "││ ", "│╰▸", "╰─▸"]


def test_jumps_to_the_same_row_share_a_column() -> None:
    assert gutter(4, [(0, 3), (1, 3)]) == ["╭─", "├─", "│ ", "╰▸"]


def test_jumps_side_by_side_share_a_column() -> None:
    assert gutter(5, [(1, 0), (2, 4)]) == ["╭▸", "╰─", "╭─", "│ ", "╰▸"]


def test_without_jumps_there_is_no_gutter() -> None:
    assert gutter(3, []) == ["", "", ""]


def test_what_finds_no_column_keeps_its_arrow_head() -> None:
    deep = [(i, 40 - i) for i in range(20)]
    drawn = gutter(41, deep)
    assert {len(text) for text in drawn} == {MAX_COLUMNS + 1}
    assert [row for row, text in enumerate(drawn) if text.endswith("▸")] == sorted(
        target for _, target in deep
    )
    assert drawn[0].strip() == "", "the outermost is not drawn"


def test_a_string_that_looks_like_a_name_of_dynamos_is_not_explained() -> None:
    assert remark("'__compiled_fn_1'", "0/0", {}) == ""
    assert remark("compiled_fn", "0/0", {}) == ""


# what torch makes


def breaks_twice(x: torch.Tensor, n: int) -> torch.Tensor:
    y = x + 1
    print("first")
    for _ in range(n):
        y = y * 2
    print("second")
    return y.sin()


def with_closure(x: torch.Tensor) -> torch.Tensor:
    scale = 2

    def inner(y: torch.Tensor) -> torch.Tensor:
        print("here")
        return y * scale

    return inner(x + 1) + scale


def recorded(path: Path, function: Callable[..., object], *inputs: object) -> SessionReader:
    def program(compile_: Compile) -> object:
        return compile_(function)(*inputs)

    return record(path, program, backend="eager")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    counters.clear()
    return recorded(tmp_path_factory.mktemp("bytecode") / "b.fxs", breaks_twice, torch.ones(3), 2)


def modified(reader: SessionReader) -> dict[str, str]:
    names = {row.id: row.name for row in reader.rows(Compilation)}
    return {
        names[row.compilation]: reader.text(row.text)
        for row in reader.rows(Artifact, kind="bytecode_modified")
    }


def test_resume_functions_are_named_as_torch_made_them(broken: SessionReader) -> None:
    assert failures(broken) == []
    made = {row.compilation: row.name for row in broken.rows(ResumeFunction)}
    called = {row.name: made.get(row.id) for row in broken.rows(Compilation)}
    assert called["0/0"]
    assert called["1/0"]
    for name, text in modified(broken).items():
        assert re.findall(r"__resume_at_\w+.*# (\w+): the rest of", text) == [called[name]] * bool(
            called[name]
        )


def test_a_resume_function_says_which_line_it_goes_on_from(broken: SessionReader) -> None:
    line = breaks_twice.__code__.co_firstlineno + 2
    said = f"# torch_dynamo_resume_in_breaks_twice_at_{line}: the rest of breaks_twice after line {line}"
    assert said in modified(broken)["0/0"]
    (resumed,) = (row for row in broken.rows(Compilation) if row.name == "1/0")
    (original,) = broken.rows(Artifact, kind="bytecode_original", compilation=resumed.id)
    assert broken.text(original.text).splitlines()[0] == said


def test_the_compiled_graph_is_named_by_its_compilation_and_its_lines(
    broken: SessionReader,
) -> None:
    first = breaks_twice.__code__.co_firstlineno
    lines = {"0/0": first + 1, "1/0": first + 4, "2/0": first + 6}
    for name, text in modified(broken).items():
        said = f"the compiled graph [{name}]: line {lines[name]}"
        assert re.findall(r"__compiled_fn_\d+(?: \+ NULL)?  # (.*)", text) == [said]


def test_lines_that_follow_each_other_are_said_as_one_stretch() -> None:
    assert format_line_ranges([3, 4, 5, 9]) == "lines 3-5, 9"
    assert format_line_ranges([3]) == "line 3"
    assert format_line_ranges([]) == ""


def test_a_line_that_went_into_the_graph_lights_its_call_and_the_call_lights_the_line(
    broken: SessionReader,
) -> None:
    line = breaks_twice.__code__.co_firstlineno + 4
    (file,) = (row for row in broken.rows(SourceFile) if row.path == __file__)
    (resumed,) = (row for row in broken.rows(Compilation) if row.name == "1/0")
    (artifact,) = broken.rows(Artifact, kind="bytecode_modified", compilation=resumed.id)
    text = broken.text(artifact.text).splitlines()
    source, code = (
        document_of(broken, "source", file.id),
        document_of(broken, "artifact", artifact.id),
    )
    lit = linked_places(broken, Place(source, line - 1), [code])[code]
    (loads,) = (i for i, row in enumerate(text) if "__compiled_fn_" in row)
    stored = next(i for i, row in enumerate(text) if "graph_out_" in row and "STORE_FAST" in row)
    calls = max(i for i, row in enumerate(text[:stored]) if " CALL " in row)
    assert {loads, calls} <= lit
    for row in (loads, calls):
        assert line - 1 in linked_places(broken, Place(code, row), [source])[source]


def test_resume_functions_that_share_variables_are_named(tmp_path: Path) -> None:
    reader = recorded(tmp_path / "c.fxs", with_closure, torch.ones(3))
    made = {row.name for row in reader.rows(ResumeFunction)}
    named = {
        name
        for text in modified(reader).values()
        for name in re.findall(r"torch_dynamo_resume_in_\w+", text)
    }
    assert made
    assert made <= named


def test_rows_are_linked_to_the_lines_of_the_function(broken: SessionReader) -> None:
    tree = ast.parse(inspect.getsource(breaks_twice))
    first = breaks_twice.__code__.co_firstlineno
    within = range(first, first + (tree.body[0].end_lineno or 0))
    for artifact in broken.rows(Artifact, language="bytecode"):
        text = broken.text(artifact.text).splitlines()
        links = broken.rows(LineSource, artifact=artifact.id)
        assert {Path(broken.get(SourceFile, link.file).path) for link in links} == {Path(__file__)}
        assert {link.source_line for link in links} <= set(within)
        said = {
            i: int(match[1])
            for i, row in enumerate(text, 1)
            if (match := re.match(r"^[^#\w]*# (\d+)  ", row))
        }
        assert said.items() <= {link.line: link.source_line for link in links}.items()
