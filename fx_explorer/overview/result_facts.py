"""These facts of the overview are about the result of a compile (its kernels, what the forward
keeps for the backward, how long compiling took), and about what instruments found: a bench, a
ledger, a profile, backends other than Inductor, other front ends, and torch's caches.

Most sessions hold nothing of instruments, so the modules that know more are imported where there is
something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from fx_explorer import model
from fx_explorer.analysis.documents import Place, document_of, place_of_path
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.function_versions import over_versions
from fx_explorer.analysis.naming import SizeNames
from fx_explorer.analysis.published import backend_summaries
from fx_explorer.analysis.whole_session import (
    is_log,
    is_profile_alone,
    is_tritonparse,
    not_in_text,
)
from fx_explorer.analysis.words import (
    counted,
    listed,
    seconds,
    share,
    size,
    tensor,
)
from fx_explorer.instruments.compile_time.caches import cache_answers
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.instruments.kernels.counts import DirectionKernels, kernels_by_direction
from fx_explorer.instruments.kernels.launched import measured_choices
from fx_explorer.instruments.memory.saved_values import (
    SavedValue,
    biggest_saved_value,
    computed_total,
    kept_bytes,
    saved_total,
    saving_compilations,
    user_names,
)
from fx_explorer.instruments.numerics.left_out_rounding import REMEDY, left_out_rounding
from fx_explorer.model.study import META, parts_from_json
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.kernels import unlinked_kernels

if TYPE_CHECKING:
    from fx_explorer.instruments.front_ends.answers import Seen


KERNEL_LINES = "Your lines by kernel"
"""Title of torch's record of stacks in a log (readers/torch_trace/other_records.py)."""

CHOICES_SHOWN = 5
"""Maximum number of choices of autotuning that are listed one by one."""


def kernel_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how many kernels were generated for each direction, what they do not round, which
    choices autotuning made, and why there are no kernels.
    """
    directions = kernels_by_direction(reader)
    # Those of a log of tritonparse are above, with their configurations.
    if not is_tritonparse(reader):
        for direction_kernels in directions:
            text = _kernels_text(direction_kernels)
            detail = _summed(reader, direction_kernels.compilations)
            yield Fact("kernels", "good", text, detail, view="kernels")
    rounding = left_out_rounding(reader)
    if rounding:
        yield Fact("kernels", "good", rounding.description, REMEDY, view="console")
    for choice in islice(measured_choices(reader), CHOICES_SHOWN):
        text = f"{choice.description}."
        yield Fact("kernels", "good", text, choice.best_description, view="kernels")
    unlinked = unlinked_kernels(reader, "cpp") if is_log(reader) else 0
    if unlinked:
        text = (
            f"The log does not link its {counted(unlinked, 'C++ kernel')} to operations: torch "
            "wrote no table of what they compute."
        )
        yield Fact("kernels", "notice", text, _way_to_a_table(reader))
    is_known = reader.meta("outcome") is not None and "kernels" not in not_in_text(reader)
    if not directions and is_known:
        yield from _why_no_kernels(reader)


def _way_to_a_table(reader: SessionReader) -> str:
    """Say how torch writes which nodes kernels compute. It writes the lines of a backward's, too,
    and no table.
    """
    listings = reader.rows(model.Artifact, kind="listing")
    if any(row.title.startswith(KERNEL_LINES) for row in listings):
        return (
            "torch writes no such table of a backward; your lines are in the text "
            f"“{KERNEL_LINES}”."
        )
    return "INDUCTOR_PROVENANCE=1 makes it write one."


def _why_no_kernels(reader: SessionReader) -> Iterator[Fact]:
    reasons = set()
    for compilation in reader.rows(model.Compilation):
        reason = (compilation.missing_stages or {}).get("kernel", "")
        if reason:
            reasons.add((reason, compilation.status == "failed"))
    for reason, has_failed in sorted(reasons):
        severity: Severity = "notice" if has_failed else "good"
        text = f"No kernels were generated: {reason}."
        yield Fact("kernels", severity, text, view="kernels")


def _summed(reader: SessionReader, compilations: Iterable[int]) -> str:
    """Say that a number does not belong to a single call; empty where it does."""
    versions = over_versions(reader, compilations)
    if not versions:
        return ""
    return f"a sum {versions}, of which a call runs one"


def _kernels_text(direction_kernels: DirectionKernels) -> str:
    parts = []
    if direction_kernels.generated:
        if direction_kernels.operations_fused:
            fused = f" doing {counted(direction_kernels.operations_fused, 'operation')}"
        else:
            fused = ""
        parts.append(f"{counted(direction_kernels.generated, 'generated kernel')}{fused}")
    if direction_kernels.library_calls:
        parts.append(
            f"{counted(direction_kernels.library_calls, 'library call')} "
            f"({listed(map(plain_library, direction_kernels.libraries))})"
        )
    parts += [counted(number, kind) for kind, number in Counter(direction_kernels.control).items()]
    return f"{(direction_kernels.direction or 'all').capitalize()}: {listed(parts, len(parts))}."


def plain_library(name: str) -> str:
    """Return ``addmm`` for ``extern_kernels.addmm``, and ``convolution`` for
    ``torch.ops.aten.convolution.default``.
    """
    return (
        name.removeprefix("extern_kernels.")
        .removeprefix("torch.ops.")
        .removeprefix("aten.")
        .removesuffix(".default")
    )


def memory_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how much the forward keeps for the backward; nothing where it keeps nothing."""
    every = saved_total(reader)
    computed = computed_total(reader)
    copies = saved_total(reader, "copy")
    if not every.count:
        return
    biggest = biggest_saved_value(reader)
    details = [f"biggest: {_biggest(reader, biggest)}"]
    summed = _summed(reader, saving_compilations(reader))
    if summed:
        details.insert(0, summed)
    if copies.count:
        details.append(
            f"{size(copies.size_bytes)} of it are copies of parameters or inputs, in another layout"
        )
    if every.unknown_sizes:
        details.append(f"{counted(every.unknown_sizes, 'size')} not known")
    kept = "nothing it computed"
    if computed.count:
        kept = f"{size(computed.size_bytes)} it computed ({counted(computed.count, 'tensor')})"
    others = every.size_bytes - computed.size_bytes
    # With a graph break a graph's input may be what an earlier graph computed.
    which = "parameters and inputs, which exist anyway"
    if reader.has(model.GraphBreak):
        which = "parameters and inputs of the graphs"
    text = f"For the backward the forward saves {kept}"
    text += f", and {size(others)} of {which}." if others else "."
    yield Fact("memory", "good", text, "; ".join(details), biggest.place, "memory")


