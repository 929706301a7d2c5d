"""This module finds what kind of file TARGET, A or B names on a command line, by its content,
before any of it is loaded.

A package of AOTInductor becomes a session of its texts, a TORCH_TRACE log one of what torch says
in it, and an HTML page of ours gives the session that it carries. An ``ExportedProgram`` is loaded
by the worker, which can run code of whoever made it, so ``--trust`` is asked for; the app asks by
itself. A file that the command cannot use is refused here.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.client.session_files import copy_session, session_file
from fx_explorer.command_line.given_logs import followed_log, is_on_terminal, only_log_in
from fx_explorer.command_line.given_session import is_session
from fx_explorer.command_line.hf_target import file_of, is_hf_target
from fx_explorer.command_line.history_names import session_of
from fx_explorer.command_line.notebook_target import notebook_of, script_of
from fx_explorer.errors import UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import print_fitted
from fx_explorer.output_file import OutputFile
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.elsewhere import register_texts_elsewhere
from fx_explorer.session.ownership import LOADS
from fx_explorer.session.untrusted.given_program import (
    SUFFIX,
    check_is_python,
    is_exported,
    split_target,
)
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

if TYPE_CHECKING:
    from fx_explorer.readers.torch_trace.read_log import LogOrigin

TAKE_NO_SESSION = ("capture", "run", "dynamic")
"""Commands that compile their target, and take no session in its place."""

SHOW_PACKAGES = ("explore", "capture", "report", "ask", "graph", "diff")
"""Commands that accept an AOTInductor package. The others need a graph, or call the program."""


def resolve_files(command: str, arguments: argparse.Namespace, until: contextlib.ExitStack) -> None:
    """Put a session in the place of a package or a log among the targets. ``until`` removes it.

    Raises UnreadableProgramError for a file that cannot be what its name or beginning says, and
    UsageError for an ExportedProgram without ``--trust`` and for what the command has no use for.
    """
    if arguments.target == getattr(arguments, "other", None) == "-":
        raise UsageError(
            "standard input can be read only once, and both logs are -: save one of them to a "
            "file and name the file"
        )
    for field in ("target", "other"):
        target = getattr(arguments, field, None)
        if not isinstance(target, str) or not target:
            continue
        if is_hf_target(target):
            setattr(arguments, field, file_of(target))
            continue
        if session := session_of(target, until):
            arguments.packages = {**getattr(arguments, "packages", {}), str(session): target}
            setattr(arguments, field, str(session))
            _refuse_session(command, session, target)
            continue
        if notebook := notebook_of(target):
            file, name = notebook
            setattr(arguments, field, f"{script_of(file)}{f':{name}' if name else ''}")
            continue
        session = _resolved(command, target, arguments, until)
        if session:
            setattr(arguments, field, str(session))


@contextlib.contextmanager
def open_session(name: str) -> Iterator[SessionReader]:
    """Open what is a session, or is read as one: a log, an archive, a page, a profile. Raises
    UsageError for a program, and for what is not there.
    """
    given = argparse.Namespace(target=name)
    if not Path(name).exists():
        raise UsageError(f"there is no file {name!r}")
    with contextlib.ExitStack() as until:
        resolve_files("ask", given, until)
        if not is_session(given.target):
            raise UsageError(
                f"{name} is a program, not a session. Capture it first: fx-explorer capture {name}"
            )
        yield until.enter_context(SessionReader(given.target))


def _resolved(
    command: str, target: str, arguments: argparse.Namespace, until: contextlib.ExitStack
) -> Path | None:
    """Return a session made from the target, if that is a package or a log; None for any other
    target, which is used directly.
    """
    if getattr(arguments, "follow", False):
        if getattr(arguments, "save", None):
            raise UsageError(
                "--save needs a complete log, and --follow reads one that still grows: press s in "
                "the app"
            )
        arguments.reads_log = followed_log(Path(target))
        return None
    if target == "-":
        from fx_explorer.readers.torch_trace.opened import STANDARD_INPUT

        return given_log(command, STANDARD_INPUT, arguments, until)
    file, name = split_target(target)
    if file is None or not file.exists():
        return None
    if file.is_dir() and (session := _of_directory(command, file, arguments, until)):
        return session
    if not _is_to_be_looked_at(file):
        return None
    if session := _of_log_or_archive(command, file, arguments, until):
        return session
    if getattr(arguments, "reads_log", None) is not None:
        return None  # the app reads it, while it shows what was found
    if is_session(str(file)):
        _refuse_session(command, file, str(file))
        return None
    as_python = command == "run" or getattr(arguments, "as_python", False)
    if not as_python and (session := _of_plugin(command, file, arguments, until)):
        return session
    if as_python or not is_exported(file):
        check_is_python(file, as_python=getattr(arguments, "as_python", False))
        return None
    return _exported(command, file, name, arguments, until)


def _refuse_session(command: str, session: Path, name: str) -> None:
    """Raise UsageError for a command that compiles its target, and takes no session."""
    if command in TAKE_NO_SESSION:
        SessionReader(session).close()  # what cannot be read is reported first
        raise UsageError(
            f"fx-explorer {command} works on targets: {name} is already a capture. Look at it "
            f"with: fx-explorer {name}"
        )


def _of_directory(
    command: str, directory: Path, arguments: argparse.Namespace, until: contextlib.ExitStack
) -> Path | None:
    """Return a session made of a directory of Inductor's or tlparse's, or of one with a single log,
    as TORCH_TRACE names it; None for any other.
    """
    if _is_debug(directory):
        return given_log(command, directory, arguments, until)
    if command not in SHOW_LOGS:
        return None
    if only := only_log_in(directory):
        if kind_of_file(only).kind == "log":
            return given_log(command, only, arguments, until)
        return only
    from fx_explorer.readers.tlparse_folder import is_tlparse_folder  # not for Python files

    if not is_tlparse_folder(directory):
        return None
    from fx_explorer.command_line.attached import open_tlparse

    folder = until.enter_context(temporary_folder())
    return _opened(command, open_tlparse([directory], folder), directory, folder, arguments, until)


def _of_log_or_archive(
    command: str, file: Path, arguments: argparse.Namespace, until: contextlib.ExitStack
) -> Path | None:
    """Return a session made of a log, an archive or a page; None for any other file, and where the
    app reads the log.
    """
    kind = kind_of_file(file).kind
    if kind in ("log", "torch_logs", "tritonparse", "provenance", "memory_snapshot", "profile"):
        return given_log(command, file, arguments, until)
    if kind == "page":
        return _session_in(command, file, arguments, until)
    is_called_ours = file.suffix.lower() in (SUFFIX, ".fxs")
    as_python = getattr(arguments, "as_python", False)
    if kind != "packed" or command in TAKE_NO_SESSION or is_called_ours or as_python:
        return None
    # Both are not needed for Python files.
    from fx_explorer.command_line.attached import UnpackingProgress, open_archive

    folder = until.enter_context(temporary_folder())
    with UnpackingProgress(sys.stderr, file) as progress:
        inside = open_archive(file, folder, progress)
    return _opened(command, inside, file, folder, arguments, until)


NEVER_OF_PLUGINS = (".py", ".pyi", ".pyw", ".ipynb", SUFFIX, ".fxs")
"""Suffixes of files that no plug-in is asked about: those that fx-explorer reads itself."""


def _of_plugin(
    command: str, file: Path, arguments: argparse.Namespace, until: contextlib.ExitStack
) -> Path | None:
    """Return a session that a plug-in makes of a file; None for a file that no plug-in knows, and
    if the plug-in fails. Raises UsageError for a command that needs a program.
    """
    if file.suffix.lower() in NEVER_OF_PLUGINS:
        return None
    from fx_explorer.readers.plugin_files import read_by_plugin, reader_of_plugin  # see above

    plugin = reader_of_plugin(file)
    if plugin is None:
        return None
    if command not in SHOW_LOGS or _tries(arguments):
        raise UsageError(
            f"{file} is {plugin.offer.words}, but fx-explorer {command} needs the program. Look "
            f"at it with: fx-explorer {file}"
        )
    output = _output_of_log(file, arguments)
    session = place_of_session(file, arguments, until)
    if not read_by_plugin(plugin, file, session):
        return None
    return _saved(session, output, arguments)


def _opened(
    command: str,
    inside: Path,
    given: Path,
    folder: Path,
    arguments: argparse.Namespace,
    until: contextlib.ExitStack,
) -> Path:
    """Return what stands for an archive or a folder of tlparse's: the session made of the log in
    it, or what is in it. ``folder`` is where it was unpacked.
    """
    from fx_explorer.command_line.attached import origin_of  # not for Python files

    if inside.is_dir() and command != "explore" and not _is_debug(inside):
        count = len(list(inside.iterdir()))
        raise UsageError(
            f"{given} has {count} logs, perhaps of the ranks of a job. Compare them with: "
            f"fx-explorer {given}; or unpack it and name one"
        )
    arguments.origin, arguments.given_as = origin_of(inside, given, folder), given
    session = _resolved(command, str(inside), arguments, until) or inside
    if getattr(arguments, "reads_log", None) is None:
        del arguments.origin
    del arguments.given_as
    arguments.packages = {**getattr(arguments, "packages", {}), str(session): given}
    return session


def _is_debug(directory: Path) -> bool:
    from fx_explorer.readers.debug_directory import is_debug_directory

    return is_debug_directory(directory)


def _session_in(
    command: str, page: Path, arguments: argparse.Namespace, until: contextlib.ExitStack
) -> Path:
    """Take the session out of a page, and return it."""
    from fx_explorer.session.in_page import write_session  # not needed for Python files

    if command in TAKE_NO_SESSION:
        raise UsageError(
            f"fx-explorer {command} works on targets: {page} contains a session, which is already "
            f"a capture. Look at it with: fx-explorer {page}"
        )
    session = place_of_session(page, arguments, until)
    write_session(page, session)
    return session


def _exported(
    command: str, file: Path, name: str, arguments: argparse.Namespace, until: contextlib.ExitStack
) -> Path | None:
    """Check that an ExportedProgram may be loaded, and return None; make a session of a package,
    and return that.
    """
    from fx_explorer.client.package_session import (
        write_package_session,
    )  # not needed for Python files
    from fx_explorer.session.untrusted.given_program import read_pt2

    archive = read_pt2(file)
    if name:
        raise UsageError(
            f"{file} is {kind_of_file(file).words} and contains no {name}: leave out :{name}"
        )
    if archive.kind == "exported_program":
        _check_trust(command, file, arguments)
        return None
    if command not in SHOW_PACKAGES:
        raise UsageError(
            f"{file} is an AOTInductor package: it has compiled code, but fx-explorer {command} "
            "needs a program. Give the program it was made from. Its code is shown by: "
            f"fx-explorer {file}"
        )
    session = place_of_session(file, arguments, until)
    write_package_session(archive, session)
    return session


def _is_to_be_looked_at(file: Path) -> bool:
    """Return whether the content of the file counts: not of a directory, unless it is called as a
    file of ours.
    """
    return not file.is_dir() or (
        file.suffix.lower() in (SUFFIX, ".fxs") and not (file / "__main__.py").is_file()
    )


def _check_trust(command: str, file: Path, arguments: argparse.Namespace) -> None:
    if not hasattr(arguments, "trust") or arguments.trust:
        return  # a command that loads nothing says itself what it takes
    if command == "explore" and is_on_terminal():
        arguments.asks_to_load = file  # the app asks
        return
    raise UsageError(
        f"{file} is an ExportedProgram. {LOADS} If you trust whoever made it, add --trust."
    )


# A log, printed text, a table of kernels or a debug directory in the place of a target: it
# becomes a session.

SHOW_LOGS = (
    "explore", "report", "ask", "check", "diff", "graph", "diagnose", "fix", "modules", "profile",
)  # fmt: skip
"""Commands that accept a log."""

SHOW_MEASURED = {
    "memory_snapshot": ("explore", "report", "ask", "memory"),
    "profile": ("explore", "report", "ask", "profile", "diagnose"),
}
"""Kind of a measurement without a program → commands that accept it."""


SHORT = ("directory", "torch_logs", "provenance", "memory_snapshot", "profile")
"""Kinds of files that are read before anything is shown, without telling the progress."""


def _read_short(kind: str) -> Callable[[Path, Path], None]:
    """Return what reads a file of a kind in ``SHORT`` into a session. Only its own module is
    imported: each takes milliseconds.
    """
    if kind == "directory":
        from fx_explorer.readers.debug_directory import read_directory

        return read_directory
    if kind == "torch_logs":
        from fx_explorer.readers.torch_log_text import read_text

        return read_text
    if kind == "provenance":
        from fx_explorer.readers.provenance_table import read_table

        return read_table
    if kind == "memory_snapshot":
        from fx_explorer.instruments.memory.snapshot_session import read_snapshot_alone

        return read_snapshot_alone
    from fx_explorer.instruments.profile.alone import read_profile_alone

    return read_profile_alone


def given_log(
    command: str, log: Path, arguments: argparse.Namespace, until: contextlib.ExitStack
) -> Path | None:
    """Make a session of a TORCH_TRACE log, and return it; None if the app reads it. Raises
    UsageError for options that need the program or a capture.
    """
    # All of them are not needed for Python files.
    from fx_explorer.command_line.log_progress import LogProgress
    from fx_explorer.readers.torch_trace import read_log
    from fx_explorer.readers.torch_trace.opened import STANDARD_INPUT, TextsOfLog
    from fx_explorer.readers.torch_trace.parsing_ahead import is_long_and_plain
    from fx_explorer.second_process import WorkBeside, is_gain

    kind = "log" if log == STANDARD_INPUT else kind_of_file(log).kind
    shows = SHOW_MEASURED.get(kind, SHOW_LOGS)
    if kind == "tritonparse":
        shows = (*shows, "kernel")
    is_beside_snapshot = command == "memory" and getattr(arguments, "snapshot", None) is not None
    if (command not in shows and not is_beside_snapshot) or _tries(arguments):
        writer = "Triton" if kind == "tritonparse" else "torch"
        shown = getattr(arguments, "given_as", log)
        raise UsageError(
            f"{shown} was written by {writer} about a program, but fx-explorer {command} needs "
            f"the program itself. Look at it with: fx-explorer {shown}"
        )
    if log == STANDARD_INPUT and sys.stdin.isatty():
        raise UsageError(
            "- reads a log that another program writes: zcat trace.log.gz | fx-explorer -"
        )
    output = _output_of_log(log, arguments)
    is_shown = is_on_terminal() or (log == STANDARD_INPUT and sys.stdout.isatty())
    has_profile = (
        getattr(arguments, "profile", None) is not None
    )  # it is joined to all that the log has
    if command == "explore" and not output and is_shown and kind not in SHORT and not has_profile:
        arguments.reads_log = log  # while the app shows what was found
        return None
    session = place_of_session(log, arguments, until)

    def read() -> None:
        with LogProgress(sys.stderr) as progress:
            if kind in SHORT:
                _read_short(kind)(log, session)
            elif kind == "tritonparse":
                from fx_explorer.readers.tritonparse_log import read_tritonparse

                read_tritonparse(log, session, tell=progress.show_progress)
            else:
                read_log(log, session, leave_texts=True, tell=progress.show_progress)

    prepare = getattr(arguments, "prepare", None)
    if kind == "log" and prepare is not None and is_long_and_plain(log) and is_gain():
        with WorkBeside(read, doing="reading the log") as reading:
            prepare(arguments)
            reading.result()
    else:
        read()
    if kind == "log":
        register_texts_elsewhere(session, TextsOfLog(log))
    if origin := getattr(arguments, "origin", None):
        _name_target(session, origin)
    return _saved(session, output, arguments)


def _output_of_log(log: Path, arguments: argparse.Namespace) -> OutputFile | None:
    """Return the file for ``--save``, which can be written; None without the option."""
    save: Path | None = getattr(arguments, "save", None)
    if save is None:
        return None
    output = session_file(save, force=arguments.force, never=(log,))
    output.check()
    return output


def _saved(session: Path, output: OutputFile | None, arguments: argparse.Namespace) -> Path:
    """Return where the session is: the file for ``--save``, to which it is copied, if there is
    one.
    """
    if output is None:
        return session
    copy_session(session, output)
    print_fitted(f"fx-explorer: saved {printable(str(output.path))}", sys.stderr)
    arguments.is_saved = True
    return output.path


def _name_target(session: Path, origin: LogOrigin) -> None:
    """Name what the log was taken out of, in place of the temporary file."""
    with SessionReader(session) as reader:
        target = reader.meta("target") or {}
    with SessionWriter(session) as writer:
        writer.set_meta("target", {**target, **origin._asdict()})


def _tries(arguments: argparse.Namespace) -> bool:
    """Return whether the program would be run to try a fix."""
    return any(
        getattr(arguments, name, None) not in (None, False)
        for name in ("trying", "together", "apart", "apply", "tried")
    )


# The temporary session that stands for a file that is none.


def place_of_session(
    file: Path, arguments: argparse.Namespace, until: contextlib.ExitStack
) -> Path:
    """Return the place of the session for ``file``, derived from the name of ``file``."""
    folder = until.enter_context(temporary_folder())
    session = folder / f"{file.name.partition('.')[0].strip('-') or 'log'}.fxs"
    arguments.packages = {**getattr(arguments, "packages", {}), str(session): file}
    return session
