"""This module records which of the lines that a change replaces were run, which way each condition
went, and where an exception was raised.

A change that was only tried with inputs for which a condition holds says nothing about other
inputs. Where a call is removed, all that the called function does is replaced too: it may be there
to raise. And a ``try`` whose statements have changed matters only if something is raised inside it.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeGuard

from fx_explorer.model.bounded_matching import changed_lines
from fx_explorer.program.place import is_users_file


@dataclass(frozen=True, slots=True)
class BranchCondition:
    """A condition, by its place in the source: a loop's condition stands twice in the bytecode."""

    path: str
    line: int
    columns: tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Jump:
    """A conditional jump in bytecode, with the offset it goes to."""

    condition: BranchCondition
    target: int
    is_taken_when_true: bool


@dataclass(frozen=True, slots=True)
class TryBlock:
    """A ``try`` statement that a change touches."""

    line: int
    body: range
    """The lines in the body of the ``try``, whose exceptions it can catch."""


class BranchCoverage:
    """Watches the original program run the lines that a change replaces.

    ``changes`` maps a file to the text that is to stand in its place.
    """

    def __init__(self, changes: Mapping[str, str]) -> None:
        texts = {path: (text_on_disk(path), after) for path, after in changes.items()}
        self._replaced = {path: replaced_lines(*both) for path, both in texts.items()}
        self._calls_gone = {path: calls_gone(*both) for path, both in texts.items()}
        self._tries = {path: changed_tries(*both) for path, both in texts.items()}
        self._called: dict[str, set[int]] = defaultdict(set)
        """File → lines of functions that replaced lines call and the new lines no longer call."""
        self._called_codes: set[CodeType] = set()
        self._raised: set[tuple[str, int]] = set()
        self._lines: set[tuple[str, int]] = set()
        self._ways: dict[BranchCondition, set[bool]] = defaultdict(set)
        self._jumps: dict[CodeType, dict[int, Jump]] = {}

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Trace the user's code inside the block."""
        before = sys.gettrace()
        if self._replaced:
            sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(before)

    def not_taken(self) -> list[str]:
        """Return descriptions of the replaced lines, branches and exceptions that no call
        reached.
        """
        missing = []
        for path in dict.fromkeys([*self._replaced, *self._called]):
            watched = _statements(text_on_disk(path)) & self._watched_lines(path)
            not_reached = [line for line in sorted(watched) if (path, line) not in self._lines]
            of_file = f"of {Path(path).name}, which no input reached"
            missing += [f"line {line} {of_file}" for line in not_reached]
        return missing + sorted(self._taken_one_way()) + list(self._nothing_raised())

    def _watched_lines(self, path: str) -> set[int]:
        return self._replaced.get(path, set()) | self._called.get(path, set())

    def _nothing_raised(self) -> Iterator[str]:
        for path, tries in self._tries.items():
            for block in tries:
                if not any((path, line) in self._raised for line in block.body):
                    yield (
                        f"an exception inside the try in line {block.line} of {Path(path).name}, "
                        "which no input raised"
                    )

    def _taken_one_way(self) -> Iterator[str]:
        for condition, ways in self._ways.items():
            if len(ways) == 1 and condition.line in self._watched_lines(condition.path):
                name = Path(condition.path).name
                yield (
                    f"the other branch of the condition in line {condition.line} of {name}, which "
                    "no input took"
                )

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        if code.co_name == "<module>":
            return None
        if code not in self._called_codes and self._is_called_no_more(frame):
            self._called_codes.add(code)
            self._called[code.co_filename] |= {
                line for _, _, line in code.co_lines() if line is not None
            }
        if not (self._replaced.get(code.co_filename) or code in self._called_codes):
            return None
        if code not in self._jumps:
            self._jumps[code] = conditional_jumps(code)
        frame.f_trace_opcodes = True
        return self._followed(code)

    def _is_called_no_more(self, frame: FrameType) -> bool:
        """Return whether this is a call of the user's code that the changed program no longer
        makes.

        The caller is a line that is replaced and no longer calls this name, or a function that is
        itself no longer called.
        """
        caller, code = frame.f_back, frame.f_code
        if caller is None or not is_users_file(code.co_filename):
            return False
        path = caller.f_code.co_filename
        is_on_replaced_line = caller.f_lineno in self._replaced.get(path, ())
        by_line = is_on_replaced_line and code.co_name in self._calls_gone[path]
        return by_line or caller.f_code in self._called_codes

    def _followed(self, code: CodeType) -> Callable[..., Any]:
        """Return a trace function for code: it notes the lines that run, which way each jump goes,
        and where errors pass.
        """
        jumps, before = self._jumps[code], -1

        def follow(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            nonlocal before
            if event == "line":
                self._lines.add((code.co_filename, frame.f_lineno))
            elif event == "opcode":
                jump = jumps.get(before)
                if jump:
                    self._ways[jump.condition].add(
                        (frame.f_lasti == jump.target) == jump.is_taken_when_true
                    )
                before = frame.f_lasti
            elif event == "exception":
                self._raised.add((code.co_filename, frame.f_lineno))
                # The next instruction is a handler's, and tells nothing about the jump before.
                before = -1
            return follow

        return follow


def replaced_lines(before: str, after: str) -> set[int]:
    """Return the lines of ``before``, counted from 1, that are not in ``after``."""
    changes = changed_lines(before.splitlines(), after.splitlines())
    replaced: set[int] = set()
    for kind, first, last, _, _ in changes:
        if kind != "equal":
            replaced.update(range(first + 1, last + 1))
    return replaced


def calls_gone(before: str, after: str) -> set[str]:
    """Return the names that the replaced lines call more often than the new lines do.

    A line that is left out of what is compiled calls nothing.
    """
    lines, others = before.splitlines(), after.splitlines()
    made: Counter[str] = Counter()
    for kind, first, last, other_first, other_last in changed_lines(lines, others):
        if kind != "equal":
            put = "\n".join(others[other_first:other_last])
            made.update(_CALLED.findall("\n".join(lines[first:last])))
            if "is_compiling()" not in put:
                made.subtract(_CALLED.findall(put))
    return {name for name, count in made.items() if count > 0}


_CALLED = re.compile(r"\b(\w+)\s*\(")


def changed_tries(before: str, after: str) -> list[TryBlock]:
    """Return each ``try`` of ``before`` that has a replaced line and no counterpart in ``after``.

    A counterpart has as many statements in each part.
    """
    replaced = replaced_lines(before, after)
    tries = _tries(before)
    less = Counter(map(_form, tries))
    less.subtract(map(_form, _tries(after)))
    changed = []
    for node in tries:
        lines = range(node.lineno, (node.end_lineno or 0) + 1)
        if less[_form(node)] > 0 and not replaced.isdisjoint(lines):
            body = range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
            changed.append(TryBlock(node.lineno, body))
    return changed


def _tries(text: str) -> list[ast.Try]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Try)]


