"""A script that prints other results with Inductor's code than in eager mode. Its graphs alone are
right: a capture runs them with PyTorch's operators, and prints what eager mode prints. Another
backend says whether AOTAutograd or Inductor makes the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.words import counted
from fx_explorer.findings.cache_faults import run_built
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.findings.without_compile import (
    OF_TIME,
    SHOWN_LINES,
    ProgramRun,
    differing_lines,
    has_no_fraction,
    is_far_off,
    run_program,
)
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.trials import TrialWorker, straight_through

AOT_EAGER = "aot_eager"

SHOWN_WRITES = 3


@dataclass(frozen=True, slots=True)
class BuiltResults:
    """What a program prints otherwise when it runs the code that was built."""

    differing: tuple[tuple[str, str], ...]
    """(line, line of eager mode)."""
    is_right_with_aot_eager: bool
    is_right_with_casts: bool = False
    """Whether Inductor's code prints what eager mode does once it rounds as often as that."""


async def compare_built(
    request: CaptureRequest,
    built: ProgramRun,
    eager: tuple[ProgramRun, ProgramRun],
    worker: TrialWorker,
    *,
    is_low_precision: bool = False,
) -> BuiltResults | None:
    """Compare what a built program prints with two runs in eager mode, and where it differs run it
    with ``aot_eager``, and if it has tensors of low precision with the casts of eager mode. None
    where nothing differs.
    """
    differing = tuple(printed_otherwise(built, eager))
    if _is_about_compiling(differing):
        # A line such as "compiled 3.1" is a result, or a time: a second run tells them apart.
        again = await run_built(request, worker, use_caches=False)
        printed = set(again.printed)
        differing = tuple(
            (line, other)
            for line, other in differing
            if not _COMPILING.search(line) or line in printed
        )
    if not differing:
        return None
    settings = {**request.settings, "compile.backend": AOT_EAGER}
    other = await run_program(straight_through(request, settings=settings), worker)
    is_right = (
        other is not None
        and other.ended == eager[0].ended
        and not list(printed_otherwise(other, eager))
    )
    rounds_less = False
    if is_right and is_low_precision:
        settings = {**request.settings, CASTS: True}
        cast = await run_built(replace(request, settings=settings), worker, use_caches=False)
        as_it_ran = ProgramRun(cast.ended, cast.printed)
        rounds_less = cast.is_known and cast.ended == eager[0].ended
        rounds_less = rounds_less and not list(printed_otherwise(as_it_ran, eager))
    return BuiltResults(differing, is_right, rounds_less)


CASTS = "inductor.emulate_precision_casts"

LOW_PRECISION = ("f16", "bf16")
"""Dtypes of nodes that eager mode rounds to after each operation."""


def has_low_precision(reader: SessionReader) -> bool:
    """Return whether a graph of Dynamo's computes with tensors of float16 or bfloat16."""
    for graph in reader.rows(model.Graph, stage="dynamo"):
        if graph.call_count > MOST_CALLS:
            continue
        nodes = reader.rows(model.Node, graph=graph.id)
        if any(node.dtype in LOW_PRECISION for node in nodes):
            return True
    return False


_COMPILING = re.compile(r"\bcompil", re.I)

_COUNTING = re.compile(
    r"\b(?:re)?compil(?:es|ations?)\b|\bgraphs?\b|\bframes?\b"
    r"|\bcompil\w*?[\s_]\s{0,8}(?:counts?|times|functions?)\b"
    r"|\b(?:counts?|number|times)\b.{0,200}\bcompil",
    re.I,
)
"""Matches lines that say how often something was compiled."""


def printed_otherwise(
    run: ProgramRun, eager: tuple[ProgramRun, ProgramRun]
) -> Iterator[tuple[str, str]]:
    """Yield (line, line of eager mode) where a run prints otherwise; without the lines that count
    compilations. “compiled: [1, 2]” counts none.
    """
    for line, other in differing_lines(run, *eager, left_out=OF_TIME):
        if not (_COUNTING.search(line) and has_no_fraction(line)):
            yield line, other


def _is_about_compiling(differing: Sequence[tuple[str, str]]) -> bool:
    return any(_COMPILING.search(line) for line, _ in differing)


VIEWS = (
    "unfold", "as_strided", "diagonal", "select", "narrow", "getitem", "chunk", "split", "unbind",
    "t", "transpose", "permute", "movedim", "swapaxes", "view", "view_as", "view_as_real",
    "reshape", "flatten", "squeeze", "unsqueeze", "expand", "expand_as", "real", "imag", "detach",
)  # fmt: skip
"""Last parts of the names of operators whose result may share memory with their input."""


