"""Hooks with which a framework moves weights around the forward of a module (Accelerate's and
diffusers' offloading). They are kept out of compilation, so each breaks the graph before and after
its module, and what is compiled between them are the framework's own functions. All of that is one
finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, listed
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.instruments.breaks.break_owners import BreakInLibrary
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.recompiles.causes import causes, limit_hits
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

_HOOKS = re.compile(r"[/\\](?:accelerate[/\\]hooks\.py$|diffusers[/\\]hooks[/\\])")

_PUTS_HOOKS = (
    "cpu_offload", "disk_offload", "dispatch_model", "device_map", "load_checkpoint_and_dispatch",
    "enable_sequential_cpu_offload", "enable_model_cpu_offload", "enable_group_offload",
    "apply_group_offloading", "enable_layerwise_casting", "add_hook_to_module",
)  # fmt: skip
"""Calls and arguments that put hooks on modules."""

MOST_FUNCTIONS = 4


def is_of_hooks(file: str) -> bool:
    """Return whether a file is that of a framework's hooks."""
    return _HOOKS.search(file) is not None


def find_framework_hooks(reader: SessionReader) -> Iterator[Finding]:
    """Yield one finding for all that hooks break and have recompiled."""
    breaks = [row for row in distinct_breaks(reader) if is_of_hooks(row.file)]
    if not breaks:
        return
    lines = SourceLines(reader)
    hits = sum(row.count for row in breaks)
    where = listed(sorted({in_file(row.file, row.line) for row in breaks}), MOST_FUNCTIONS)
    evidence = [f"They are in {where}."]
    compiled_by = next(
        (row.elsewhere.caller for row in breaks if isinstance(row.elsewhere, BreakInLibrary)), ""
    )
    if compiled_by:
        evidence.append(f"The compiled model is called from {compiled_by}.")
    evidence += _consequences(reader)
    put = _line_that_puts_hooks(reader, lines)
    if put:
        file, line, code = put
        evidence.append(f"They come from {in_file(file, line)}: {code}")
    yield Finding(
        kind="framework hooks",
        text=(
            "Hooks around each module, which move its weights, break the graph "
            f"({counted(hits, 'time')})."
        ),
        urgency="not compiled",
        topic="breaks",
        place=place_of_path(reader, put[0], put[1]) if put else _place(breaks[0].elsewhere, reader),
        view="breaks",
        evidence=tuple(evidence),
        explanation=(
            "A hook moves weights before and after the forward of its module, and is not "
            "compiled. A graph can only contain code between two hooks."
        ),
        remedies=REMEDIES,
        count=hits,
    )


REMEDIES = (
    Remedy(
        'Put the hooks on larger modules: preload_module_classes=["NameOfTheBlock"] of '
        "Accelerate's cpu_offload and dispatch_model moves whole blocks, so that each block "
        "compiles as a whole."
    ),
    Remedy(
        "Move the whole model at once: Accelerate's cpu_offload_with_hook(model), or diffusers' "
        "enable_model_cpu_offload() in place of enable_sequential_cpu_offload()."
    ),
    Remedy("If memory suffices, do not offload the compiled module: model.to(device)."),
)


def _place(elsewhere: object, reader: SessionReader) -> Place | None:
    if isinstance(elsewhere, BreakInLibrary):
        caller = elsewhere.called_from
        return place_of_path(reader, caller.file, caller.line)
    return None


def _consequences(reader: SessionReader) -> Iterator[str]:
    """Yield what of the program is not compiled because of the hooks, and what was compiled
    again.
    """
    broke_at = {}
    for row in reader.rows(model.GraphBreak):
        if row.file:
            broke_at[row.compilation] = row.file
    compilations = first_variants(reader)
    skipped = [
        plain_function(compilation.function)
        for compilation in compilations
        if compilation.status == "skipped" and is_of_hooks(broke_at.get(compilation.id, ""))
    ]
    if skipped:
        names = listed(sorted(set(skipped)), MOST_FUNCTIONS)
        runs = "runs" if len(set(skipped)) == 1 else "run"
        yield f"Because of them {names} {runs} in eager mode."
    files = {compilation.name: compilation.file for compilation in compilations}
    again = [row for row in causes(reader) if is_of_hooks(files.get(row.compilation, ""))]
    if again:
        yield f"Functions of the hooks were recompiled {counted(len(again), 'time')}."
    for hit in limit_hits(reader):
        if is_of_hooks(hit.file):
            yield f"{hit.description}."


def _line_that_puts_hooks(reader: SessionReader, lines: SourceLines) -> tuple[str, int, str] | None:
    """Return (file, line, code) of the user's line that puts the hooks, as far as its text shows
    it.
    """
    for file in reader.rows(model.SourceFile):
        if not file.is_user:
            continue
        for number, text in enumerate(lines.text(file.path).split("\n"), start=1):
            code = text.strip()
            if code.startswith(("#", "import ", "from ", '"""')):
                continue
            if any(re.search(rf"\b{name}\b\s*[(=]", code[:400]) for name in _PUTS_HOOKS):
                return file.path, number, code
    return None
