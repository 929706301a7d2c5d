"""Targets that are ``.pt2`` files: what each is, before anything of it is loaded.

A package of AOTInductor becomes a session of its texts. An ``ExportedProgram`` is loaded by the
worker, which can run code of whoever made it, so ``--trust`` is asked for.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path

from fx_explorer.client.package_session import write_package_session
from fx_explorer.errors import UsageError
from fx_explorer.session.untrusted.pt2_archive import SUFFIX, read_pt2

LOADS = (
    "Loading an ExportedProgram can run code of whoever made it: torch unpickles its constants and inputs, and its graph "
    "and guards "
    "may name any function."
)


def resolve_pt2(arguments: argparse.Namespace, until: contextlib.ExitStack) -> None:
    """Put a session in the place of a package among the targets. ``until`` removes it.

    Raises UnreadableProgramError for a file that is neither, and UsageError for a program without ``--trust``.
    """
    for field in ("target", "other"):
        name = getattr(arguments, field, None)
        if not isinstance(name, str) or not name.lower().endswith(SUFFIX) or not Path(name).is_file():
            continue
        archive = read_pt2(Path(name))
        if archive.kind == "exported_program":
            _check_trust(name, arguments)
            continue
        folder = until.enter_context(tempfile.TemporaryDirectory(prefix="fx-explorer-"))
        session = Path(folder) / f"{archive.path.stem}.fxs"
        write_package_session(archive, session)
        setattr(arguments, field, str(session))
        arguments.package = archive.path


def _check_trust(name: str, arguments: argparse.Namespace) -> None:
    if not getattr(arguments, "trust", False):
        raise UsageError(f"{name} is an ExportedProgram. {LOADS} If you trust whoever made it, add --trust.")
