"""The detail of the graph break under the cursor: the code, what it costs, why it breaks, what to
try, and what is around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fx_explorer import model
from fx_explorer.analysis.breaks.call_tree import call_trees, tree_lines
from fx_explorer.analysis.breaks.grouped import DistinctBreak
from fx_explorer.analysis.breaks.kept_across import KeptAcross
from fx_explorer.analysis.measured_times import call_time
from fx_explorer.analysis.naming.functions import plain_function
from fx_explorer.analysis.naming.sizes import SizeNames
from fx_explorer.analysis.naming.sources import plain_code
from fx_explorer.analysis.overview.fallbacks import DistinctFallback
from fx_explorer.analysis.whole_session.log_sessions import NO_PROGRAM, is_log
from fx_explorer.analysis.words import first_line, size, tensor
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

Part = tuple[str, Iterable[str]]
"""A title and its lines. Without lines the title is not shown."""

CODE_WIDTH = 70
"""Characters of code. From a longer line, the part around the carets is shown, so that it does not
wrap in a narrow terminal.
"""


def break_text(reader: SessionReader, found: DistinctBreak) -> str:
    head = f"{found.registry_id}  {first_line(found.reason)}".strip()
    parts: list[Part] = [
        ("", marked_code(found.code, found.carets)),
        ("What it costs", [f"{found.cost.in_words}.", *run_time_lines(reader, found)]),
        (
            "Kept for the backward across it",
            [kept_line(reader, one) for one in found.cost.kept_across],
        ),
        ("Why", [found.explanation] if found.explanation else []),
        ("What to try", [f"• {hint}" for hint in found.hints]),
        ("Where, outermost first", _chain(found)),
        ("Runs in eager mode", [rest.in_words.rstrip(",") for rest in found.eager_rests]),
        ("Goes on in", [plain_function(name) for name in found.resume_functions]),
        ("Calls, with the graphs they became", _tree(reader, found)),
        ("Your stack, innermost last", stack_lines(reader, found.stack)),
        ("torch's own report", reader.text(found.text).splitlines()),
    ]
    return "\n".join([head, "", *_laid_out(parts)]).rstrip()


def kept_line(reader: SessionReader, one: KeptAcross) -> str:
    """Return ``h  f32[4, 8]  128 B  only because it crosses: a graph behind cannot compute it
    again``.
    """
    row = one.kept_behind[0]
    behind = next(iter(reader.by_ids(model.Compilation, [row.compilation])), None)
    held = size(row.size_bytes) if row.size_bytes else "of unknown size"
    shape = SizeNames(reader).in_text(row.compilation, tensor(row.dtype, row.shape))
    value = "a size" if row.dtype.startswith("Sym") else shape
    what = f"{plain_code(one.source, behind)}  {value}  {held}"
    if one.crosses and one.is_kept_twice:
        return f"{what}  by the graph before too, as one tensor"
    if one.crosses:
        return f"{what}  only because it crosses: what is behind cannot compute it again"
    return f"{what}  an input that both sides keep, as one tensor"


def run_time_lines(reader: SessionReader, found: DistinctBreak) -> list[str]:
    """Return what the break costs at run time; if it was not measured, why not and what measures
    it.
    """
    if found.cost.run:
        what = "From leaving the graph before it to entering the graph behind it; what Python runs at that line is included."
        return [f"Run time: {found.cost.run.in_words}.", what]
    if call_time(reader):
        return [
            "Run time: not told apart. Its function is left to Python whole, or the calls did not come by this line."
        ]
    if is_log(reader):
        return [f"Run time: not measured. {NO_PROGRAM}"]
    return [
        "Run time: not measured. x t builds the program and calls it repeatedly (or: report TARGET --measure-breaks)."
    ]


def left_text(reader: SessionReader, found: DistinctFallback) -> str:
    parts: list[Part] = [
        ("Why", [found.explanation or found.reason]),
        ("What to try", [f"• {hint}" for hint in found.hints]),
        ("Your stack, innermost last", stack_lines(reader, found.stack)),
    ]
    head = f"{found.registry_id}  {plain_function(found.function)} was left to Python whole: {first_line(found.reason)}".strip()
    return "\n".join([head, "", *_laid_out(parts)]).rstrip()


def _laid_out(parts: Iterable[Part]) -> Iterator[str]:
    for title, lines in parts:
        shown = [f"  {line}" for line in lines]
        if shown:
            yield from ([title] if title else [])
            yield from shown
            yield ""


def marked_code(code: str, carets: str) -> list[str]:
    """Return the line with its carets below; from a long line, the part where they begin."""
    if not carets:
        return [code] if code else []
    start = carets.index("^")
    # Only where each character takes one cell: elsewhere the carets would stand below other ones.
    skipped = (
        max(0, min(start - 10, len(code) - CODE_WIDTH))
        if len(code) > CODE_WIDTH and code.isascii()
        else 0
    )
    if not skipped:
        return [code[:CODE_WIDTH] if code.isascii() else code, carets[:CODE_WIDTH]]
    return [
        "…" + code[skipped : skipped + CODE_WIDTH],
        " " + carets[skipped : skipped + CODE_WIDTH],
    ]


def _chain(found: DistinctBreak) -> list[str]:
    """Return the chain of inlined calls; empty when nothing was inlined, because the code above
    then says it all.
    """
    frames = found.chain if len(found.chain) > 1 else ()
    return [f"{in_file(f.file, f.line)} in {plain_function(f.function)}   {f.code}" for f in frames]


def _tree(reader: SessionReader, found: DistinctBreak) -> Iterator[str]:
    """Yield the call trees that this break cuts."""
    hits = reader.rows(model.GraphBreak, file=found.file, line=found.line)
    marked = next((hit.id for hit in hits if hit.text == found.text), 0)
    for root in call_trees(reader):
        if any(hit.id == marked for one in root.walk() for hit in one.breaks):
            yield from tree_lines(root, marked=marked)


def stack_lines(reader: SessionReader, stack_id: int) -> list[str]:
    stacks = reader.by_ids(model.Stack, [stack_id]) if stack_id else []
    return [
        f"{f.file}:{f.line} in {plain_function(f.function)}   {f.code.strip()}"
        for stack in stacks
        for f in stack.frames
    ]
