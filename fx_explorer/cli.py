"""This module is the command line: it picks the command, and turns errors into messages and exit
codes. The commands are in commands/.

Nothing is imported before it is needed: ``--help`` answers in a tenth of a second.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from fx_explorer import __version__
from fx_explorer.command_line.help_text import HelpParser, split_examples
from fx_explorer.command_line.standard_streams import drop_output, make_usable, why_output_is_lost
from fx_explorer.errors import FxExplorerError, UsageError

COMMANDS: dict[str, str] = {
    "explore": "open the app on a target or a saved session (what happens without a command)",
    "tour": "walk through the app on a sample, step by step, in five minutes",
    "capture": "compile a target and save everything as a session, without a screen",
    "run": "run an unmodified script and capture every compilation in it",
    "kernel": (
        "compile a Triton kernel down to PTX and SASS, or AMDGCN, for a GPU that this machine "
        "need not have"
    ),
    "graph": "write a graph as Python, as FX's own table, or as a standalone script",
    "report": "report what happened as JSON, for a target or a session",
    "ask": "answer one question about a session as bounded JSON, for programs and agents",
    "check": "for CI: fail when there are more breaks, recompiles or guards than allowed",
    "bisect": "find the commit or torch release since which a check fails, and what changed",
    "diff": "compare two sessions or targets, or the code of one target for two GPUs",
    "ranks": (
        "say where the ranks of a job agree, and where they first diverge, from their "
        "TORCH_TRACE logs"
    ),
    "diagnose": (
        "say what is wrong, where, what it costs and what to do, worst first; try the remedies"
    ),
    "study": "learn everything of a program in one go, as one page: fixes, results, speed, time",
    "issue": "draft an issue for PyTorch: which backends and settings fail, versions, attachments",
    "fix": "propose changes that avoid graph breaks, try them, write them to your file",
    "bench": (
        "measure whether compiling pays: backends, modes and batch sizes compared with eager mode"
    ),
    "numerics": (
        "compare compiled results with eager mode's, and name the first operator that differs"
    ),
    "ledger": (
        "show where the time of one call goes: guards, kernels, breaks, autograd; line by line "
        "beside eager mode"
    ),
    "profile": (
        "say where the time of a torch.profiler trace went: your lines, modules, kernels, "
        "idle times of the GPU"
    ),
    "modules": (
        "show your modules as a tree: breaks, operations, kernels, time, saved bytes and "
        "compile time of each"
    ),
    "memory": (
        "predict the peak memory of a training step, its parts, and the memory kernel by kernel; "
        "read CUDA memory snapshots"
    ),
    "dynamic": "compare dynamic=None, True, False and mark_dynamic on a target and on other inputs",
    "options": (
        "explain the options of torch.compile: what each does, its value in force, what "
        "another would change"
    ),
    "fusion": (
        "list kernels that Inductor did not fuse, with its reason; measure what fusing them, or "
        "splitting one, brings"
    ),
    "decisions": (
        "list why kernels are as they are: library calls, layouts, loops; try another choice"
    ),
    "backends": "list the backends of torch.compile: what each does, and whether it can be used "
    "here",
    "support": (
        "show which operators of a target's graphs a backend supports, where it splits "
        "them, and why"
    ),
    "history": "list the captures that are kept automatically, to open, compare or forget them",
    "recover": (
        "recover or remove the sessions of captures that were interrupted together with fx-explorer"
    ),
    "mcp": "answer an agent's questions as a server of the Model Context Protocol",
    "skill": "print or install instructions for an agent that uses fx-explorer",
    "keys": "print the table of keys",
    "doctor": "say what works on this machine",
}
"""Name → one line of help. The command's module (``module_of``) is imported when it is chosen."""

OF_INSTRUMENTS: dict[str, str] = {
    "backends": "backends.command",
    "bench": "bench.command",
    "decisions": "decisions.command",
    "diff": "diff.command",
    "dynamic": "dynamic.command",
    "fix": "fixes.command",
    "fusion": "fusion.command",
    "kernel": "kernels.command",
    "ledger": "ledger.command",
    "memory": "memory.command",
    "modules": "modules.command",
    "numerics": "numerics.command",
    "options": "options.command",
    "profile": "profile.command",
    "ranks": "ranks.command",
    "support": "backends.support_command",
}
"""Command → its module in instruments/; that of any other command stands in commands/."""

