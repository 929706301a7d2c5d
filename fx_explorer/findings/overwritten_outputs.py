"""Results of CUDA graphs that the program reads after a later call has overwritten them: with
mode="reduce-overhead" a result lies in memory that the next call uses again. torch raises an error
at the line that reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.known_errors import GRADIENT_OVERWRITTEN, KEEP_GRADIENTS
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.findings.tracebacks import TracebackFrame, parse_frames
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_TRACEBACK
from fx_explorer.session.file_names import in_file

_OVERWRITTEN = re.compile(
    r"accessing (?P<gradient>gradient )?tensor output of CUDAGraphs that has been overwritten by a "
    r"subsequent run(?:[^\n]{0,40}?Stack trace: ?)?"
)
"""Matches part of torch's message (torch/_inductor/cudagraph_trees.py, format_dealloc_msg). The
stack behind it is that of the line that computed the result.
"""

_ADVICE = re.compile(r"\. (?:To prevent overwriting|This can happen with)")
"""Matches the beginning of torch's advice, on the last line of that stack."""

REMEDIES = (
    Remedy(
        "Clone what you keep, outside of the compiled function: output = step(x).clone(). That "
        "copies the result once a call."
    ),
    Remedy(
        "If each call is a separate step whose earlier results are no longer read, call "
        "torch.compiler.cudagraph_mark_step_begin() before it. It only marks a new step: earlier "
        "results are not kept."
    ),
)


def find_overwritten_outputs(reader: SessionReader) -> Iterator[Finding]:
    """Yield that the program ended because it read a result that a later call had overwritten."""
    for failure in reader.rows(model.Failure, where="program"):
        message = _OVERWRITTEN.search(failure.message)
        if message:
            text = reader.text(failure.text) if failure.text else failure.message
            finding = _overwritten(reader, text[-MAX_TRACEBACK:])
            yield _of_a_gradient(finding) if message["gradient"] else finding
            return


def _of_a_gradient(finding: Finding) -> Finding:
    """Return the finding for a gradient, which a clone does not help: torch itself keeps it."""
    remedies = tuple(Remedy(text) for text in KEEP_GRADIENTS)
    return replace(finding, explanation=GRADIENT_OVERWRITTEN, remedies=remedies)


def _overwritten(reader: SessionReader, traceback: str) -> Finding:
    message = _OVERWRITTEN.search(traceback)
    reading, computing = traceback, ""
    if message:
        reading = traceback[: traceback.rfind("\n", 0, message.start()) + 1]
        computing = _ADVICE.split(traceback[message.end() :], maxsplit=1)[0]
    lines = SourceLines(reader)
    read = _of_users(lines, parse_frames(reading))
    computed = _of_users(lines, parse_frames(computing))
    where = in_file(read.file, read.line) if read else "The program"
    result = f"the result of {in_file(computed.file, computed.line)}" if computed else "a result"
    place: Place | None = place_of_path(reader, read.file, read.line) if read else None
    evidence = []
    if read and read.code:
        evidence.append(f"It is read here: {read.code}")
    if computed and computed.code:
        evidence.append(f"It was computed here: {computed.code}")
    return Finding(
        kind="overwritten output",
        text=(
            f"{where} reads {result} after a later call overwrote it: it is the output of a CUDA "
            "graph."
        ),
        urgency="failed",
        topic="run",
        place=place,
        view="console",
        evidence=tuple(evidence),
        explanation=(
            "A CUDA graph writes its results to the same memory in each call. torch notices that "
            "the program still reads the result of an earlier call, and raises an error. In the "
            "default mode, without CUDA graphs, each call has separate results."
        ),
        remedies=REMEDIES,
    )


def _of_users(lines: SourceLines, frames: list[TracebackFrame]) -> TracebackFrame | None:
    """Return the innermost frame in a file of the user's, else the innermost frame."""
    for frame in reversed(frames):
        if lines.is_users(frame.file):
            return frame
    return frames[-1] if frames else None