def writes_into_views(reader: SessionReader) -> tuple[str, ...]:
    """Return, as sentences, where Dynamo's graphs write into views, each place once: what
    AOTAutograd replaces by operators without a write.
    """
    sentences: dict[str, None] = {}
    lines = SourceLines(reader)
    for graph in reader.rows(model.Graph, stage="dynamo"):
        if graph.call_count > MOST_CALLS:
            continue
        nodes = {node.name: node for node in reader.rows(model.Node, graph=graph.id)}
        for node in nodes.values():
            view = nodes.get(node.arguments.partition(",")[0].strip())
            if _writes(node) and view and _last_part(view.target) in VIEWS:
                sentences[_write_into_view(reader, lines, node, view)] = None
    return tuple(sentences)


MOST_CALLS = 20_000
"""Calls of a graph above which it is not looked at."""


def _last_part(target: str) -> str:
    return target.rpartition(".")[2]


def _writes(node: model.Node) -> bool:
    name = _last_part(node.target)
    is_in_place = name.endswith("_") and not name.endswith("__")
    return node.op.startswith("call_") and (is_in_place or name in ("setitem", "iadd", "imul"))


def _write_into_view(
    reader: SessionReader, lines: SourceLines, node: model.Node, view: model.Node
) -> str:
    write, made = _last_part(node.target), _last_part(view.target)
    if not node.file:
        return f"{write} writes into the view that {made} makes."
    path = reader.get(model.SourceFile, node.file).path
    code = lines.code(path, node.line)
    return f"{write} at {in_file(path, node.line)} writes into the view that {made} makes: {code}"


def built_findings(compared: BuiltResults, writes: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield that built code prints other results, with the stage that makes the difference.
    ``writes`` are those into views.
    """
    if compared.is_right_with_casts:
        yield _rounds_less(compared)
        return
    stage = "Inductor" if compared.is_right_with_aot_eager else "AOTAutograd"
    is_far = any(is_far_off(line, other) for line, other in compared.differing)
    evidence = _differences(compared)
    if not compared.is_right_with_aot_eager:
        evidence += writes[:SHOWN_WRITES]
    yield Finding(
        kind="wrong result",
        text=(
            f"The compiled program prints other results than eager mode: {stage} causes the "
            "difference."
        ),
        urgency="wrong",
        severity="problem" if is_far else "notice",
        topic="call",
        view="console",
        evidence=tuple(evidence),
        explanation=_explanation(compared, is_far=is_far),
        remedies=tuple(_remedies(compared, writes)),
    )


def _differences(compared: BuiltResults) -> list[str]:
    """Return the lines that differ, the first few of them."""
    evidence = [
        f"The compiled program prints “{line}”, eager mode “{other}”."
        for line, other in compared.differing[:SHOWN_LINES]
    ]
    more = len(compared.differing) - SHOWN_LINES
    if more > 0:
        evidence.append(f"{counted(more, 'more line')} {'differs' if more == 1 else 'differ'}.")
    return evidence


def _rounds_less(compared: BuiltResults) -> Finding:
    """Return that results differ by the rounding between operations, which is no fault."""
    return Finding(
        kind="wrong result",
        text=(
            "The compiled program prints other results than eager mode, because Inductor rounds "
            "less often; this is no bug."
        ),
        urgency="minor",
        severity="notice",
        topic="call",
        view="console",
        evidence=tuple(_differences(compared)),
        explanation=(
            "Eager mode rounds to float16 or bfloat16 after each operation. An Inductor kernel "
            "computes several operations in float32 and rounds at the end, which is usually more "
            "exact."
        ),
        remedies=(
            Remedy(
                "Set torch._inductor.config.emulate_precision_casts = True if results must equal "
                "eager mode: Inductor then rounds like eager mode.",
                state="tried",
                result="it prints the same as eager mode.",
            ),
        ),
    )


def _explanation(compared: BuiltResults, *, is_far: bool) -> str:
    if compared.is_right_with_aot_eager:
        text = (
            'With backend="aot_eager" it prints the same as eager mode: the graphs are right, so '
            "the error is in the code that Inductor generates."
        )
    else:
        text = (
            "Dynamo's graphs, run with PyTorch's operators, print the same as eager mode, but "
            'backend="aot_eager" does not: AOTAutograd changes their results, most likely at '
            "writes into tensors and their views."
        )
    if not is_far:
        text += " Rounding alone can also cause such a difference over many steps."
    return f"{text} {FIRST_OPERATOR}"


FIRST_OPERATOR = (
    "fx-explorer numerics FILE.py:FUNCTION --inputs EXPRESSION, with the function that you "
    "compile, finds the first operator that differs."
)


def _remedies(compared: BuiltResults, writes: Sequence[str]) -> Iterator[Remedy]:
    backend, result = (
        "eager",
        ("the capture ran its graphs with this backend, and printed the same as eager mode."),
    )
    if compared.is_right_with_aot_eager:
        backend, result = AOT_EAGER, "it prints the same as eager mode."
    yield Remedy(
        f'Use backend="{backend}" until the bug is fixed: it fuses nothing.',
        state="tried",
        result=result,
    )
    if writes and not compared.is_right_with_aot_eager:
        yield Remedy("Write into the tensor itself, with its index, instead of the view.")
