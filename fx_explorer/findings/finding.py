"""A finding is one thing that is wrong with a program under torch.compile: where, what shows it,
what it costs, and what can be done about it.

A remedy never counts as working unless it was tried on this program. ``try`` it with
``fx-explorer diagnose --try``; the result is stored in the session, and shown wherever the finding
is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.facts import Severity, Topic, View
from fx_explorer.analysis.whole_session import Subject
from fx_explorer.session import SessionReader

RemedyState = Literal["tried", "not tried", "cannot be tried"]

RemedyKind = Literal["code", "setting", "machine", "look", "report"]
"""What a remedy is: a change of the user's code; a setting of torch's, in the code or the
environment; a change of the machine; a command that shows more; a report to PyTorch.
"""

_BEGINNINGS: tuple[tuple[RemedyKind, str], ...] = (
    ("report", r"Report it"),
    ("look", r"See |Look for "),
    ("machine", r"Install |Update |Use a Python "),
    (
        "setting",
        r"Set (?:torch|TORCH)|Set \S+ before the first call|Switch the caches off|Let Inductor |"
        r"Use (?:backend=|torch\.compile\()|Leave it out",
    ),
)
"""Kind → a pattern of the first words of a remedy. What fits none is a change of the code."""

_WHAT_IT_IS: dict[RemedyKind, str] = {
    "code": "a change of your code",
    "setting": "a setting",
    "machine": "a change of this machine",
}
"""What a trial could change → the words for it."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something that the user can change."""

    text: str
    """What to change, as a sentence."""
    state: RemedyState = "not tried"
    result: str = ""
    """What the trial showed, or why it cannot be tried; empty where it was not."""
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The fields of a CaptureRequest that a trial changes; empty where the change is one of the
    user's code, which no trial can make.
    """
    has_helped: bool = True
    """Whether the trial showed that it helps; without meaning where it was not tried."""
    proven: str = ""
    """The sentence once a trial has shown that it helps, where ``text`` says that it may."""

    @property
    def kind(self) -> RemedyKind:
        """Return what the remedy is."""
        for kind, beginning in _BEGINNINGS:
            if re.match(beginning, self.text):
                return kind
        return "code"

    @property
    def is_refused(self) -> bool:
        """Return whether a trial showed that it does not help: it is no remedy then."""
        return self.state == "tried" and not self.has_helped

    @property
    def description(self) -> str:
        """Return the remedy with the result of its trial, or why it cannot be tried."""
        if self.state == "tried":
            text = self.proven if self.has_helped and self.proven else self.text
            return f"{text} Tried: {self.result}"
        if self.state == "cannot be tried":
            return f"{self.text} (cannot be tried: {self.result})"
        return self.text


Urgency = Literal["failed", "wrong", "not compiled", "slow", "again", "minor"]
"""What a finding does to the program, the worst first. ``failed``: it does not run. ``wrong``: its
results differ. ``not compiled``: a part runs in eager mode, or lacks what was asked for. ``slow``:
each call takes longer. ``again``: compiling takes longer, or is repeated. ``minor``: none of these.
"""

URGENCIES: tuple[Urgency, ...] = ("failed", "wrong", "not compiled", "slow", "again", "minor")


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    """Name of its FindingKind: ``unrolled loop``."""
    text: str
    """What is wrong, as a sentence."""
    urgency: Urgency
    severity: Severity = "problem"
    topic: Topic = "graphs"
    place: Place | None = None
    """The user's own line, if there is one."""
    view: View | None = None
    """The view with the evidence."""
    evidence: tuple[str, ...] = ()
    """What in the session shows it: figures and the user's code, a sentence each."""
    explanation: str = ""
    """Explanation for a reader who meets this for the first time."""
    remedies: tuple[Remedy, ...] = ()
    count: int = 1
    """Number of occurrences of the one cause."""
    cost: str = ""
    """What it costs, in a few words: ``12 s compiling``; empty where it is not known."""
    cost_s: float = 0.0
    """Known cost in seconds: findings of one urgency are ordered by it."""
    brief: str = ""
    """A shorter sentence for one line; empty where there is only ``text``."""
    version: str = ""
    """Name of the compilation that ``place`` is meant of, such as ``0/1``; empty for any."""

    @property
    def can_try(self) -> bool:
        """Return whether it has a remedy that a trial can make, and none was made."""
        return any(remedy.changes and remedy.state == "not tried" for remedy in self.remedies)

    @property
    def detail(self) -> str:
        """Return everything about it but its sentence, one paragraph a line."""
        lines = [*self.evidence]
        if self.explanation:
            lines.append(self.explanation)
        lines += self._about_remedies()
        return "\n".join(lines)

    def _about_remedies(self) -> list[str]:
        """Return the remedies, one a line, and which of them were not tried. What a trial has
        refused is no remedy, and stands last as what does not help.
        """
        offered = [remedy for remedy in self.remedies if not remedy.is_refused]
        is_tried = any(remedy.state == "tried" for remedy in offered)
        lines = []
        if len(offered) == 1:
            heading = "What to do" if is_tried else "Suggestion"
            lines.append(f"{heading}: {offered[0].description}")
        elif offered:
            heading = "What to do, one of these" if is_tried else "Suggestions, one of these"
            lines.append(f"{heading}:")
            for remedy in offered:
                is_only_suggested = is_tried and remedy.state == "not tried"
                addition = " Not tried." if is_only_suggested else ""
                lines.append(f"- {remedy.description}{addition}")
        if self.can_try:
            lines.append("Not tried yet: x r in the app, fx-explorer diagnose --try.")
        elif not is_tried:
            lines += self._why_not_tried(offered)
        refused = [remedy for remedy in self.remedies if remedy.is_refused]
        lines += [f"No remedy here: {remedy.description}" for remedy in refused]
        return lines

    def _why_not_tried(self, offered: Sequence[Remedy]) -> Iterator[str]:
        """Yield why no trial makes what is offered. A command or a report to PyTorch changes
        nothing that could be tried.
        """
        untried = [remedy for remedy in offered if remedy.state == "not tried"]
        kinds = dict.fromkeys(remedy.kind for remedy in untried)
        changed = [_WHAT_IT_IS[kind] for kind in kinds if kind in _WHAT_IT_IS]
        if changed:
            yield f"Not tried: it is {', '.join([*changed[:-2], ' or '.join(changed[-2:])])}."


Find = Callable[[SessionReader], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class FindingKind:
    name: str
    looked_for: str
    """What is looked for, as a noun: ``unrolled loops``."""
    find: Find
    needs: Subject | Literal["a capture", "--try", "a profile"]
    """What a session must have for it: a subject that a log of text may lack, a capture in place of
    a log, the trials of ``diagnose --try``, or a profile of torch.profiler.
    """
    is_of_plugin: bool = False
