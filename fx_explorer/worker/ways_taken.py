"""Which lines ran, and which way each condition went, in the parts of the user's files that a change replaces.

A change that was only tried with inputs for which a condition holds says nothing about the others.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from fx_explorer.model.bounded_matching import changed_lines


@dataclass(frozen=True, slots=True)
class Condition:
    """A place in the source: a loop's condition stands twice in the bytecode."""

    path: str
    line: int
    columns: tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Jump:
    condition: Condition
    target: int
    is_taken_when_true: bool


class WaysTaken:
    """``changes``: file → the text that is to stand in its place."""

    def __init__(self, changes: Mapping[str, str]) -> None:
        self._replaced = {path: replaced_lines(text_on_disk(path), after) for path, after in changes.items()}
        self._lines: set[tuple[str, int]] = set()
        self._ways: dict[Condition, set[bool]] = defaultdict(set)
        self._jumps: dict[CodeType, dict[int, Jump]] = {}

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        before = sys.gettrace()
        if self._replaced:
            sys.settrace(self._entered)
        try:
            yield
        finally:
            sys.settrace(before)

    def not_taken(self) -> list[str]:
        """In words, what no call has reached."""
        missing = [
            f"line {line} of {Path(path).name}, which no input reached"
            for path, lines in self._replaced.items()
            for line in sorted(_statements(text_on_disk(path)) & lines)
            if (path, line) not in self._lines
        ]
        return missing + sorted(self._one_way())

    def _one_way(self) -> Iterator[str]:
        for condition, ways in self._ways.items():
            if len(ways) == 1 and condition.line in self._replaced[condition.path]:
                name = Path(condition.path).name
                yield f"the other way of a condition in line {condition.line} of {name}, which went one way with all inputs"

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        lines = self._replaced.get(code.co_filename)
        if not lines or code.co_name == "<module>":
            return None
        if code not in self._jumps:
            self._jumps[code] = conditional_jumps(code)
        frame.f_trace_opcodes = True
        return self._followed(code)

    def _followed(self, code: CodeType) -> Callable[..., Any]:
        jumps, before = self._jumps[code], -1

        def follow(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            nonlocal before
            if event == "line":
                self._lines.add((code.co_filename, frame.f_lineno))
            elif event == "opcode":
                jump = jumps.get(before)
                if jump:
                    self._ways[jump.condition].add((frame.f_lasti == jump.target) == jump.is_taken_when_true)
                before = frame.f_lasti
            elif event == "exception":
                before = -1
            return follow

        return follow


def replaced_lines(before: str, after: str) -> set[int]:
    """Lines of ``before``, from 1, that are not in ``after``."""
    changes = changed_lines(before.splitlines(), after.splitlines())
    return {line + 1 for kind, first, last, _, _ in changes if kind != "equal" for line in range(first, last)}


def conditional_jumps(code: CodeType) -> dict[int, Jump]:
    """By offset, each that can be come to without an exception: ``with`` has more for those."""
    instructions = list(dis.get_instructions(code))
    line, lines = code.co_firstlineno, {}
    for one in instructions:
        line = _line_of(one) or line
        lines[one.offset] = line
    position = {one.offset: index for index, one in enumerate(instructions)}
    found: dict[int, Jump] = {}
    waiting, seen = [0], set()
    while waiting:
        index = waiting.pop()
        if index in seen or index >= len(instructions):
            continue
        seen.add(index)
        one = instructions[index]
        is_jump = one.opcode in dis.hasjrel or one.opcode in dis.hasjabs
        if is_jump and not one.opname.startswith("SETUP_"):
            waiting.append(position[one.argval])
            if "_IF_" in one.opname:
                when_true = "IF_TRUE" in one.opname or "NOT_NONE" in one.opname
                found[one.offset] = Jump(_condition(code, one, lines[one.offset]), one.argval, when_true)
        if not one.opname.startswith(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "RETURN", "RAISE", "RERAISE")):
            waiting.append(index + 1)
    return found


def _condition(code: CodeType, jump: dis.Instruction, line: int) -> Condition:
    """Python 3.10 has no columns: there each jump is a condition."""
    positions = getattr(jump, "positions", None)
    columns = (positions.col_offset, positions.end_col_offset) if positions else (jump.offset, None)
    return Condition(code.co_filename, line, columns)


def _line_of(instruction: dis.Instruction) -> int | None:
    positions = getattr(instruction, "positions", None)
    if positions is not None:
        return positions.lineno
    starts: Any = instruction.starts_line
    return None if isinstance(starts, bool) else starts


def _statements(text: str) -> set[int]:
    """First lines of the statements inside functions, those that do nothing by themselves left out."""
    idle = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal, ast.Pass, ast.Try)
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    inner = (node for function in functions for part in function.body for node in ast.walk(part))
    statements = (node for node in inner if isinstance(node, ast.stmt) and not isinstance(node, idle))
    return {node.lineno for node in statements if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))}


def text_on_disk(path: str) -> str:
    with tokenize.open(path) as file:
        return file.read()
