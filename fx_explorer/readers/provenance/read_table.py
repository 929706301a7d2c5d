"""A table that lies alone becomes a session of one document: its kernels, what they compute, and
the lines of the program.
"""

from __future__ import annotations

import json
from pathlib import Path

from fx_explorer import __version__
from fx_explorer.errors import SessionError
from fx_explorer.model import Artifact, Compilation, Outcome
from fx_explorer.outside_file import read_outside
from fx_explorer.readers.provenance.in_words import TITLE, in_words
from fx_explorer.session import SessionWriter
from fx_explorer.torch_texts.provenance import read_provenance

NOT_IN_TABLE = "the table has names of nodes, and no graph"

MOST_READ = 256 << 20
"""Bytes."""


def read_table(file: Path, session: Path) -> None:
    """Write the session of a table. Raises SessionError for a file that cannot be read, or is no
    table.
    """
    try:
        text = read_outside(file, MOST_READ).decode(errors="replace")
        table = read_provenance(text)
    except OSError as error:
        raise SessionError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise SessionError(f"{file} is not what torch writes, or not all of it: {error}") from error
    stages = ("dynamo", "pre_grad", "joint", "forward", "backward", "post_grad", "schedule")
    with SessionWriter(session, checks_rows=True) as writer, writer.transaction():
        writer.set_meta("fx_explorer", __version__)
        writer.set_meta("environment", {})
        target = {
            "name": file.name,
            "kind": "log",
            "file": str(file.absolute()),
            "object": "",
            "train": False,
        }
        writer.set_meta("target", {**target, "parameters": 0})
        row = Compilation(
            0,
            "table",
            0,
            0,
            "",
            "",
            0,
            status="ok",
            missing_stages=dict.fromkeys(stages, NOT_IN_TABLE),
        )
        compilation = writer.add(row)
        for title, language, shown in (
            (TITLE, "text", in_words(table)),
            (file.name, "json", _indented(text)),
        ):
            lines = shown.removesuffix("\n").count("\n") + 1
            writer.add(
                Artifact(
                    0,
                    compilation,
                    "listing",
                    "output_code",
                    "",
                    title,
                    language,
                    writer.text(shown),
                    lines,
                )
            )
        writer.set_meta("skipped_records", table.left_out)
        writer.set_meta("build", True)  # torch built what it wrote of
        told = {
            "format": "provenance",
            "records": len(table.kernels),
            "kinds": {"kernel": len(table.kernels)},
            "unknown": {},
        }
        writer.set_meta("log", told)
        writer.set_meta("outcome", Outcome("finished").to_json())


def _indented(text: str) -> str:
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
