"""One change that may take a graph break away: an edit of a file, or options of torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from fx_explorer.model.bounded_matching import unified_diff


@dataclass(frozen=True, slots=True)
class Fix:
    """Either ``path``, ``before`` and ``after``, or ``settings``; of several in one (``together``) both, and more files."""

    title: str
    """What it does, as a request: ``take the print out of the compiled code``."""
    why: str
    risk: str = ""
    """What it changes beside the break; empty when it means the same."""
    line: int = 0
    """Line of the user's file at which the break is."""
    path: str = ""
    """The user's file, as torch named it."""
    before: str = ""
    after: str = ""
    r"""Text of the whole file, with ``\n`` at the ends of lines."""
    settings: dict[str, object] = field(default_factory=dict)
    """Options by full name: ``dynamo.capture_scalar_outputs``."""
    marks: tuple[str, ...] = ()
    """Sizes and numbers to be taken for variable (``marking.DynamicMark.source``); the user marks them with ``by_hand``."""
    by_hand: str = ""
    also: tuple[Fix, ...] = ()
    """Edits of other files that belong to it."""
    keeps_prints: bool = False
    """Whether it is about when something is printed: other text, or another order, is then a reason to refuse it."""
    unseen: str = ""
    """What it leaves out, and why calls may show nothing of that: it was not compared where no call shows a difference."""
    untried: str = ""
    """A kind of call in which it changes something, and which no trial makes."""

    @property
    def diff(self) -> str:
        """The edit as a unified diff that ``patch -p1`` and ``git apply`` take in the working directory, or else in ``/``.

        Empty for options.
        """
        return "".join(edit._own_diff for edit in self.edits)

    @property
    def edits(self) -> tuple[Fix, ...]:
        """Itself and ``also``, as far as they edit a file."""
        return tuple(one for one in (self, *self.also) if one.path)

    @property
    def _own_diff(self) -> str:
        path = str(relative(self.path)).lstrip("/")
        before, after = (text.splitlines(keepends=True) for text in (self.before, self.after))
        return unified_diff(before, after, path)

    @property
    def instruction(self) -> str:
        """How options are set: the lines of a program, then the command line's way."""
        if self.by_hand:
            return self.by_hand
        modules = {
            "dynamo": "torch._dynamo.config",
            "inductor": "torch._inductor.config",
            "functorch": "torch._functorch.config",
        }
        lines = [
            f"{modules[name.partition('.')[0]]}.{name.partition('.')[2]} = {value!r}" for name, value in self.settings.items()
        ]
        options = " ".join(f"--setting {name}={value}" for name, value in self.settings.items())
        return "\n".join([*lines, f"# or: fx-explorer TARGET {options}"]) if lines else ""


def relative(path: str) -> Path:
    """The path relative to the working directory when the file lies below it, else as it is."""
    file, here = Path(path), Path.cwd()
    return file.relative_to(here) if file.is_relative_to(here) else file
