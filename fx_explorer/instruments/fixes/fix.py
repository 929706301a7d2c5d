"""One change that may take a graph break away: edits of files, options of torch, or marks of
sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fx_explorer.source_edit.user_files import FileEdit


@dataclass(frozen=True, slots=True)
class Fix:
    """It has ``edits``, ``settings`` or ``marks``; several fixes in one (``together``) have edits
    and settings.
    """

    title: str
    """What it does, as a request: ``take the print out of the compiled code``."""
    why: str
    risk: str = ""
    """What it changes beside the break; empty when it means the same."""
    line: int = 0
    """Line of the user's file at which the break is."""
    edits: tuple[FileEdit, ...] = ()
    """The edit of the file that has the break, then those of other files that belong to it."""
    settings: dict[str, object] = field(default_factory=dict)
    """Options by full name: ``dynamo.capture_scalar_outputs``."""
    marks: tuple[str, ...] = ()
    """Sizes and numbers to be taken for variable (``marking.DynamicMark.source``); the user marks
    them with ``by_hand``.
    """
    by_hand: str = ""
    """Lines of a program that set the marks."""
    keeps_prints: bool = False
    """Whether it is about when something is printed: other text, or another order, is then a reason
    to refuse it.
    """
    unseen: str = ""
    """What it leaves out, and why calls may show nothing of that: it was not compared where no call
    shows a difference.
    """
    untried: str = ""
    """A kind of call in which it changes something, and which no trial makes."""
    refuted: str = ""
    """What the code shows against an assumption of the fix that no trial could refute; empty where
    nothing does.
    """
    compiles_less: bool = False
    """Whether a part of what is compiled now is run in eager mode with it, as a whole."""

    @property
    def path(self) -> str:
        """Return the user's file that the break is in, where it is edited; else empty."""
        return self.edits[0].path if self.edits else ""

    @property
    def diff(self) -> str:
        """Return all edits, as ``FileEdit.diff``; empty for options."""
        return "".join(edit.diff for edit in self.edits)

    @property
    def effect(self) -> tuple[object, ...]:
        """Return what the fix changes: two fixes that change the same are one, whatever they are
        called.
        """
        # ``distinct`` uses this as a key, which a dict cannot be.
        return self.edits, str(self.settings), self.marks

    @property
    def instruction(self) -> str:
        """Say how its marks or options are set: in the lines of a program or, for options, on the
        command line too. It is empty for a fix that only edits files.
        """
        if self.by_hand:
            return self.by_hand
        # Spelled out, since torch is not imported here and could not be asked.
        modules = {
            "dynamo": "torch._dynamo.config",
            "inductor": "torch._inductor.config",
            "functorch": "torch._functorch.config",
        }
        lines = [
            f"{modules[name.partition('.')[0]]}.{name.partition('.')[2]} = {value!r}"
            for name, value in self.settings.items()
        ]
        options = " ".join(f"--setting {name}={value}" for name, value in self.settings.items())
        return "\n".join([*lines, f"# or: fx-explorer TARGET {options}"]) if lines else ""


def distinct(fixes: Iterable[Fix]) -> list[Fix]:
    """Return the fixes without those that change the same as one before them."""
    found: dict[object, Fix] = {}
    for fix in fixes:
        found.setdefault(fix.effect, fix)
    return list(found.values())