_BREAKS = (
    "fx-explorer report TARGET --format text lists the graph breaks, fx-explorer fix TARGET "
    "proposes changes that avoid them"
)

SHOWN_BY: dict[str, str] = {
    "break": _BREAKS,
    "breaks": _BREAKS,
    "recompiles": "fx-explorer report TARGET --format text lists the recompiles with their reasons",
    "guards": "fx-explorer TARGET shows the guards: press 5",
    "kernels": (
        "fx-explorer report TARGET --format text lists the kernels; fx-explorer kernel FILE "
        "compiles one"
    ),
    "graphs": "fx-explorer graph TARGET lists the graphs",
}
"""Word that users may take for a command → a sentence on the command for it."""

GROUPS: dict[str, tuple[str, ...]] = {
    "look": (
        "explore",
        "tour",
        "capture",
        "run",
        "report",
        "graph",
        "kernel",
        "fusion",
        "decisions",
        "options",
        "ranks",
    ),
    "improve": ("study", "diagnose", "fix", "issue", "dynamic", "diff", "check", "bisect"),
    "measure": ("bench", "numerics", "ledger", "profile", "memory", "modules"),
    "backends": ("backends", "support"),
    "agents": ("ask", "mcp", "skill"),
    "fx-explorer itself": ("history", "keys", "doctor", "recover"),
}
"""Purpose → names of commands, as the help lists them."""

DESCRIPTION = (
    "See what torch.compile did to your model, in your terminal: graphs, breaks, guards and "
    "kernels, linked."
)

EPILOG = """\
examples:
  fx-explorer tour                      a guided tour, in five minutes
  fx-explorer model.py                  look at a model: breaks, graphs, kernels, linked to your \
lines
  fx-explorer run train.py -- --lr 0.1  record an unmodified script, then: fx-explorer train.fxs
  fx-explorer diagnose model.py --try   what is wrong, and what was tried against it
  fx-explorer fix model.py --try        changes that avoid its graph breaks
  fx-explorer bench model.py            whether compiling pays
  fx-explorer COMMAND --help            examples and options of a command

TARGET is a file (model.py), an object in it (model.py:MyModel), an importable object
(package.module:MyModel), an exported program or an AOTInductor package (model.pt2), or a saved
session (model.fxs).
If a file has the name of a command, write ./NAME.

fx-explorer --no-plugins COMMAND … ignores installed plug-ins; fx-explorer doctor lists them.

fx-explorer --print-completion SHELL prints the completion of bash, zsh or tcsh, fx-explorer
--print-man-page the manual page (docs/start/install.md says where to put them), fx-explorer --spec
all commands and their options as JSON.

exit codes:
  0  fine                               3  your program raised (the session is kept)
  1  a check failed                     4  the worker died or timed out (the session is kept)
  2  bad usage, target not found,       5  the session or .pt2 file cannot
     nothing compiled                      be read, or is something else
  130, 143, 129  ended by Ctrl-C, SIGTERM, a closed terminal (the session is kept)
"""

PRINT_COMPLETION, PRINT_MAN_PAGE = "--print-completion", "--print-man-page"

SPEC = "--spec"

NO_PLUGINS = "--no-plugins"

PRINTED = (PRINT_COMPLETION, PRINT_MAN_PAGE, SPEC)
"""Options of the program itself that print what a shell, ``man`` or another program reads."""

INTERRUPTED = 130
BROKEN_PIPE = 141
"""Exit status after a broken pipe: 128 + the signal's number, as shells report it."""


class Subcommand(Protocol):
    """The two functions that a module of commands/ offers. A third, ``prepare(arguments)``, imports
    what ``run`` needs; it is called while a long log is read in another process.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Make SIGTERM and a closed terminal end the block as Ctrl-C does, so that temporary files are
    removed. An event loop handles signals itself.
    """

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGHUP)
    # What is ignored stays so: nohup, for example.
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is signal.SIG_DFL:
            signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            if before[number] is signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)


GARBAGE_LOOKED_FOR = (50_000, 50, 1000)
"""Number of new objects after which Python's garbage collector runs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. Bad options end in SystemExit(2), as argparse
    does it.
    """
    if argv is None:
        argv = sys.argv[1:]
        make_usable()
        gc.set_threshold(*GARBAGE_LOOKED_FOR)
    words = list(argv)
    _never_fail_to_print()
    try:
        exit_code = _exit_code(words)
        reason = why_output_is_lost()
    except BrokenPipeError:  # whoever reads our output has left
        drop_output()
        return BROKEN_PIPE
    if not reason:
        return exit_code
    drop_output()
    failure_code = _explain(UsageError(f"standard output cannot be written: {reason}"))
    return max(exit_code, failure_code)