def _form(node: ast.Try) -> tuple[int, ...]:
    """Return the number of statements in each part of a ``try``."""
    return (
        *map(len, (node.body, node.orelse, node.finalbody)),
        *(len(handler.body) for handler in node.handlers),
    )


def conditional_jumps(code: CodeType) -> dict[int, Jump]:
    """Return the conditional jumps by offset, without those that only an exception leads to
    (``with`` has some).
    """
    instructions = list(dis.get_instructions(code))
    line, lines = code.co_firstlineno, {}
    for instruction in instructions:
        line = _line_of(instruction) or line
        lines[instruction.offset] = line
    position = {one.offset: index for index, one in enumerate(instructions)}
    found: dict[int, Jump] = {}
    waiting, seen = [0], set()
    while waiting:
        index = waiting.pop()
        if index in seen or index >= len(instructions):
            continue
        seen.add(index)
        instruction = instructions[index]
        is_jump = instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs
        # In Python 3.10, SETUP_… names a handler and does not jump.
        if is_jump and not instruction.opname.startswith("SETUP_"):
            waiting.append(position[instruction.argval])
            if "_IF_" in instruction.opname:
                when_true = "IF_TRUE" in instruction.opname or "NOT_NONE" in instruction.opname
                found[instruction.offset] = Jump(
                    _condition(code, instruction, lines[instruction.offset]),
                    instruction.argval,
                    when_true,
                )
        if not instruction.opname.startswith(
            ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "RETURN", "RAISE", "RERAISE")
        ):
            waiting.append(index + 1)
    return found


def _condition(code: CodeType, jump: dis.Instruction, line: int) -> BranchCondition:
    """Return the place of the condition. Python 3.10 has no columns; there each jump counts as a
    condition of its own.
    """
    positions = getattr(jump, "positions", None)
    if positions:
        columns = (positions.col_offset, positions.end_col_offset)
    else:
        columns = (jump.offset, None)
    return BranchCondition(code.co_filename, line, columns)


def _line_of(instruction: dis.Instruction) -> int | None:
    positions = getattr(instruction, "positions", None)
    if positions is not None:
        return positions.lineno
    starts: Any = instruction.starts_line
    return None if isinstance(starts, bool) else starts


def _statements(text: str) -> set[int]:
    """Return the first lines of the statements inside functions, leaving out those that do nothing
    themselves.
    """
    lines: set[int] = set()
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in function.body:
                lines.update(node.lineno for node in ast.walk(part) if _does_something(node))
    return lines


_IDLE = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Global,
    ast.Nonlocal,
    ast.Pass,
    ast.Try,
)


def _does_something(node: ast.AST) -> TypeGuard[ast.stmt]:
    """Return whether a node is a statement that does something itself: a string alone does not."""
    if not isinstance(node, ast.stmt) or isinstance(node, _IDLE):
        return False
    return not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def text_on_disk(path: str) -> str:
    """Return the text of a Python file, in the encoding it declares."""
    with tokenize.open(path) as file:
        return file.read()
