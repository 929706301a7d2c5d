"""What every session of a file that another program wrote begins with."""

from __future__ import annotations

from pathlib import Path

from fx_explorer import __version__
from fx_explorer.session import SessionWriter


def write_beginning(writer: SessionWriter, file: Path) -> None:
    """Write that the session was read from ``file``, and from no capture."""
    target = {
        "name": file.absolute().name,
        "kind": "log",
        "file": str(file.absolute()),
        "object": "",
        "train": False,
        "parameters": 0,
    }
    writer.set_meta("fx_explorer", __version__)
    writer.set_meta("environment", {})
    writer.set_meta("target", target)
