"""What torch.compile was given otherwise before a recompile.

torch compares what it compiles with (``BACKEND_MATCH``, torch/_dynamo/guards.py): a backend, or its
own object for Inductor, which holds the other arguments, too (``_TorchCompileInductorWrapper``,
torch/__init__.py). It says the name of each; which argument differs is in the recorded calls.
"""

from __future__ import annotations

import re
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.words import listed
from fx_explorer.instruments.recompiles.changes import GuardChange
from fx_explorer.model.setting_values import as_python
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts import bounded

_BACKENDS = re.compile(
    r"Cached backend: (?P<old>.*?) \(id=.*?New backend: (?P<new>.*?) \(id=", re.S
)

_INDUCTOR = "_TorchCompileInductorWrapper"

_WRAPPER = re.compile(
    r"_TorchCompileWrapper\(compiler='(?P<backend>.*)', dynamic=(?P<dynamic>\w+)\)"
)

_COMPARED = ("compile.dynamic", "compile.mode", "compile.options", "compile.backend")


def with_arguments(
    reader: SessionReader, change: GuardChange, reason: str, function: model.Compilation | None
) -> GuardChange:
    """Return a change of the backend with what was given otherwise, as far as that is known."""
    if change.kind != "backend":
        return change
    named = _BACKENDS.search(bounded(reason))
    if named is None:
        return change
    (old, old_dynamic), (new, new_dynamic) = _wrapped(named["old"]), _wrapped(named["new"])
    if old != new:
        words = f"torch.compile was given the backend {new}, and {old} before"
        return replace(change, old=old, new=new, words=words)
    if old_dynamic != new_dynamic:
        dynamic = f"dynamic={new_dynamic} ({old_dynamic} before)"
        words = f"torch.compile was called for it again, with {dynamic}"
        return replace(change, kind="arguments", words=words)
    if named["new"] != _INDUCTOR:
        words = f"torch.compile was given another object as backend, of the same name ({new})"
        return replace(change, words=words)
    given = _given_otherwise(reader, function) if function else []
    arguments = listed(given) if given else "other arguments than before"
    words = f"torch.compile was called for it again, with {arguments}"
    return replace(change, kind="arguments", words=words)


def _wrapped(name: str) -> tuple[str, str]:
    """Return the backend that torch's name is of, and its argument ``dynamic``; empty where the
    name does not have it.
    """
    if name == _INDUCTOR:
        return "inductor", ""
    wrapper = _WRAPPER.match(name)
    return (wrapper["backend"], wrapper["dynamic"]) if wrapper else (name, "")


def _given_otherwise(reader: SessionReader, function: model.Compilation) -> list[str]:
    """Return ``dynamic=True at train.py:9 (None before)`` for each argument that calls for this
    function differ in.
    """
    given = []
    for name in _COMPARED:
        rows = [
            row
            for row in reader.rows(model.OptionInForce, name=name)
            if _is_of(row.function, function.function)
        ]
        values = {row.value: row for row in rows}
        if len(values) > 1:
            first, *_, last = values.values()
            before, now = as_python((first.value, last.value))
            at = f" at {in_file(last.file, last.line)}" if last.line else ""
            given.append(f"{name.partition('.')[2]}={now}{at} ({before} before)")
    return given


def _is_of(given: str, compiled: str) -> bool:
    """Return whether a call that was given ``Net`` is of ``Net.forward`` or ``net (Net)``."""
    name, _, inner = compiled.partition(" (")
    return given in (name, name.rpartition(".")[0], inner.rstrip(")"))
