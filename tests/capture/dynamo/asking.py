"""These helpers ask the guards of a recorded program about other inputs, and then run it with them:
torch itself says which answer is right.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.dynamo.what_if import what_if
from fx_explorer.capture.recorder import compile_arguments, recording
from fx_explorer.capture.recording.state import Recording
from fx_explorer.errors import UsageError
from fx_explorer.model import CaptureRequest, GuardAnswer
from fx_explorer.session import SessionReader, SessionWriter


@dataclass
class Called:
    """A program whose inputs are looked up by a name instead of being evaluated."""

    callable: Callable[..., Any] | None
    offered: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = field(default_factory=dict)

    def inputs(self, expression: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if expression not in self.offered:
            raise UsageError(f"there is no {expression}")
        return self.offered[expression]


@dataclass
class Asking:
    state: Recording
    called: Called
    compiled: Callable[..., Any]
    path: Path
    said: str = ""

    def run(self, *args: Any, **kwargs: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, while compiling
            self.compiled(*args, **kwargs)

    def ask(self, *args: Any, **kwargs: Any) -> list[GuardAnswer]:
        self.called.offered["these"] = args, kwargs
        self.said = what_if(self.state, "these")
        with SessionReader(self.path) as reader:
            return reader.rows(GuardAnswer, question=self.state.live_guards.questions)

    def compiles_again(self, *args: Any, **kwargs: Any) -> bool:
        """Run it: torch counts the frames it compiles."""
        before = torch._dynamo.utils.counters["frames"]["total"]
        self.run(*args, **kwargs)
        return bool(torch._dynamo.utils.counters["frames"]["total"] > before)


@contextmanager
def asking(
    path: Path, function: Callable[..., Any], *args: Any, **options: Any
) -> Iterator[Asking]:
    """Record one call of ``function`` with ``args``; inside the block its guards can be asked."""
    torch._dynamo.reset()
    request = CaptureRequest("test", str(path), **{"backend": "eager", **options})
    with SessionWriter(path) as writer, recording(writer, request, lambda notice: None) as state:
        compiled = torch.compile(function, **compile_arguments(request))
        found = Asking(state, Called(function), compiled, path)
        state.live_guards.program = found.called
        found.run(*args)
        yield found
    torch._dynamo.reset()
