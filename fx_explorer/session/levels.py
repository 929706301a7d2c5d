"""This module writes the texts below a kernel's source (TTIR … SASS) into a session, from any
origin.
"""

from __future__ import annotations

from fx_explorer.model import Artifact, Kernel, Level
from fx_explorer.session.writer import SessionWriter


def add_level(writer: SessionWriter, kernel: Kernel, level: Level, text: str) -> int:
    """Store the text of a level below a kernel's source and return the id of its Artifact."""
    return writer.add(
        Artifact(
            id=0,
            compilation=kernel.compilation,
            kind=level,
            stage="kernel",
            direction=kernel.direction,
            title=f"{kernel.name} · {level.upper()}",
            language=level,
            text=writer.text(text),
            line_count=text.removesuffix("\n").count("\n") + 1,
        )
    )
