"""This program has two versions of one function, called in this process as a trial calls them, and
prints the differences that are found.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch._dynamo  # sets TORCHINDUCTOR_CACHE_DIR when it is first imported, which must not be within a call that is observed

from fx_explorer.instruments.fixes.measure.branch_coverage import BranchCoverage
from fx_explorer.instruments.fixes.measure.comparing import Comparison
from fx_explorer.instruments.fixes.measure.observing import Observer
from fx_explorer.instruments.fixes.measure.outside import HiddenCalls
from fx_explorer.instruments.fixes.measure.varying import MOST_RUNS
from fx_explorer.instruments.fixes.measure.verifying import CallsOfTheOriginal, compared
from fx_explorer.program import loading
from fx_explorer.program.fresh_inputs import calls
from fx_explorer.program.inputs import as_arguments
from fx_explorer.program.place import UsersCode
from fx_explorer.program.seeds import seed
from fx_explorer.program.target import Target

NAME = "program"


@dataclass(frozen=True)
class OneModule(UsersCode):
    """Only the program, instead of all that a test run has imported."""

    path: str = ""
    module: ModuleType = field(default_factory=lambda: ModuleType(NAME))

    def has(self, path: str) -> bool:
        return path == self.path

    def modules(self) -> list[ModuleType]:
        return [self.module]


def differences(
    folder: Path, before: str, after: str, inputs: str = "torch.linspace(-1, 2, 4).requires_grad_()"
) -> Comparison:
    """``before`` and ``after`` define ``f``. The comparison of all calls that a trial makes."""
    file = folder / f"{NAME}.py"
    file.write_text(header(before))
    hidden, coverage = HiddenCalls(), BranchCoverage({str(file): header(after)})

    @contextlib.contextmanager
    def watched() -> Iterator[None]:
        with hidden.watched(), coverage.watched():
            yield

    one = observed(file, header(before), inputs, watched)
    other = observed(file, header(after), inputs)
    result = {**one, "hidden": list(hidden.found), "not reached": coverage.not_taken()}
    return compared(result, other["seen"], other["names"], other["words"], is_built=False)


def without_what_varies(folder: Path, before: str, after: str, inputs: str = "()") -> Comparison:
    """Return the comparison of all calls, where the original runs again to find what varies between
    runs.
    """
    file = folder / f"{NAME}.py"
    hidden = HiddenCalls()
    one = observed(file, header(before), inputs, hidden.watched)
    other = observed(file, header(after), inputs)

    def again() -> dict[str, Any]:
        return observed(file, header(before), inputs)

    result = {**one, "hidden": list(hidden.found), "not reached": []}
    original = CallsOfTheOriginal(result, other["words"], [again] * MOST_RUNS)
    return original.compared(other["seen"], other["names"])


def in_a_child(work: Callable[[], list[str]]) -> list[str]:
    """Return the result of ``work`` in a forked process, so that its changes of the process are
    gone afterwards.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        found: list[str] = json.load(told)
    os.waitpid(pid, 0)
    return found


def header(text: str) -> str:
    return f"import torch\n{textwrap.dedent(text)}"


def observed(
    file: Path, text: str, inputs: str, watch: Any = contextlib.nullcontext
) -> dict[str, Any]:
    module = loading.new_module(NAME, file)
    known = sys.modules.get(NAME)
    sys.modules[NAME] = module
    try:
        seed(0)
        exec(compile(text, str(file), "exec"), vars(module))
        arguments = as_arguments(eval(inputs, {"torch": torch, **vars(module)}), "the test")
        function = vars(module)["f"]
        target = Target("f", function, arguments, vars(module))
        observer = Observer(target, True, True, OneModule(path=str(file), module=module), watch)
        made = list(calls(arguments))
        seen = [observer.again(function, call).plain() for call in made]
    finally:
        torch.set_grad_enabled(True)
        sys.modules.pop(NAME)
        if known is not None:
            sys.modules[NAME] = known
    return {
        "state": observer.state_at_first,
        "names": observer.names_at_first,
        "seen": seen,
        "unsupported": [],
        "words": [call.words for call in made],
    }
