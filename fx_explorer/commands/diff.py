"""``fx-explorer diff A B``: two sessions or targets compared; ``diff TARGET --gpu A --gpu B``: one
target for two GPUs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fx_explorer.analysis.caches.sentences import difference_sentences
from fx_explorer.analysis.comparing.figure import DIFFERS
from fx_explorer.analysis.comparing.kernel_pairs import IN_WORDS, KernelPair, code_diff, kernel_pairs, pair_counts
from fx_explorer.analysis.comparing.kernel_resources import configuration_pairs, estimated, resources_in_words
from fx_explorer.analysis.comparing.published_pairs import StagePair, stage_pairs
from fx_explorer.analysis.comparing.two_sessions import COMPILE_TIME, breaks_of_one, figures_of_both
from fx_explorer.analysis.diff import CUT_IN_WORDS, difference_in_words
from fx_explorer.analysis.words import counted
from fx_explorer.command_line.build_first import add_kernels_argument, with_kernel_builds
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import is_session, refuse_gpu
from fx_explorer.command_line.help.parser import is_read_in_colour
from fx_explorer.command_line.shown_names import shown_name
from fx_explorer.command_line.unused_options import refuse_capture_options
from fx_explorer.errors import ProgramError, UsageError, WorkerError
from fx_explorer.gpus import find_gpu
from fx_explorer.highlight import printable
from fx_explorer.report.two_sessions import two_sessions_report
from fx_explorer.session import SessionReader

EPILOG = """\
examples:
  fx-explorer diff before.fxs after.fxs                  what a change did
  fx-explorer diff before.fxs model.py                   against the file as it is now
  fx-explorer diff model.py --gpu a100 --gpu h100        one target for two GPUs
  fx-explorer diff before.fxs after.fxs --kernel gelu    the code of one kernel, line by line

A and B are sessions (file.fxs) or targets, which are captured first; one target with --gpu twice is captured for either GPU.
Kernels are paired by the operations they compute. Nothing is run on a virtual GPU: run times are not compared.
"""


DIFFERING = "\x1b[33m{}\x1b[0m"
"""A row of figures that differ, on a terminal: yellow, beside its sign."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("target", metavar="A", help="a session, or a target")
    parser.add_argument("other", metavar="B", nargs="?", help="what it is compared with; not needed with two --gpu")
    parser.add_argument(
        "--kernel", metavar="NAME", default="", help="show the code of this kernel, line by line, and nothing else"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text", help="json: the same facts (default: text)")
    add_kernels_argument(parser)
    add_capture_arguments(parser, several_gpus=True)


def run(arguments: argparse.Namespace) -> int:
    # In this order, so that the readers are closed before the folder of their files goes.
    with tempfile.TemporaryDirectory(prefix="fx-explorer-") as folder, contextlib.ExitStack() as opened:
        left, right = (
            opened.enter_context(SessionReader(_session(side, Path(folder) / f"{i}.fxs")))
            for i, side in enumerate(_sides(arguments))
        )
        left, right = (_built(reader, arguments, opened) for reader in (left, right))
        names = _names(arguments)
        if arguments.format == "json":
            print(json.dumps(two_sessions_report(left, right, names), indent=2))
            return 0
        in_colour = is_read_in_colour(sys.stdout)
        for line in _code(left, right, arguments.kernel) if arguments.kernel else text_of_both(left, right, names):
            print(DIFFERING.format(printable(line)) if in_colour and line.endswith("≠") else printable(line))
    return 0


def _sides(arguments: argparse.Namespace) -> list[argparse.Namespace]:
    """Return what either side is captured from. Raises UsageError when it takes more, or less, to
    make two.
    """
    gpus: list[str] = arguments.gpu
    for gpu in gpus:
        find_gpu(gpu)  # before one side is captured
    if arguments.other and len(gpus) <= 1:
        sides = [_with(arguments, target, *gpus) for target in (arguments.target, arguments.other)]
        if all(is_session(side.target) for side in sides):
            refuse_gpu(sides[0])
            refuse_capture_options(sides[0])
        return sides
    if arguments.other is None and len(gpus) == 2:
        if is_session(arguments.target):
            refuse_gpu(_with(arguments, arguments.target, gpus[0]))
        return [_with(arguments, arguments.target, gpu) for gpu in gpus]
    raise UsageError("diff compares two: fx-explorer diff A B, or one target for two GPUs: diff TARGET --gpu a100 --gpu h100")


def _with(arguments: argparse.Namespace, target: str, gpu: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(arguments), "target": target, "gpu": gpu})


def _names(arguments: argparse.Namespace) -> tuple[str, str]:
    if arguments.other:
        return shown_name(arguments, arguments.target), shown_name(arguments, arguments.other)
    return str(arguments.gpu[0]), str(arguments.gpu[1])


