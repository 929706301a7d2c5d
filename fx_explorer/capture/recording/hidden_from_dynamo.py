"""This module keeps fx-explorer out of the program's sight while it records, and out of Dynamo's.

Our code must never be compiled, must not run the program's own tensor classes and modes, and must
cause no graph break.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._C._dynamo.eval_frame
from torch._dynamo import trace_rules

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import MissingInTorch, require

_OURS = Path(__file__).parents[2]

_set_eval_frame: Callable[[Any], Any] = getattr(
    torch._C._dynamo.eval_frame, "set_eval_frame", lambda looking: looking
)
"""Sets what looks at each frame, and returns what did before."""


class DynamoOff:
    """A context manager inside which Dynamo looks at no frame.

    It is no generator, because Dynamo would look at the frames of ``contextlib`` before it is in
    force.
    """

    def __enter__(self) -> None:
        self._looking = _set_eval_frame(None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        _set_eval_frame(self._looking)


class DynamoAndOverridesOff(DynamoOff):
    """A context manager as ``DynamoOff``, in which no ``__torch_function__`` of a class or mode is
    called either.
    """

    def __enter__(self) -> None:
        super().__enter__()
        self._functions = torch._C.DisableTorchFunction()
        self._functions.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._functions.__exit__(kind, error, trace)
        super().__exit__(kind, error, trace)


@contextlib.contextmanager
def our_files_skipped(_: object) -> Iterator[None]:
    """Have Dynamo leave to Python, inside the block, the functions of ours that the program's calls
    pass through.
    """
    # Without it our frames are looked at, too; this raises.
    torch._C._dynamo.eval_frame.set_eval_frame  # noqa: B018
    rules = trace_rules.SKIP_DIRS
    rules.append(_OURS.as_posix() + "/")
    # torch looks at one pattern that it has made of the list.
    trace_rules._recompile_re()
    try:
        yield
    finally:
        rules.remove(_OURS.as_posix() + "/")
        trace_rules._recompile_re()


@contextlib.contextmanager
def patched_in_programs(
    owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    """Patch as ``patched`` does, for a function that compiled code may call: Dynamo takes the
    replacement for torch's own.

    Dynamo knows these functions by identity and must have seen the original first.
    ``get_torch_obj_rule_map`` (torch/_dynamo/trace_rules.py) says how to treat each;
    ``TorchInGraphFunctionVariable._get_handlers`` (variables/torch.py) has special cases.
    """
    original = getattr(owner, name)
    tables = [table for table in _known_to_dynamo() if original in table]
    with patched(owner, name, make):
        replacement = getattr(owner, name)
        for table in tables:
            table[replacement] = table[original]
        try:
            yield
        finally:
            for table in tables:
                del table[replacement]


def traced_as(original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Have Dynamo treat calls of ``replacement`` as calls of ``original`` from now on, though the
    replacement is in a file of ours.

    Where Dynamo looks a function up by name, it has found the replacement itself, and no longer
    knows the original.
    """
    trace_rules.get_torch_obj_rule_map().setdefault(replacement, trace_rules.lookup(original))


def _known_to_dynamo() -> Iterator[dict[Any, Any]]:
    yield trace_rules.get_torch_obj_rule_map()
    with contextlib.suppress(MissingInTorch):
        yield require(
            "torch._dynamo.variables.torch", "TorchInGraphFunctionVariable"
        )._get_handlers()
