"""Regions marked by hand, as the edit of the user's source that marks them there: pure text in, a
unified diff out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer.errors import UsageError
from fx_explorer.model.bounded_matching import unified_diff
from fx_explorer.source_edit.code import spliced
from fx_explorer.source_edit.edits import imported_as, wrapped
from fx_explorer.source_edit.statements import code_of, statements_on

MODULE, NAME = "torch.fx.traceback", "fx_traceback"


@dataclass(frozen=True, slots=True)
class StatementBlock:
    """A region, and the lines (from 1, both included) whose statements are to be in it."""

    name: str
    first_line: int
    last_line: int
    configs: Mapping[str, object] = field(default_factory=dict)
    """``torch._inductor.config`` entries for this region only."""

    @property
    def annotation(self) -> str:
        """Return the argument of ``annotate``, as Python."""
        configs = f', "inductor_configs": {self.configs!r}' if self.configs else ""
        return f'{{"compile_with_inductor": {{"inductor_region": {_quoted(self.name)}{configs}}}}}'


def marking_diff(source: str, path: str, *blocks: StatementBlock) -> str:
    """Return the diff that puts ``with fx_traceback.annotate(…)`` around the statements of each
    block.

    Line ends and the file's indentation are kept. Raises UsageError when the lines of a block cut
    through a statement, or are not in one block of one function.
    """
    code = code_of(source, path)
    for block in blocks:
        # Asked of the text as the user has it, so that a message has the user's line numbers.
        statements_on(code, path, block.first_line, block.last_line)
    _check_nesting(blocks, path)
    _check_line_ends(source, path)
    marked = source
    above: list[int] = []
    for block in sorted(
        blocks, key=lambda block: block.last_line - block.first_line
    ):  # an inner region before an outer one
        # Each region so far has put one line above its first. One that begins on the same line is
        # inside this one, and moves its end only.
        first = block.first_line + sum(line < block.first_line for line in above)
        last = block.last_line + sum(line <= block.last_line for line in above)
        code = code_of(marked, path)
        header = f"with {NAME}.annotate({block.annotation}):"
        marked = spliced(marked, wrapped(code, header, *statements_on(code, path, first, last)))
        above.append(block.first_line)
    marked = spliced(marked, imported_as(code_of(marked, path), MODULE, NAME))
    return unified_diff(source.splitlines(True), marked.splitlines(True), path)


def _check_nesting(blocks: Sequence[StatementBlock], path: str) -> None:
    """Check that no block overlaps another: one ``with`` can hold another, but not a part of it.
    Raises UsageError.
    """
    for one in blocks:
        for other in blocks:
            if one.first_line < other.first_line <= one.last_line < other.last_line:
                raise UsageError(
                    f'In {path}, region "{one.name}" ends on line {one.last_line}, in the middle of region "{other.name}": '
                    "mark them so that one holds the other, or that they are apart."
                )


def _check_line_ends(source: str, path: str) -> None:
    """Check for form feeds and Unicode separators, which end lines of a text, but not of Python.
    Raises UsageError.
    """
    if len(source.splitlines()) != len(re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", source)):
        raise UsageError(
            f"{path} has line ends other than \\n and \\r\\n: put annotate() there by hand."
        )


def _quoted(name: str) -> str:
    text = repr(name)
    return f'"{text[1:-1]}"' if text.startswith("'") and '"' not in text else text
