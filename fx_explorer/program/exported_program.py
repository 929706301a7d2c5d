"""This module returns the target of a place, whatever it is: an object in Python code, or an
``ExportedProgram`` in a file, with its example inputs.

Whether an exported program may be loaded was asked before (``command_line/given_files.py``,
``tui/controllers/services.py``), because torch unpickles what it holds.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from fx_explorer.errors import TargetError, UnreadableProgramError
from fx_explorer.model import CaptureRequest
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.place import TargetPlace
from fx_explorer.program.target import OfferingModule, Target, find_target
from fx_explorer.session.untrusted.given_program import Pt2Archive, read_pt2

Say = Callable[[str], None]

MOST_SAID = 300
"""Maximum number of characters of torch's own message."""


def load_exported_target(place: TargetPlace, request: CaptureRequest, say: Say) -> Target:
    """Return the program of a ``.pt2`` file as a module, with ``--inputs`` or the inputs that it
    was exported with.

    Raises UnreadableProgramError for a file that this torch cannot load, and TargetError when it
    has no inputs.
    """
    assert place.file is not None
    archive = read_pt2(place.file)
    if archive.kind != "exported_program":
        raise UnreadableProgramError(
            f"{place.shown} is an AOTInductor package: it has compiled code, but no graph to "
            "compile"
        )
    if not request.trusts_target:
        raise TargetError(
            f"{place.shown} is an ExportedProgram, which is loaded only with your consent: add "
            "--trust"
        )
    say(f"loading {place.shown}")
    program = _loaded(place.file, archive)
    module = program.module()
    offered = OfferingModule("", {"model": module, "program": program}, place, request, say)
    name = place.file.stem
    if request.call or request.inputs:
        if request.call:
            target = offered.target()
        else:
            target = offered.complete(name, module)
        return Target(target.name, target.callable, _as_exported(program, module, target.arguments))
    if program.example_inputs is None:
        raise TargetError(
            f"{place.shown} has no example inputs. Give them with --inputs, for example --inputs "
            "'torch.randn(2, 8)' (a tuple for several, a dict to pass by name); it takes "
            f"{_wanted(program)}."
        )
    args, kwargs = program.example_inputs
    return Target(name, module, Arguments(tuple(args), dict(kwargs), "its own example inputs"))


def _as_exported(program: Any, module: torch.nn.Module, arguments: Arguments) -> Arguments:
    """Return the arguments in the form in which the program was exported: it accepts no positional
    argument by name.
    """
    count = len(_children(_children(program.call_spec.in_spec)[0]))
    names = list(inspect.signature(module.forward).parameters)[len(arguments.args) : count]
    given = dict(arguments.keywords)
    if not all(name in given for name in names):
        return arguments
    return Arguments(
        (*arguments.args, *(given.pop(name) for name in names)), given, arguments.origin
    )


def _children(spec: Any) -> list[Any]:
    """Return the parts of a TreeSpec; before torch 2.12 they were an attribute."""
    if hasattr(spec, "children"):
        return list(spec.children())
    return list(spec.children_specs)


def _loaded(file: Path, archive: Pt2Archive) -> Any:
    with _collecting_load_errors() as reasons:
        try:
            return torch.export.load(file)
        except Exception as error:
            reason = next(iter(reasons), f"{type(error).__name__}: {error}")
            raise UnreadableProgramError(_explain_failure(file, archive, reason)) from error


@contextlib.contextmanager
def _collecting_load_errors() -> Iterator[list[str]]:
    """Collect the errors that torch.export.load logs, and raises another in place of
    (torch/export/__init__.py).
    """
    reasons: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            if error is not None:
                reasons.append(f"{type(error).__name__}: {error}")

    log, handler = logging.getLogger("torch.export"), Handler()
    propagates, handlers = log.propagate, log.handlers
    log.propagate, log.handlers = False, [handler]
    try:
        yield reasons
    finally:
        log.propagate, log.handlers = propagates, handlers


def _explain_failure(file: Path, archive: Pt2Archive, reason: str) -> str:
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    text = _first_sentence(lines[0]) if lines else "it does not say why"
    if archive.torch_release:
        by = f"torch {archive.torch_release}"
    else:
        by = "an unknown torch release"
    if archive.schema_version:
        schema = f" (schema {archive.schema_version})"
    else:
        schema = ""
    advice = (
        "Load it with the torch that saved it (--python), or export the model again with this one."
    )
    if (
        not archive.torch_release
        or archive.torch_release.split("+")[0] == str(torch.__version__).split("+")[0]
    ):
        advice = "The file seems to be damaged: copy it again, or export the model again."
    if "resolve" in reason or "custom op" in reason:
        advice = (
            "It may need operators that a library or program registers: load it in that "
            "program (file.py:model)."
        )
    return (
        f"torch {torch.__version__} cannot load {file.name}, which was saved by {by}{schema}: "
        f"{text}. {advice}"
    )


def _first_sentence(line: str) -> str:
    """Return the message without torch's remarks on its own bugs, and without the attributes of a
    whole node.
    """
    message = line.partition(". This is an internal")[0].partition(", inputs=[")[0]
    return message.rstrip(".")[:MOST_SAID]


def _wanted(program: Any) -> str:
    """Return ``x: f32[4, 32]`` for each input that a call gives."""
    from fx_explorer.capture.recording.fx_graphs import describe_value

    names = set(program.graph_signature.user_inputs)
    given = [
        node for node in program.graph.nodes if node.op == "placeholder" and node.name in names
    ]
    return (
        ", ".join(f"{node.name}: {describe_value(node.meta.get('val'))}" for node in given)
        or "nothing"
    )


def find_any_target(
    place: TargetPlace, request: CaptureRequest, say: Callable[[str], None]
) -> Target:
    """Return the target of a place: an exported program from its file, else what the user's code
    offers. Raises TargetError, and whatever the user's code raises.
    """
    if place.is_exported:
        return load_exported_target(place, request, say)
    return find_target(place, request, say)
