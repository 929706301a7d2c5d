"""The code objects that Dynamo made during a capture, and the ones it made them from."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordedBytecode:
    """Bytecode that Dynamo made, as it is in the session."""

    artifact: int
    line_of: Mapping[int, int]
    """Offset of an instruction → its line in the listing, from 1."""


class CodeDict(MutableMapping[types.CodeType, T], Generic[T]):
    """A dictionary with code objects as keys, by identity. Dynamo puts dictionaries among the
    constants of code, which then has no hash.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[types.CodeType, T]] = {}
        """``id`` → (code object, value). The code is kept alive, so that no other can have its
        id.
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
    """A set of code objects, as far as torch's bytecode debugger needs one."""

    def add(self, code: types.CodeType) -> None:
        self[code] = None


@dataclass
class DynamoBytecode:
    """The code objects on both sides of Dynamo in one capture."""

    modified: CodeDict[RecordedBytecode] = field(default_factory=CodeDict)
    original: CodeSet = field(default_factory=CodeSet)
    """Code that Dynamo made bytecode for. When it runs itself, the guards of all its bytecode have
    failed.
    """

    def add(
        self, original: types.CodeType, modified: types.CodeType, known: RecordedBytecode
    ) -> None:
        self.original.add(original)
        self.modified[modified] = known
