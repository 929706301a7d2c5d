"""The text of an issue, with the parts that the form of the project asks for:

- PyTorch: .github/ISSUE_TEMPLATE/pt2-bug-report.yml;
- vLLM: .github/ISSUE_TEMPLATE/400-bug-report.yml;
- transformers: .github/ISSUE_TEMPLATE/bug-report.yml.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fx_explorer.analysis.words import counted, listed
from fx_explorer.highlight import printable_text
from fx_explorer.output.formats import markdown_table
from fx_explorer.output.table import Column, Table
from fx_explorer.report.issue_ablation import SEED, WITHOUT, Ablation, VariationOutcome, kind_of
from fx_explorer.report.issue_minified import Minified
from fx_explorer.report.issue_variations import (
    AOT_AUTOGRAD,
    CASTS,
    DECOMPOSITIONS,
    DYNAMO,
    FALLBACK_RANDOM,
    INDUCTOR,
)

Form = Literal["pytorch", "vllm", "transformers"]

LABELS = {
    DYNAMO: "module: dynamo",
    AOT_AUTOGRAD: "module: aotdispatch",
    DECOMPOSITIONS: "module: decompositions",
    INDUCTOR: "module: inductor",
}
"""Component → the label that PyTorch has for it."""

DYNAMIC_SHAPES = "module: dynamic shapes"

LABELS_OF_ERRORS = {
    "functionaliz": "module: functionalization",
    "data-dependent": DYNAMIC_SHAPES,
    "Data-dependent": DYNAMIC_SHAPES,
    "GuardOnDataDependentSymNode": DYNAMIC_SHAPES,
    "ConstraintViolationError": DYNAMIC_SHAPES,
    "DynamicOutputShapeException": DYNAMIC_SHAPES,
    "DataDependentOutputException": DYNAMIC_SHAPES,
    "Tensor.item()": DYNAMIC_SHAPES,
}
"""What an error says → the label for it."""

ROUNDING = (
    "So the difference is rounding: Inductor rounds float16 and bfloat16 less often than eager "
    "mode, which PyTorch considers intended."
)
"""What the setting says with which a program passes (pytorch#183761, closed as intended)."""

NOT_RUN = (
    "It was not run with this option, because --budget is used up: whether it differs is not known."
)

LONGEST_TITLE = 120

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
    """What the project's own command says of the machine."""
    attachments: Sequence[str]
    minified: Minified | None = None
    """What torch's minifier made; None where it was not asked."""


def issue_text(issue: DraftedIssue, form: Form = "pytorch") -> str:
    """Return the issue as markdown."""
    return "\n".join(FORMS[form](issue)) + "\n"


def _pytorch(issue: DraftedIssue) -> Iterator[str]:
    yield f"<!-- Title: {_title(issue)} -->"
    yield from _section("🐛 Describe the bug")
    yield from _description(issue)
    if issue.ablation.error:
        yield from _section("Error logs")
        yield from _error(issue)
    yield from _section("Versions")
    yield from _block(issue.versions, "")
    yield from _attached(issue)


def _vllm(issue: DraftedIssue) -> Iterator[str]:
    yield f"<!-- Title: [Bug]: {_title(issue)} -->"
    yield from _section("Your current environment")
    yield "<details>"
    yield "<summary>The output of <code>python collect_env.py</code></summary>"
    yield ""
    yield from _block(issue.versions, "text")
    yield "</details>"
    yield ""
    yield from _section("🐛 Describe the bug")
    yield from _description(issue)
    yield from _error(issue)
    yield from _attached(issue)
    yield from _section("Before submitting a new issue...")
    yield (
        "- [ ] Make sure you already searched for relevant issues, and asked the chatbot living at "
        "the bottom right corner of the "
        "[documentation page](https://docs.vllm.ai/en/latest/), which can answer lots of "
        "frequently asked questions."
    )


def _transformers(issue: DraftedIssue) -> Iterator[str]:
    yield f"<!-- Title: {_title(issue)} -->"
    yield from _section("System Info")
    yield from _block(issue.versions, "")
    yield from _section("Who can help?")
    yield "<!-- Their form says which person to mention for each model; or leave it blank. -->"
    yield ""
    yield from _section("Information")
    yield "- [ ] The official example scripts"
    yield "- [x] My own modified scripts"
    yield ""
    yield from _section("Tasks")
    yield "- [ ] An officially supported task in the `examples` folder (such as GLUE/SQuAD, ...)"
    yield "- [x] My own task or dataset (give details below)"
    yield ""
    yield from _section("Reproduction")
    yield from _description(issue)
    yield from _error(issue)
    yield from _attached(issue)
    yield from _section("Expected behavior")
    yield "The program does the same with and without torch.compile."


FORMS: dict[Form, Callable[[DraftedIssue], Iterator[str]]] = {
    "pytorch": _pytorch,
    "vllm": _vllm,
    "transformers": _transformers,
}
"""Project → what writes the text by its form."""


def _section(title: str) -> Iterator[str]:
    yield f"### {title}"
    yield ""


def _description(issue: DraftedIssue) -> Iterator[str]:
    """Yield what happens, the program, the ablation, and the smallest graph that shows it."""
    yield _summary(issue.ablation)
    yield ""
    yield "Run it with:"
    yield ""
    yield from _block(_reproduction(issue), "python")
    yield from _section("Ablation")
    columns = [Column("run"), Column("result"), Column("what it says"), Column("took", True)]
    yield from markdown_table(Table(columns, _rows(issue.ablation.tried)))
    yield ""
    if issue.minified is not None:
        yield from _section("Smallest graph")
        yield from _smallest(issue.minified)


def _rows(tried: Sequence[VariationOutcome]) -> list[list[str]]:
    """Return the rows of the table: variation, result, message, seconds. A message is written
    once: where it comes again, the row names the first that has it.
    """
    rows = []
    first_with: dict[str, str] = {}
    for variation in tried:
        name, took = _cell(variation.name), ""
        if variation.took_s:
            took = f"{variation.took_s:.0f} s"
        message = _cell(variation.message)
        first = first_with.setdefault(message, name)
        if variation.result != "not tried" and message and first != name:
            message = f"the same: {first}"
        rows.append([name, variation.result, message, took])
    return rows


def _smallest(minified: Minified) -> Iterator[str]:
    yield minified.sentence
    yield ""
    if minified.program:
        yield "<details>"
        yield "<summary>minified.py</summary>"
        yield ""
        yield from _block(minified.program, "python")
        yield "</details>"
        yield ""


def _error(issue: DraftedIssue) -> Iterator[str]:
    if issue.ablation.error:
        yield from _block(_end_of(issue.ablation.error), "")


def _end_of(error: str) -> str:
    """Return a traceback, of a long one the last lines, which have the error."""
    if len(error) <= LONGEST_ERROR:
        return error
    left_out, _, kept = error[-LONGEST_ERROR:].partition("\n")
    lines = error[: len(error) - len(kept)].count("\n")
    return f"({counted(lines, 'line')} before it left out)\n{kept}" if kept else left_out


def _attached(issue: DraftedIssue) -> Iterator[str]:
    if issue.attachments:
        yield f"Attached: {listed(issue.attachments)}."
        yield ""


def _title(issue: DraftedIssue) -> str:
    ablation = issue.ablation
    what = ablation.as_it_is.message if ablation.as_it_is and not ablation.is_open else ""
    if ablation.gives_other_results:
        what = f"wrong results: {what.removeprefix('AssertionError: ')}"
    elif ablation.is_crash:
        what = kind_of(what)
    parts = [f"[{ablation.component}]"] if ablation.component else []
    parts.append(what or "torch.compile")
    title = textwrap.shorten(" ".join(parts), LONGEST_TITLE, placeholder=" …")
    return title.replace("--", "—")


def labels_of(ablation: Ablation) -> list[str]:
    """Return PyTorch's labels that the ablation and the error speak for."""
    labels = []
    if ablation.component:
        labels.append(LABELS[ablation.component])
    if ablation.needs_dynamic_sizes:
        labels.append(DYNAMIC_SHAPES)
    error = _without_frames(ablation.error)
    for text, label in LABELS_OF_ERRORS.items():
        if text in error:
            labels.append(label)
    if ablation.is_crash:
        labels.append("module: crash")
    elif ablation.gives_other_results:
        labels.append("module: correctness (silent)")
    return list(dict.fromkeys(labels))


def _without_frames(error: str) -> str:
    """Return a traceback without its frames, whose files and functions have names of components
    that the error is not of.
    """
    return "\n".join(line for line in error.splitlines() if not line.startswith(" "))


def _summary(ablation: Ablation) -> str:
    as_it_is, without = ablation.as_it_is, ablation.of(WITHOUT)
    if as_it_is is None or without is None:
        return ""
    if ablation.is_open:
        return f"The program {_verb(without.result)} without torch.compile. {NOT_RUN}"
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
        text += f" The first such backend adds {ablation.component}."
    elif ablation.not_tried:
        text += f" The component is not known: {ablation.not_tried} runs were not made."
    other = ablation.other_fault
    if other:
        text += f" {_cell(other.name)} fails in another way: {_cell(other.message)}"
    if ablation.helps:
        text += f" It passes with {listed(ablation.helps)}."
    if CASTS in ablation.helps:
        text += f" {ROUNDING}"
    labels = [f"`{label}`" for label in labels_of(ablation)]
    if labels:
        text += f" Labels that fit: {listed(labels, len(labels))}."
    if ablation.is_seeded:
        text += (
            f" It prints random values, so each run began with `torch.manual_seed({SEED})`, and "
            "Inductor drew the same numbers as eager mode "
            f"(`torch._{FALLBACK_RANDOM.replace('.', '.config.')} = True`)."
        )
    return text


def compared(ablation: Ablation) -> str:
    """Return what was compared, and what was not."""
    if ablation.is_script:
        return "Compared: errors and printed output. Not compared: results that it does not print."
    return "Compared: errors and results, by PyTorch's rule."


def _verb(result: str) -> str:
    verbs = {
        "passes": "passes",
        "fails": "fails",
        "differs": "gives other results",
        "falls back": "runs a graph in eager mode instead",
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