def _session(side: argparse.Namespace, path: Path) -> Path:
    """Return the session that is given, or one captured now. Raises ProgramError or WorkerError
    when it did not come to its end.
    """
    if is_session(side.target):
        return Path(side.target)
    from fx_explorer.command_line.capture_first import capture_first

    print(f"capturing {side.target}" + (f" for {side.gpu}" if side.gpu else ""), file=sys.stderr)
    ended = asyncio.run(capture_first(side, lambda _: None, path))
    if ended:
        error = ProgramError if ended == ProgramError.exit_code else WorkerError
        raise error(f"{side.target} could not be captured to its end, so there is nothing to compare it with")
    return path


def _built(reader: SessionReader, arguments: argparse.Namespace, opened: contextlib.ExitStack) -> SessionReader:
    """Return the session with the kernels of ``--kernels`` built; a copy of it where it cannot be
    written to.
    """
    found = [reader]
    with_kernel_builds(arguments, lambda built: found.append(opened.enter_context(SessionReader(built.path))))(reader)
    return found[-1]


def text_of_both(left: SessionReader, right: SessionReader, names: tuple[str, str]) -> Iterator[str]:
    figures = figures_of_both(left, right)
    width = max(24, *(len(figure.what) + 2 for figure in figures))
    column = max(16, *(len(name) + 2 for name in names))
    yield f"{'':<{width}}{names[0]:>{column}}{names[1]:>{column}}"
    for figure in figures:
        mark = " " if figure.what == COMPILE_TIME else "≠"
        words = "" if figure.change == DIFFERS else figure.change
        change = f"  {mark} {words}".rstrip() if figure.differs else ""
        yield f"{figure.what:<{width}}{figure.left:>{column}}{figure.right:>{column}}{change}"
    for name, one, other in ((names[0], left, right), (names[1], right, left)):
        for found in breaks_of_one(one, other):
            yield f"only {name} breaks at {Path(found.file).name}:{found.line}: {found.in_words}"
    yield from _published(stage_pairs(left, right))
    yield from _caches(list(difference_sentences(left, right, names)))
    yield ""
    pairs = kernel_pairs(left, right)
    yield from _kernels(pairs)
    yield from _resources(left, right, pairs, names)


def _caches(sentences: list[str]) -> Iterator[str]:
    """Yield why torch's caches answered one side and not the other."""
    if sentences:
        yield ""
        yield "torch's compile caches:"
        yield from (f"  {sentence}" for sentence in sentences)


def _published(pairs: list[StagePair]) -> Iterator[str]:
    """Yield what differs in the stages that backends of the user's own published."""
    if not pairs:
        return
    yield ""
    yield "stages published by the backend, by their names:"
    for pair in pairs:
        yield f"  [{pair.compilation}] {pair.direction:<9} {pair.name}: {pair.difference}"


def _kernels(pairs: list[KernelPair]) -> Iterator[str]:
    counts = ", ".join(f"{count:,} {IN_WORDS[kind]}" for kind, count in pair_counts(pairs).items() if count)
    yield f"kernels, by what they compute: {counts or 'none'}"
    for pair in pairs:
        if pair.difference not in ("same", "device"):
            is_code = pair.difference == "code" and pair.changed_lines
            said = f"{counted(pair.changed_lines, 'changed line')}" if is_code else IN_WORDS[pair.difference]
            if pair.is_library_call and pair.difference == "code":
                said = "another library call"
            if pair.is_cut:
                said += f"; {CUT_IN_WORDS}"
            yield f"  [{pair.compilation}] {pair.direction:<9} {pair.name}: {said}"


def _resources(left: SessionReader, right: SessionReader, pairs: list[KernelPair], names: tuple[str, str]) -> Iterator[str]:
    """Yield what the data sheets let expect, kernel by kernel, and what was built for either."""
    rows = [
        (pair, [estimated(r, u.kernel if u else None) for r, u in ((left, pair.left), (right, pair.right))]) for pair in pairs
    ]
    if not any(any(said) for _, said in rows):
        return
    yield ""
    yield f"a call of each on either GPU, an estimate by its data sheet ({names[0]} · {names[1]}):"
    for pair, said in rows:
        if any(said):
            yield f"  [{pair.compilation}] {pair.direction:<9} {pair.name}"
            yield "      " + "  ·  ".join(words or "not known" for words in said)
        for one in configuration_pairs(left, right, pair):
            yield f"      {one.name}: {resources_in_words(one.left)}  ·  {resources_in_words(one.right)}"


def _code(left: SessionReader, right: SessionReader, name: str) -> Iterator[str]:
    """Yield the kernel's code with what differs marked. Raises UsageError for a name that neither
    session has.
    """
    pairs = [p for p in kernel_pairs(left, right) if name in (side.kernel.name for side in (p.left, p.right) if side)]
    if not pairs:
        raise UsageError(f"neither session has a kernel called {name!r}; without --kernel, diff lists those that differ")
    for pair in pairs:
        rows = code_diff(left, right, pair)
        yield f"[{pair.compilation}] {pair.direction} {pair.name}: {difference_in_words(rows, 'line')}"
        for row in rows:
            if row.before is not None and row.sign != "+":
                yield f"{'-' if row.sign == '~' else row.sign} {row.before}"
            if row.after is not None and row.sign in "+~":
                yield f"+ {row.after}"
