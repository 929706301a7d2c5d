"""The text of an issue for PyTorch, with the parts of its form for torch.compile
(.github/ISSUE_TEMPLATE/pt2-bug-report.yml): the bug, the error, how to reproduce it, the ablation,
versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer.analysis.words import listed
from fx_explorer.highlight import printable_text
from fx_explorer.output.formats import markdown_table
from fx_explorer.output.table import Column, Table
from fx_explorer.report.issue_ablation import (
    AS_IT_IS,
    WITHOUT,
    Ablation,
    rows_of,
)

LABELS = {
    "Dynamo": "module: dynamo",
    "AOTAutograd": "module: aotdispatch",
    "decompositions or the partitioner": "module: decompositions",
    "Inductor": "module: inductor",
}
"""Component → the label that PyTorch has for it."""

LONGEST_PROGRAM = 30_000

LONGEST_ERROR = 12_000


@dataclass(frozen=True, slots=True)
class DraftedIssue:
    """What an issue is written from."""

    target: str
    program: str
    """The text of the user's file."""
    ablation: Ablation
    versions: str
    """What ``python -m torch.utils.collect_env`` printed."""
    attachments: Sequence[str]


def issue_text(issue: DraftedIssue) -> str:
    """Return the issue as markdown."""
    return "\n".join(_lines(issue)) + "\n"


def _lines(issue: DraftedIssue) -> Iterator[str]:
    ablation = issue.ablation
    yield f"<!-- Title: {_title(issue)} -->"
    yield "### 🐛 Describe the bug"
    yield ""
    yield _summary(ablation)
    yield ""
    yield "Run it with:"
    yield ""
    yield from _block(_reproduction(issue), "python")
    yield "### Ablation"
    yield ""
    columns = [Column("run"), Column("result"), Column("what it says"), Column("took", True)]
    rows = [[_cell(cell) for cell in row] for row in rows_of(ablation.tried)]
    yield from markdown_table(Table(columns, rows))
    yield ""
    if ablation.error:
        yield "### Error logs"
        yield ""
        yield from _block(ablation.error[-LONGEST_ERROR:], "")
    yield "### Versions"
    yield ""
    yield from _block(issue.versions, "")
    if issue.attachments:
        yield f"Attached: {listed(issue.attachments)}."


def _title(issue: DraftedIssue) -> str:
    as_it_is = issue.ablation.of(AS_IT_IS)
    what = as_it_is.message.partition(" while running ")[0] if as_it_is else ""
    component = issue.ablation.component
    parts = [f"[{component}]"] if component else []
    parts.append(what or "torch.compile")
    return " ".join(parts)[:120].replace("--", "—")


def _summary(ablation: Ablation) -> str:
    as_it_is, without = ablation.of(AS_IT_IS), ablation.of(WITHOUT)
    if as_it_is is None or without is None:
        return ""
    if not ablation.is_reproduced:
        return (
            f"The program {_verb(as_it_is.result)} with torch.compile and {_verb(without.result)} "
            f"without it, so this draft has no difference to report. {compared(ablation)}"
        )
    text = (
        f"The program {_verb(without.result)} without torch.compile and {_verb(as_it_is.result)} "
        "with it."
    )
    if ablation.component:
        text += (
            f" The first backend that does not pass adds {ablation.component} "
            f"({LABELS[ablation.component]})."
        )
    elif ablation.not_tried:
        text += f" Which component it is was not tried: {ablation.not_tried} runs are left."
    if ablation.helps:
        text += f" It passes with {listed(ablation.helps)}."
    return text


def compared(ablation: Ablation) -> str:
    """Return what was compared, and what was not."""
    if ablation.is_script:
        return "Compared: errors and what it prints. Not compared: results that it does not print."
    return "Compared: errors and results, by PyTorch's rule."


def _verb(result: str) -> str:
    verbs = {
        "passes": "passes",
        "fails": "fails",
        "differs": "gives other results",
        "timed out": "does not end in time",
    }
    return verbs.get(result, result)


def _reproduction(issue: DraftedIssue) -> str:
    if len(issue.program) <= LONGEST_PROGRAM:
        return issue.program.rstrip()
    return f"# The program is attached: {issue.target}, {len(issue.program):,} characters."


def _cell(cell: str) -> str:
    return f"`{cell}`" if cell and "`" not in cell and "<" not in cell else cell


def _block(text: str, language: str) -> Iterator[str]:
    """Yield a text as a block of code, whose fence is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    yield f"{fence}{language}"
    yield printable_text(text.rstrip("\n"))
    yield fence
    yield ""
