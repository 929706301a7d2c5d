"""This module records the side effects of a function that Dynamo replays after its graph:
attributes that are set, lists, dicts and sets that change, cells of closures.

Dynamo keeps them aside while it traces (``SideEffects``, torch/_dynamo/side_effects.py), and writes
them into the bytecode behind the call of the graph (``codegen_update_mutated``). What a graph does
to a tensor in place is an operation of the graph, and none of them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import side_effects, strip_local_scope
from fx_explorer.model import SideEffect


@contextlib.contextmanager
def side_effect_hook(recording: Recording) -> Iterator[None]:
    """Record what Dynamo replays, once per compilation."""
    recorded: set[tuple[object, ...]] = set()

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def codegen_update_mutated(effects: Any, *args: Any, **kwargs: Any) -> Any:
            with recording.noting("side effects", "dynamo"):
                for row in _rows(recording, effects):
                    # It is written again for each way that a branch may take.
                    key = (row.compilation, row.changed, row.names, row.file, row.line)
                    if key not in recorded:
                        recorded.add(key)
                        recording.writer.add(row)
            return original(effects, *args, **kwargs)

        return codegen_update_mutated

    with patched(side_effects.SideEffects, "codegen_update_mutated", make):
        yield


def _rows(recording: Recording, effects: Any) -> Iterator[SideEffect]:
    compilation = recording.compilation_id()
    stacks = getattr(effects, "mutation_user_stacks", {})
    for variable in effects.id_to_variable.values():
        if not effects.is_modified(variable):
            continue
        changed = _name(variable)
        if not changed:  # the function makes the object itself
            continue
        names = effects.store_attr_mutations.get(variable, ())
        path, line = _user_line(recording, stacks.get(variable, ()))
        yield SideEffect(
            id=0,
            compilation=compilation,
            changed=changed,
            type_name=str(variable.python_type_name()),
            names=tuple(str(name) for name in names),
            file=recording.sources.file(path) if path else 0,
            line=line,
        )


def _name(variable: Any) -> str:
    """Return what is changed, as torch calls it: ``self``, ``G['SEEN']``; empty for an object that
    was not there before the call.
    """
    local_name = getattr(variable, "local_name", None)
    if local_name:
        return str(local_name)
    source = getattr(variable, "source", None)
    if source is None or type(source).__name__ == "TempLocalSource":
        return ""
    try:
        return str(
            strip_local_scope(source.name if isinstance(source.name, str) else source.name())
        )
    except NotImplementedError:  # a source without a name
        return ""


def _user_line(recording: Recording, stacks: Any) -> tuple[str, int]:
    """Return the innermost line of the user's at which it was changed first; empty and 0 where
    torch does not say that.
    """
    for stack in stacks:
        frames = list(stack)
        for frame in reversed(frames):
            if recording.sources.is_users(frame.filename):
                return frame.filename, frame.lineno or 0
        if frames:
            return frames[-1].filename, frames[-1].lineno or 0
    return "", 0