def _exit_code(words: list[str]) -> int:
    """Carry out the command line, and explain errors. Lost output is handled by ``main``."""
    try:
        with _ended_by_signals():
            return _dispatch(words)
    except FxExplorerError as error:
        return _explain(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit:
        if why_output_is_lost():
            return UsageError.exit_code
        raise
    except BrokenPipeError:
        raise
    except OSError as error:
        if isinstance(error.filename, str | bytes) and not isinstance(error, _OUR_FAULTS):
            from fx_explorer.outside_file import shown_path

            named = shown_path(os.fsdecode(error.filename))
            return _explain(UsageError(f"{named} cannot be looked at: {error.strerror}"))
        if why_output_is_lost():
            return UsageError.exit_code
        raise


_OUR_FAULTS = (FileNotFoundError, FileExistsError)
"""Errors that are our own fault: missing and existing files were checked before. Other file errors
come from files that the user named.
"""


def _never_fail_to_print() -> None:
    """Print an escape for characters that the terminal's encoding lacks, instead of failing: file
    names and user strings may contain them.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _dispatch(words: list[str]) -> int:
    if words and words[0] == NO_PLUGINS:
        from fx_explorer.plugin_loading import use_no_plugins

        use_no_plugins(NO_PLUGINS)
        words = words[1:]
    if not words:
        _top_parser().print_help(sys.stderr)
        return 2
    if words[0] == "history":
        from fx_explorer.command_line.history_names import command_of

        words = command_of(words[1:]) or words
    if words[0] in COMMANDS:
        return _run(words[0], words[1:])
    if words[0] in ("-h", "--help"):
        _top_parser().print_help()
        return 0
    if words[0] == "help":
        return _help(words[1:])
    if words[0] == "--version":
        print(f"fx-explorer {__version__}")
        return 0
    if words[0].split("=", 1)[0] in PRINTED:
        return _print_for_programs(words)
    _refuse_misspelt_command(words[0])
    return _run("explore", words)


def _print_for_programs(words: list[str]) -> int:
    """Print the script with which a shell completes words, the manual page, or all commands as
    data.
    """
    option, _, value = words[0].partition("=")
    values = [value] if value else words[1:]
    if option == PRINT_COMPLETION:
        from fx_explorer.command_line.shell_completion import SHELLS, completion_script

        if len(values) != 1:
            raise UsageError(f"{PRINT_COMPLETION} takes one shell: {', '.join(SHELLS)}")
        sys.stdout.write(completion_script(values[0], _every_command(), "explore"))
        return 0
    if values:
        raise UsageError(f"{option} takes nothing after it")
    if option == SPEC:
        from fx_explorer.command_line.specification import specification

        sys.stdout.write(specification(GROUPS, _every_command()))
        return 0
    from fx_explorer.command_line.man_page import man_page

    sys.stdout.write(man_page(DESCRIPTION, EPILOG, GROUPS, _every_command()))
    return 0


def _every_command() -> dict[str, tuple[str, HelpParser]]:
    """Return each command's line of help, and its parser."""
    return {name: (text, _parser(name, _imported(name))) for name, text in COMMANDS.items()}


def _help(words: list[str]) -> int:
    """Show the help of a command, or of all, as ``COMMAND --help`` does."""
    if words and words[0] in COMMANDS:
        return _run(words[0], ["--help"])
    _top_parser().print_help()
    return 0


def module_of(name: str) -> str:
    """Return the name of the module of a command."""
    if name in OF_INSTRUMENTS:
        return f"fx_explorer.instruments.{OF_INSTRUMENTS[name]}"
    return f"fx_explorer.commands.{name}"


def _run(name: str, words: list[str]) -> int:
    """Parse the words of a command and run it. A fault that a damaged session explains is raised as
    NotASessionError.
    """
    command = _imported(name)
    parser = _parser(name, command)
    # argparse loses what follows "--" when options stand between it and the last positional
    # argument.
    if "--" in words:
        own, script = (words[: words.index("--")], words[words.index("--") + 1 :])
    else:
        own, script = (words, [])
    if script and _lacks_target(parser, own):
        own, script = [*own, "--", script[0]], script[1:]  # a file whose name begins with a dash
    arguments = parser.parse_args(own)
    arguments.given = _given_options(parser, own)
    arguments.prepare = getattr(command, "prepare", None)
    if script:
        if not hasattr(arguments, "arguments"):
            parser.error(f"only fx-explorer run takes arguments for a script after --, not {name}")
        arguments.arguments = [*arguments.arguments, *script]
    try:
        with contextlib.ExitStack() as until:
            if getattr(arguments, "target", None):
                from fx_explorer.command_line.given_files import resolve_files

                resolve_files(name, arguments, until)
            return command.run(arguments)
    except (FxExplorerError, OSError):
        raise
    except Exception as error:
        _explain_session(arguments, error)
        raise


def _parser(name: str, command: Subcommand) -> HelpParser:
    """Return the parser of a command."""
    prog = "fx-explorer" if name == "explore" else f"fx-explorer {name}"
    parser = HelpParser(
        prog,
        description=_sentence(COMMANDS[name]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser


def _imported(name: str) -> Subcommand:
    """Import the module of a command, without garbage collection meanwhile, which would find
    nothing and take a tenth of the time.
    """
    gc.disable()
    try:
        command: Subcommand = importlib.import_module(module_of(name))
    finally:
        gc.enable()
    return command


def _given_options(parser: argparse.ArgumentParser, own: list[str]) -> frozenset[str]:
    """Return the names of the given options, even if a value is the default. Afterwards the parser
    has no defaults.
    """
    parser._defaults.clear()
    for action in parser._actions:
        action.default = argparse.SUPPRESS
        if not action.option_strings and not action.choices:
            action.type = None  # argparse converts the default of one that may be left out, too
    return frozenset(vars(parser.parse_args(own)))


def _explain_session(arguments: argparse.Namespace, error: Exception) -> None:
    """Raise NotASessionError when the session that was given is why the command failed."""
    from fx_explorer.command_line.given_session import is_session
    from fx_explorer.session.damage import why_unreadable

    for name in (getattr(arguments, "target", None), getattr(arguments, "other", None)):
        if name and is_session(name) and (unreadable := why_unreadable(Path(name), error)):
            raise unreadable from error


def _lacks_target(parser: argparse.ArgumentParser, own: list[str]) -> bool:
    """Return whether the words before ``--`` do not name the target that the command needs."""
    needed = [
        action for action in parser._actions if not action.option_strings and action.nargs is None
    ]
    for action in needed:
        action.required, action.nargs = False, "?"
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            namespace, _ = parser.parse_known_args(own)
        return any(getattr(namespace, action.dest) is None for action in needed)
    except SystemExit:  # the words are wrong in another way, which is told when they are read
        return False
    finally:
        for action in needed:
            action.required, action.nargs = True, None


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:] + "."


def _top_parser() -> argparse.ArgumentParser:
    groups = "\n\n".join(f"{title}:\n{_listed(names)}" for title, names in GROUPS.items())
    examples, rest = split_examples(EPILOG)
    return HelpParser(
        "fx-explorer",
        usage="fx-explorer TARGET [OPTIONS]\n       fx-explorer COMMAND [OPTIONS]\n       "
        "fx-explorer --version",
        description=DESCRIPTION,
        epilog=f"{examples}\n\n{groups}\n\n{rest}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )


def _listed(names: Sequence[str]) -> str:
    return "\n".join(f"  {name:<10} {COMMANDS[name]}" for name in names)


def _refuse_misspelt_command(word: str) -> None:
    """Refuse a word such as ``reprot``, which is not a target, before a less helpful message is
    printed.
    """
    if not word.isalpha() or os.path.exists(word):
        return
    if word in SHOWN_BY:
        raise UsageError(f"there is no command and no file called {word!r}; {SHOWN_BY[word]}")
    import difflib  # only here: 4 ms that --help does not need

    close = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.75)
    if close:
        raise UsageError(
            f"there is no command and no file called {word!r}; did you mean: fx-explorer {close[0]}"
        )


def _explain(error: FxExplorerError) -> int:
    from fx_explorer.highlight import printable_text
    from fx_explorer.output.terminal import print_fitted

    print_fitted(f"fx-explorer: {printable_text(str(error) or type(error).__name__)}", sys.stderr)
    return error.exit_code
