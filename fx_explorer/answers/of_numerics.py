"""The answer about results: of a comparison that the session has, or which command compares."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.input_names import InputNames
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.answers.answer import Answer
from fx_explorer.answers.others import of_section
from fx_explorer.instruments.numerics.figures import numerics_of
from fx_explorer.instruments.numerics.left_out_rounding import REMEDY, left_out_rounding
from fx_explorer.session import SessionReader

_DTYPES = {"bf16": "bfloat16", "f16": "float16", "f64": "float64"}
"""Types that an example has to name, among those of numbers with a fraction."""


def of_numerics(reader: SessionReader) -> Answer:
    """Return how results compare with eager mode's; where they were not compared, the command that
    does, and what is known to differ by rounding.
    """
    if numerics_of(reader) is not None or is_log(reader):
        return of_section(reader, "numerics")
    command = comparing_command(reader)
    text = (
        f"Results were not compared. {command or 'fx-explorer numerics FILE.py:OBJECT'} calls it "
        "in eager mode, in float64 and compiled"
    )
    text += (
        "; put what the script passes to it in place of “…” and of the inputs." if command else "."
    )
    rounding = left_out_rounding(reader)
    if rounding:
        text += f" {rounding.description}"
    return Answer(
        text=text,
        known_from="the functions and inputs that were compiled, and the nodes that each kernel "
        "computes; results were not compared",
        figures={
            "command": command,
            "compares_what_a_script_prints": f"fx-explorer diagnose {_target(reader)} --try",
            "rounding": REMEDY if rounding else "",
        },
        next=["options --match rounding"] if rounding else ["kernels"],
    )


def _target(reader: SessionReader) -> str:
    """Return the target as a command takes it: of a script its file, of another as it was given."""
    recorded = dict(reader.meta("target") or {})
    if recorded.get("kind") == "script":
        return shlex.quote(_shown(str(recorded.get("file", ""))))
    request = reader.meta("request") or {}
    return shlex.quote(str(request.get("target", "") or "FILE.py"))


def comparing_command(reader: SessionReader) -> str:
    """Return ``fx-explorer numerics train.py:Net --call 'Net(…)' --inputs '…'`` for the first
    function of a script that was compiled; for another target its own name. Empty where no
    function of the script's own file was.
    """
    recorded = dict(reader.meta("target") or {})
    if recorded.get("kind") != "script":
        return f"fx-explorer numerics {_target(reader)}"
    file = str(recorded.get("file", ""))
    for row in reader.rows(model.Compilation):
        name = row.function.partition(" (")[0].partition(".")[0]
        is_named = "<locals>" not in row.function and not name.startswith("torch_dynamo")
        inputs = _inputs(reader, row)
        if row.file == file and is_named and inputs:
            is_method = "." in row.function.partition(" (")[0]
            placeholders = ", ".join(_example(node) for node in inputs)
            words = ["fx-explorer", "numerics", f"{_shown(file)}:{name}"]
            if is_method:
                words += ["--call", f"{name}(…){_narrowed(reader, row)}"]
            words += ["--inputs", placeholders]
            return shlex.join(words).replace("'…'", "…")
    return ""


def _shown(file: str) -> str:
    """Return a file below the present folder by its path from there."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def _placeholders(reader: SessionReader, compilation: model.Compilation) -> list[model.Node]:
    graphs = reader.rows(model.Graph, compilation=compilation.id, stage="dynamo")
    if not graphs:
        return []
    return reader.rows(model.Node, graph=graphs[0].id, op="placeholder")


def _inputs(reader: SessionReader, compilation: model.Compilation) -> list[model.Node]:
    """Return the tensors of numeric sizes that are given to a function; [] where others are."""
    nodes = _placeholders(reader, compilation)
    names = InputNames(reader).of(nodes)
    inputs = [node for node in nodes if names[node.id].kind == "input"]
    are_plain = all(node.shape is not None and _is_numeric(node.shape) for node in inputs)
    return inputs if are_plain else []


def _is_numeric(shape: Sequence[str]) -> bool:
    return all(size.isdecimal() for size in shape)


def _example(node: model.Node) -> str:
    """Return ``torch.randn(16, 64, dtype=torch.bfloat16)``, a tensor like an input."""
    sizes = ", ".join(node.shape or ())
    if node.dtype == "b8":
        return f"torch.ones({sizes}, dtype=torch.bool)"
    if not node.dtype.startswith(("f", "bf")):
        return f"torch.randint(0, 2, ({sizes},))" if sizes else "torch.tensor(1)"
    dtype = _DTYPES.get(node.dtype)
    given = f"dtype=torch.{dtype}" if dtype else ""
    return f"torch.randn({', '.join(filter(None, [sizes or '()', given]))})"


def _narrowed(reader: SessionReader, compilation: model.Compilation) -> str:
    """Return ``.to(torch.bfloat16)`` where all parameters are of one other type than float32."""
    nodes = _placeholders(reader, compilation)
    names = InputNames(reader).of(nodes)
    dtypes = {node.dtype for node in nodes if names[node.id].kind == "parameter"}
    dtype = _DTYPES.get(dtypes.pop()) if len(dtypes) == 1 else None
    return f".to(torch.{dtype})" if dtype else ""