def _biggest(reader: SessionReader, value: SavedValue) -> str:
    """Return ``fc1.weight f32[64, 32] 8.2 kB``; for a computed value, the line and module that
    computed it.
    """
    saved = value.saved
    shape = SizeNames(reader).in_text(saved.compilation, tensor(saved.dtype, saved.shape))
    text = f"{shape} {size(kept_bytes(saved) or 0)}"
    if not value.producer:
        return f"{user_names(reader, [value]).get(saved.id, saved.name)} {text}"
    text = f"{saved.name} {text}"
    if value.file:
        text += f", computed by {in_file(value.file, value.line)}"
    if value.module:
        text += f" ({value.module})"
    return text


def time_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how long compiling took, and the three stages that took most of it."""
    times = stage_times(reader)
    if not times.total_s:
        return
    most = sorted(times.by_stage.items(), key=lambda item: -item[1])[:3]
    parts = [
        f"{STAGE_IN_WORDS[stage]} {seconds(spent)} ({share(spent, times.total_s)})"
        for stage, spent in most
    ]
    if reader.count(model.Compilation, status="running"):
        least = "at least "
    else:
        least = ""
    text = f"Compiling took {least}{seconds(times.total_s)}."
    yield Fact("time", "good", text, "; ".join(parts), view="time")


def is_bench_alone(reader: SessionReader) -> bool:
    """Return whether the session holds a bench and no capture (``fx-explorer bench -o``)."""
    return reader.has(model.BenchCell) and (reader.meta("target") or {}).get("kind") == "bench"


def bench_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield the sentences of the bench's verdict; nothing where nothing was measured."""
    if not reader.has(model.BenchCell):
        return
    from fx_explorer.instruments.bench.cells import (
        bench_figures,  # not needed for most sessions, both
    )
    from fx_explorer.instruments.bench.verdict import problems, verdict

    figures = bench_figures(reader)
    if figures is None:
        return
    wrong = problems(figures)
    for sentence in verdict(figures):
        severity: Severity = "problem" if sentence in wrong else "notice"
        yield Fact("bench", severity, sentence, view="bench")


SHOWN = 2


def ledger_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield the first sentences of the ledger's verdict; nothing where no call was accounted
    for.
    """
    if not reader.has(model.LedgerCall):
        return
    from fx_explorer.instruments.ledger.figures import (
        ledger_figures,  # not needed for most sessions, both
    )
    from fx_explorer.instruments.ledger.verdict import verdict

    figures = ledger_figures(reader)
    if figures is None:
        return
    for sentence in verdict(figures)[:SHOWN]:
        yield Fact("call", "good", sentence, view="ledger")


def profile_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield the short form of the profile's verdict; nothing where no profile was read."""
    if not reader.has(model.Profile):
        return
    from fx_explorer.instruments.profile.figures import (
        profile_figures,  # not needed for most sessions, both
    )
    from fx_explorer.instruments.profile.verdict import in_short

    figures = profile_figures(reader)
    if figures is None:
        return
    is_good = bool(figures.kernels) or is_profile_alone(reader)
    severity: Severity = "good" if is_good else "problem"
    for sentence in in_short(figures):
        yield Fact("profile", severity, sentence, view="profile")


