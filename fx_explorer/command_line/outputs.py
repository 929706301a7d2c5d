"""This module has the output of commands: ``--format``, ``-o``, ``--force``, and a separate name
for the file of each rank of a distributed run.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from fx_explorer.client.session_files import files_of
from fx_explorer.command_line.given_session import shown_name
from fx_explorer.output_file import OutputFile

RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
"""Variables for the rank of a process and the number of processes: torchrun's, then those of mpirun
and srun.
"""

START = 4096
"""Number of bytes at the beginning of a file in which our own texts have their sign."""


def add_force_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--force",
        action="store_true",
        help="overwrite a file that fx-explorer did not write (never the target itself)",
    )


def add_format_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--format",
        choices=["text", "json", "csv", "markdown"],
        default="text",
        help="text (default), or another",
    )


def session_output(arguments: argparse.Namespace, default: str = "") -> Path | None:
    """Return the session file of ``-o``, or ``default``; each rank of a distributed run has its
    own.
    """
    default_path = Path(default) if default else None
    path = arguments.output or default_path
    return path and of_this_rank(path)


def text_output(
    path: Path | None, what: str, sign: bytes, arguments: argparse.Namespace, option: str
) -> OutputFile | None:
    """Return a place for a text of ours, which has ``sign`` near its beginning. Raises UsageError
    if it cannot be written there.
    """
    if path is None:
        return None

    def is_ours(file: Path) -> bool:
        with file.open("rb") as opened:
            return sign in opened.read(START)

    output = OutputFile(
        of_this_rank(path), what, is_ours, arguments.force, files_of(shown_name(arguments)), option
    )
    output.check()
    return output


def of_this_rank(path: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file of this rank: ``train.fxs`` → ``train.rank1.fxs`` in rank 1 of several. If
    ranks wrote one file, only one session would survive.
    """
    for rank, size in RANKS:
        number, processes = environment.get(rank, ""), environment.get(size, "")
        if (
            number.isdecimal()
            and processes.isdecimal()
            and int(processes) > 1
            and not _is_stream(path)
        ):
            return path.with_name(f"{path.stem}.rank{int(number)}{path.suffix}")
    return path


def _is_stream(path: Path) -> bool:
    # ``/dev/stdout`` or a pipe cannot get another name.
    return path.exists() and not path.is_file()
