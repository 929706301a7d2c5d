"""Which graphs torch did not run as CUDA graphs although that was asked for, and why, as facts for the overview."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import counted, in_file, listed
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts.stacks import parse_stack

TOLD_IN = ("cudagraph_skip", "compilation_metrics", "bwd_compilation_metrics")
"""A message that torch printed, and the records that have the same words."""

REASON = "cudagraph_skip_reason"

SHOWN_AT_MOST = 5


def cuda_graph_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact for each reason; nothing where no graph was skipped."""
    names = {row.id: row.name for row in reader.rows(model.Compilation)}
    skipped: dict[str, list[str]] = {}
    for kind in TOLD_IN:
        for row in reader.rows(model.Metric, name=kind):
            if REASON not in row.value:
                continue
            said = json.loads(row.value).get(REASON)
            if isinstance(said, str):
                of = f"[{names[row.compilation]}]" if row.compilation in names else "a graph"
                known = skipped.setdefault(said, [])
                if of not in known:
                    known.append(of)
    for said, graphs in list(skipped.items())[:SHOWN_AT_MOST]:
        yield _fact(reader, said, graphs)
    if len(skipped) > SHOWN_AT_MOST:
        more = counted(len(skipped) - SHOWN_AT_MOST, "more reason")
        yield Fact("call", "notice", f"… and {more} why graphs do not run as CUDA graphs.")


def _fact(reader: SessionReader, said: str, graphs: list[str]) -> Fact:
    first = " ".join(said.partition("\n")[0].split())
    why = first.partition(" due to ")[2] or first
    why = why.partition(" Found from")[0].strip(" .:")
    frames = parse_stack(f"{said}\n")
    where = f" at {in_file(frames[-1].file, frames[-1].line)}" if frames else ""
    place = place_of_path(reader, frames[-1].file, frames[-1].line) if frames else None
    detail = frames[-1].code if frames else ""
    return Fact(
        "call",
        "notice",
        f"{listed(graphs)} does not run as a CUDA graph: {why}{where}.",
        detail,
        place,
    )
