"""How the program meets the virtual GPU. The mode changes at most once: from *transplant* to
*fake*.

*transplant*: the program really runs on the CPU; each graph that Dynamo captures is moved to the
GPU and lowered there. *fake*: what the program puts on ``cuda`` has a shape and a type and no
content.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from fx_explorer.model import Gpu

EmulationMode = Literal["transplant", "fake"]

IN_WORDS: dict[EmulationMode, str] = {
    "transplant": "the program runs on the CPU, and its graphs are moved to the virtual GPU",
    "fake": "tensors on the virtual GPU have shapes and no content",
}


@dataclass(frozen=True, slots=True)
class DeviceQuestion:
    """A question of the user's code about the device that the GPU would answer otherwise."""

    what: str
    """What is asked: ``torch.cuda.is_available()``, ``.is_cuda``, ``.device.type``."""
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A line of the program that read a number off a tensor without content."""

    file: str
    line: int
    value: str
    """What it was given, as Python writes it: ``1.0``."""


Choice = dict[str, object]
"""The candidates that autotuning would have timed on the device (autotune_candidates.py)."""


@dataclass
class Emulation:
    """The virtual GPU of this process, its emulation mode, and what the program asked of it."""

    gpu: Gpu
    mode: EmulationMode = "transplant"
    reason: str = ""
    """Why the mode is ``fake``."""
    questions: dict[DeviceQuestion, None] = field(default_factory=dict)
    """Questions asked in mode ``transplant``, in order."""
    placeholders: dict[Placeholder, None] = field(default_factory=dict)
    """Numbers that the program read in mode ``fake``, in order."""
    unsaved: dict[tuple[str, int], None] = field(default_factory=dict)
    """File and line of each ``torch.save`` that wrote nothing, since its tensors have no content.
    """
    choices: list[Choice] = field(default_factory=list)
    on_change: Callable[[Emulation], None] = lambda emulation: None
    when_fake: list[Callable[[], None]] = field(default_factory=list)
    """Functions that undo what was in force only while the program ran on the CPU."""

    def become_fake(self, reason: str) -> None:
        if self.mode != "fake":
            self.mode, self.reason = "fake", reason
            for undo in self.when_fake:
                undo()
            self.on_change(self)

    def ask(self, question: DeviceQuestion) -> None:
        if self.mode == "transplant" and question not in self.questions:
            self.questions[question] = None
            self.on_change(self)

    def stand_in(self, placeholder: Placeholder) -> None:
        if placeholder not in self.placeholders:
            self.placeholders[placeholder] = None
            self.on_change(self)

    def leave_unsaved(self, place: tuple[str, int]) -> None:
        if place not in self.unsaved:
            self.unsaved[place] = None
            self.on_change(self)

    def to_json(self) -> dict[str, object]:
        """Return the value for ``meta["virtual_gpu"]``."""
        asked = [{"what": one.what, "file": one.file, "line": one.line} for one in self.questions]
        stand_ins = [
            {"file": one.file, "line": one.line, "value": one.value} for one in self.placeholders
        ]
        return {
            "gpu": self.gpu.name,
            "feeding": self.mode,
            "reason": self.reason,
            "questions": asked,
            "placeholders": stand_ins,
            "unsaved": [{"file": file, "line": line} for file, line in self.unsaved],
        }
