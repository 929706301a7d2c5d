"""This module tracks the code objects that Dynamo made during a capture, the code they were made
from, and the arguments of resume functions.

A resume function takes the values of its own frame by name (``L['x']``), or in one list
(``L['__resume_frame_values'][1]``) where the function deletes one of them. With nested graph breaks
it takes those of the frames that were inlined into it in lists, the innermost frame first
(``L['__nested_frame_values'][0][1]``). In each list the values on Python's stack come first, then
the locals (torch/_dynamo/resume_execution.py, ``ContinueExecutionCache.generate``).
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordedBytecode:
    """Bytecode that Dynamo made, as it is recorded in the session."""

    artifact: int
    line_of: Mapping[int, int]
    """Offset of an instruction → its line in the listing, from 1."""


class CodeDict(MutableMapping[types.CodeType, T], Generic[T]):
    """A dictionary with code objects as keys, by identity. Dynamo puts dictionaries among the
    constants of code, which then has no hash.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[types.CodeType, T]] = {}
        """``id`` → (code object, value). The code is kept alive, so that no other object can have
        its id.
        """

    def __getitem__(self, code: types.CodeType) -> T:
        return self._held[id(code)][1]

    def __setitem__(self, code: types.CodeType, value: T) -> None:
        self._held[id(code)] = (code, value)

    def __delitem__(self, code: types.CodeType) -> None:
        del self._held[id(code)]

    def __iter__(self) -> Iterator[types.CodeType]:
        return iter([code for code, _ in self._held.values()])

    def __len__(self) -> int:
        return len(self._held)


class CodeSet(CodeDict[None]):
    """A set of code objects, with the methods that torch's bytecode debugger needs."""

    def add(self, code: types.CodeType) -> None:
        self[code] = None


@dataclass
class DynamoBytecode:
    """The code objects that Dynamo compiled in one capture, and those that it made from them."""

    modified: CodeDict[RecordedBytecode] = field(default_factory=CodeDict)
    original: CodeSet = field(default_factory=CodeSet)
    """Code for which Dynamo made bytecode. If it runs itself, the guards of all that bytecode have
    failed.
    """
    resume_names: dict[str, str] = field(default_factory=dict)
    """Global that Dynamo's bytecode calls → name of the resume function in it:
    ``torch_dynamo_resume_in_forward_at_12``.
    """
    resume_codes: CodeDict[ResumeCode] = field(default_factory=CodeDict)
    """Code of a resume function → the ResumeCode that Dynamo made it from."""

    def add(
        self, original: types.CodeType, modified: types.CodeType, known: RecordedBytecode
    ) -> None:
        self.original.add(original)
        self.modified[modified] = known


# Resume functions.


RESUME = re.compile(r"^torch_dynamo_resume_in_(?P<name>.+)_at_\d+$")


def plain_name(function: str) -> str:
    """Return the name of the user's function for that of a resume function; other names as they
    are.
    """
    resumed = RESUME.match(function)
    return resumed["name"] if resumed else function


_IN_A_LIST = re.compile(
    r"L\['__(?:nested_frame_values'\]\[(?P<frame>\d+)\]|resume_frame_values'\])\[(?P<item>\d+)\]"
)


_NAMED = re.compile(r"L\['(?P<name>[^']+)'\]")


class LocalName(NamedTuple):
    """A local of a frame: the number of calls between the compiled function and the local's
    function, and its source there.
    """

    depth: int
    source: str


@dataclass(frozen=True, slots=True)
class ResumeCode:
    """The arguments with which Dynamo made a resume function."""

    code: types.CodeType
    stack_size: int = 0
    """Number of values of unfinished expressions that it takes."""
    locals: tuple[str, ...] = ()
    nested: tuple[ResumeCode, ...] = ()
    """The resume functions that are inlined into it, the innermost first."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Local → its source in the function that this one resumes, or in the function that that one
    resumes: ``self`` of a submodule → ``L['self']._modules['inner']``.
    """

    def local_name(self, source: str) -> LocalName:
        """Return the local with which a source of this function begins, with the rest of the
        source.
        """
        listed = _IN_A_LIST.match(source)
        if listed is None:
            return LocalName(0, source)
        if listed["frame"]:
            depth = len(self.nested) - int(listed["frame"])
        else:
            depth = 0
        names = self._at(depth).values
        item = int(listed["item"])
        if item >= len(names):
            return LocalName(0, source)
        return LocalName(depth, f"L['{names[item]}']{source[listed.end() :]}")

    def original(self, source: str) -> str:
        """Return a source by the names of the function whose rest this is in the end."""
        local = self.local_name(source)
        named = _NAMED.match(local.source)
        if named:
            origin = self._at(local.depth).origins.get(named["name"])
        else:
            origin = None
        if not named or not origin:
            return local.source
        return origin + local.source[named.end() :]

    def _at(self, depth: int) -> ResumeCode:
        return self.nested[-depth] if depth else self

    @property
    def values(self) -> tuple[str, ...]:
        """Return the names of the values in its list: ``("___stack0", "x")``."""
        return (*(f"___stack{i}" for i in range(self.stack_size)), *self.locals)

    @property
    def argument_names(self) -> dict[str, str]:
        """Return, for the lists in which a resume function receives its arguments, source → the
        user's name, such as ``L['__resume_frame_values'][0]`` → ``x``. Longer sources come first.
        """
        names = {}
        for i, value in enumerate(self.values):
            names[f"L['__resume_frame_values'][{i}]"] = _plain_value(value, self.code)
        for frame, inner in enumerate(self.nested):
            function = plain_name(inner.code.co_name)
            for i, value in enumerate(inner.values):
                name = _plain_value(value, inner.code)
                if i >= inner.stack_size:
                    name = f"{name} of {function}"
                names[f"L['__nested_frame_values'][{frame}][{i}]"] = name
            names[f"L['__nested_frame_values'][{frame}]"] = f"the locals of {function}"
            names[f"L['__nested_resume_fns'][{frame}]"] = (
                f"the rest of {function} after line {inner.code.co_firstlineno}"
            )
        return {
            **names,
            "L['__resume_frame_values']": "the locals",
            "L['__nested_frame_values']": "the locals of inlined functions",
            "L['__nested_resume_fns']": "the rests of inlined functions",
        }


def _plain_value(value: str, code: types.CodeType) -> str:
    if value.startswith("___stack"):
        return f"the value computed at line {code.co_firstlineno}"
    return value
