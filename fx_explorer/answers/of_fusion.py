"""The answer about kernels and loops that were not fused: of a capture, and of what
TORCH_LOGS=fusion printed into a log.
"""

from __future__ import annotations

from fx_explorer.analysis.words import counted
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.answers.references import place_text
from fx_explorer.errors import UsageError
from fx_explorer.instruments.fusion.figures import unfused_pairs
from fx_explorer.instruments.fusion.loop_nest_reasons import (
    describe_nests,
    nests_by_kernel,
    unmerged_pairs,
)
from fx_explorer.instruments.fusion.printed_reasons import PrintedFusion, printed_fusion
from fx_explorer.instruments.fusion.report import (
    nest_pairs_of_report,
    pairs_of_report,
    printed_pairs_of_report,
)
from fx_explorer.report.sections import section_of
from fx_explorer.session import SessionReader

FIELDS = (
    "first", "second", "in_one_kernel", "first_loops_are", "second_loops_are", "direction",
    "first_line", "second_line", "first_lines", "second_lines", "first_is", "second_is", "why",
    "sentence", "inductor_says", "check", "saved_bytes", "saved_seconds", "may_change_it", "tried",
    "times",
)  # fmt: skip

MOST_FUSED = 40
"""Maximum number of fusions that are named."""


def of_fusion(reader: SessionReader, name: str) -> Answer:
    """Return the pairs of kernels that were not fused, and the loop nests of C++ kernels that were
    not merged; with a name, those of that kernel, node or line.
    """
    printed = printed_fusion(reader)
    if printed.pairs or printed.fused:
        return _of_log(reader, printed, name)
    nests = nest_pairs_of_report(unmerged_pairs(reader))
    rows = [*pairs_of_report(reader, unfused_pairs(reader)), *nests]
    text = section_of(reader, "fusion").answer
    if name:
        rows = _with_name(rows, name)
        text = _sentence_with_name(rows, name)
    return Answer(
        text=text,
        rows=rows,
        known_from="Inductor's scheduler, recorded while it fused; saved_bytes: from its own "
        "sizes of memory accesses; saved_seconds: with the bandwidth of the GPU's data "
        "sheet, or measured here; tried: a variant that fuses both was compiled",
        fields=FIELDS,
        figures={"loop_nests_of_kernels": _nests(reader)},
        next=[f"kernel {rows[0]['second']}"] if rows else ["kernels"],
    )


def _nests(reader: SessionReader) -> Json:
    """Return C++ kernel → its loop nests, where it has several."""
    described: Json = {}
    for nests in list(nests_by_kernel(reader).values())[:MOST_FUSED]:
        described[nests[0].kernel.name] = describe_nests(nests)
    return described


def _with_name(rows: list[Json], name: str) -> list[Json]:
    """Return the pairs of a kernel, of Inductor's node or of a line. Raises UsageError where there
    are pairs and none has it.
    """
    wanted = name.casefold()
    fitting = [row for row in rows if any(wanted in text for text in _names(row))]
    if rows and not fitting:
        raise UsageError(f"no pair has {name!r}; the answer to fusion lists all")
    return fitting


def _names(row: Json) -> list[str]:
    lines = [*row.get("first_lines", ()), *row.get("second_lines", ())]
    texts = [row["first"], row["second"], row.get("first_line", ""), row.get("second_line", "")]
    return [str(text).casefold() for text in (*texts, *row.get("names", ()), *lines)]


def _sentence_with_name(rows: list[Json], name: str) -> str:
    sentences = dict.fromkeys(str(row["sentence"]) for row in rows)
    return f"{counted(len(rows), 'pair')} with {name}. {' '.join(sentences)}".strip()


def _of_log(reader: SessionReader, printed: PrintedFusion, name: str) -> Answer:
    rows = printed_pairs_of_report(printed.pairs)
    for row, pair in zip(rows, printed.pairs, strict=True):
        row["at"] = place_text(reader, pair.place)
    text = section_of(reader, "fusion").answer
    if name:
        rows = _with_name(rows, name)
        text = _sentence_with_name(rows, name)
    fused = [f"[{pair[0]}] {pair[1]} with {pair[2]}" for pair in printed.fused]
    alone = [f"[{compilation}] {node.name}: {node.what}" for compilation, node in printed.alone]
    return Answer(
        text=text,
        rows=rows,
        known_from="what TORCH_LOGS=fusion printed, in Inductor's own words: its last message "
        "about each two nodes; op3 is Inductor's name of a scheduler node",
        fields=("first", "second", *FIELDS[7:-6], "at"),
        figures={
            "fused": [*fused[:MOST_FUSED], *_more(len(fused))],
            "alone": [*alone[:MOST_FUSED], *_more(len(alone))],
        },
        next=["kernels", "code"],
    )


def _more(count: int) -> list[str]:
    return [f"{count - MOST_FUSED} more"] if count > MOST_FUSED else []
