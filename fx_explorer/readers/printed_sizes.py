"""This module reads what TORCH_LOGS=dynamic prints about sizes and numbers: which symbol stands for
which size or float, the guards that code added, and the line that specialized a size. The messages
are those of torch/fx/experimental/symbolic_shapes.py (``create_symbol``, ``_log_guard``,
``_set_replacement``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fx_explorer.torch_texts import bounded

Said = tuple[str, dict[str, Any]]
"""The kind of torch's structured record of the same thing, and its content."""

_CREATED = re.compile(
    r"create_(?:unbacked_)?symbol (?P<symbol>[a-z]+\d{1,6}) = (?P<value>-?[\d.e+-]{1,30}) for "
    r"(?P<source>\S{1,400}) (?P<range>\[[^\]]{1,80}\]|VR\[[^\]]{1,80}\])?"
)

_GUARD = re.compile(r"eval (?P<guard>.{1,400}?) \[(?:guard added|guard suppressed)[^\]]{0,40}\]")

_REPLACED = re.compile(
    r"set_replacement (?P<symbol>[a-z]+\d{1,6}) = (?P<value>-?\d{1,18}) "
    r"\((?P<reason>[^)]{1,100})\)"
)

_SPECIALIZING = re.compile(
    r"[Ss]pecializing (?:size )?(?P<symbol>[a-z]+\d{1,6}) (?:to|=|as|in favor of) "
    r"(?P<value>-?\d{1,18})"
)

_EQUALS = re.compile(r"Eq\((?P<symbol>[a-z]+\d{1,6}), (?P<value>-?\d{1,18})\)$")
"""Matches a guard that leaves a size one value."""

_PLACE = re.compile(
    r"(?:# |at )(?P<file>[^\s#()\"']{1,400}):(?P<line>\d{1,8}) in (?P<function>[^\s(]{1,200})"
)
"""Matches the user's line: up to torch 2.5 ``at x.py:12 in f``, then in a remark after the code."""


class PrintedSizes:
    """Makes records of messages. A size is specialized in a message after the one with the line
    that did it.
    """

    def __init__(self) -> None:
        self._stacks: dict[tuple[str, str], list[dict[str, Any]]] = {}
        """Compilation and symbol → the stack of the last guard on it."""
        self._specialized: set[tuple[str, str]] = set()
        self._created: set[tuple[str, str]] = set()

    def records(self, compilation: str, text: str) -> Iterator[Said]:
        """Yield what the lines of a message say."""
        for line in text.split("\n"):
            yield from self._of_line(compilation, bounded(line))

    def _of_line(self, compilation: str, line: str) -> Iterator[Said]:
        stack = _stack_of(line)
        if created := _CREATED.search(line):
            self._created.add((compilation, created["symbol"]))
            yield (
                "create_symbol",
                {
                    "symbol": created["symbol"],
                    "val": created["value"],
                    "vr": created["range"] or "",
                    "source": created["source"],
                    "user_stack": stack,
                },
            )
        elif guard := _GUARD.search(line):
            for symbol in re.findall(r"\b[a-z]+\d+\b", guard["guard"]):
                self._stacks[compilation, symbol] = stack
            yield "guard_added_fast", {"expr": guard["guard"], "result": "", "user_stack": stack}
            if equal := _EQUALS.match(guard["guard"]):
                yield from self._specialization(compilation, equal, "guard", stack)
        elif replaced := _REPLACED.search(line):
            yield from self._specialization(compilation, replaced, replaced["reason"], stack)
        elif specializing := _SPECIALIZING.search(line):
            yield from self._specialization(compilation, specializing, "", stack)

    def _specialization(
        self, compilation: str, match: re.Match[str], reason: str, stack: list[dict[str, Any]]
    ) -> Iterator[Said]:
        key = (compilation, match["symbol"])
        if key in self._specialized:  # told by the guard, and by the replacement after it
            return
        self._specialized.add(key)
        if key not in self._created:  # only this line was pasted
            self._created.add(key)
            symbol = match["symbol"]
            yield "create_symbol", {"symbol": symbol, "source": symbol, "vr": "", "user_stack": []}
        yield (
            "symbolic_shape_specialization",
            {
                "symbol": match["symbol"],
                "value": match["value"],
                "reason": reason,
                "user_stack": stack or self._stacks.get(key, []),
            },
        )


def _stack_of(line: str) -> list[dict[str, Any]]:
    """Return the user's line of a message as a stack of one frame."""
    place = _PLACE.search(line)
    if place is None:
        return []
    code = line[: place.start()].rpartition("] ")[2].strip()
    return [
        {
            "filename": place["file"],
            "line": int(place["line"]),
            "name": place["function"],
            "loc": code,
        }
    ]