def snapshot_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield what a CUDA memory snapshot says; nothing where none was read."""
    from fx_explorer.instruments.memory.snapshot_figures import figures_of

    figures = figures_of(reader)
    if figures is None:
        return
    from fx_explorer.instruments.memory.snapshot_report import verdict  # for those with a snapshot

    for sentence in verdict(figures):
        yield Fact("memory", "good", sentence, view="memory")


def support_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how much each backend supports, for backends that report it; torch's own ``eager`` and
    others do not.
    """
    if not reader.has(model.SupportReport):
        return
    from fx_explorer.instruments.backends.amounts import (
        summaries,  # not needed for most sessions, both
    )
    from fx_explorer.instruments.backends.verdict import short_verdict

    for summary in summaries(reader):
        if not summary.is_said:
            continue
        is_all = summary.supported.count == summary.whole.count
        severity: Severity = "good" if is_all else "notice"
        for sentence in short_verdict(summary):
            yield Fact("backend", severity, sentence, view="support")


SHOWN_AT_MOST = 3
"""Maximum number of problems of published data that are listed one by one."""


def backend_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact for each backend that published a stage or reported a run, and the problems with
    it. Other backends have no fact here.
    """
    for summary in backend_summaries(reader):
        if summary.stages or summary.runs:
            place = Place(summary.stages[0].document) if summary.stages else None
            text = f"Backend {summary.backend}: {summary.description}."
            yield Fact("backend", "good", text, summary.called, place, "backend")
    failures = reader.rows(model.Failure, where="backend")
    wrong = [failure for failure in failures if failure.kind != "remark"]
    for failure in wrong[:SHOWN_AT_MOST]:
        text = f"{failure.message[:1].upper()}{failure.message[1:]}."
        yield Fact("backend", "notice", text, view="backend")
    if len(wrong) > SHOWN_AT_MOST:
        text = f"… and {counted(len(wrong) - SHOWN_AT_MOST, 'more problem')}."
        yield Fact("backend", "notice", text, view="console")


def front_end_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact for each front end that was asked, with the differences to Dynamo, or why it
    refused.
    """
    rows = reader.rows(model.FrontEnd)
    if not rows:
        return
    from fx_explorer.instruments.front_ends.answers import seen_by_dynamo

    dynamo = seen_by_dynamo(reader)
    for row in rows:
        if row.graph and dynamo:
            yield _front_end_fact(reader, row, dynamo)
        else:
            yield _refused(reader, row)


def _front_end_fact(reader: SessionReader, row: model.FrontEnd, dynamo: Seen) -> Fact:
    from fx_explorer.instruments.front_ends.scope_differences import (  # likewise
        compare_with_dynamo,
        differences,
    )

    first, *rest = differences(compare_with_dynamo(reader, row, dynamo))
    place = Place(document_of(reader, "graph", row.graph))
    return Fact(
        "front_ends", "good", f"{model.FRONT_END_CALLS[row.name]}: {first}", "\n".join(rest), place
    )


def _refused(reader: SessionReader, row: model.FrontEnd) -> Fact:
    from fx_explorer.instruments.front_ends.answers import refusal  # likewise

    known_refusal = refusal(row)
    where = f" at {in_file(row.file, row.line)}" if row.line else ""
    if row.state == "timed_out":
        state = "was stopped"
    else:
        state = "refused the target"
    detail = [row.code]
    if known_refusal:
        detail.append(known_refusal.why)
        if known_refusal.advice:
            detail.append(f"What to do: {known_refusal.advice}.")
    if row.traceback and row.error:
        detail.append(f"It said: {row.error.splitlines()[0]}")
    detail += row.remarks
    return Fact(
        "front_ends",
        "notice",
        f"{model.FRONT_END_CALLS[row.name]} {state}{where}.",
        "\n".join(filter(None, detail)),
        place_of_path(reader, row.file, row.line),
    )


def cache_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield the hits and misses of torch's caches, and why a cache was not used; nothing where
    there are none.
    """
    answers = cache_answers(reader)  # once: a record can be 100 KB
    if not answers:
        return
    from fx_explorer.instruments.compile_time.cache_report import (
        COMPARE,
        bypass_sentences,
        done_sentence,
        warm_sentence,
    )
    from fx_explorer.instruments.compile_time.caches import warm_start

    warm = warm_start(reader, answers)
    if warm:
        yield Fact("caches", "good", warm_sentence(warm), done_sentence(warm), view="time")
    missed = {answer.compilation.id for answer in answers if answer.record.outcome == "miss"}
    if missed:
        text = f"{counted(len(missed), 'compilation')} not in torch's caches: compiled again."
        yield Fact("caches", "notice", text, COMPARE, view="time")
    for sentence in bypass_sentences(answers):
        yield Fact("caches", "notice", sentence, view="time")


def study_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield which parts of a study are done, and each that is missing; nothing without a study."""
    parts = parts_from_json(reader.meta(META) or [])
    done = [part.name for part in parts if part.state == "done"]
    if done:
        yield Fact("call", "good", f"Studied: {', '.join(done)}.")
    for part in parts:
        if part.is_missing:
            yield Fact(
                "call",
                "notice",
                f"Not finished in the study: {part.name} ({part.state}).",
                f"{part.text} To complete it: {part.command}",
            )
