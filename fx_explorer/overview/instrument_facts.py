"""This module makes facts for the overview of what instruments found: a bench, a ledger, a profile,
backends other than Inductor, other front ends, and torch's caches.

Most sessions hold none of it, so the modules that know more are imported where there is something.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fx_explorer import model
from fx_explorer.analysis.documents import Place, document_of, place_of_path
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.published import backend_summaries
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.caches.figures import cache_answers
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

if TYPE_CHECKING:
    from fx_explorer.instruments.front_ends.answers import Seen


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
    severity: Severity = "good" if figures.kernels else "problem"
    for sentence in in_short(figures):
        yield Fact("profile", severity, sentence, view="profile")


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
        text = f"… and {len(wrong) - SHOWN_AT_MOST:,} more things are wrong with it."
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
    from fx_explorer.instruments.front_ends.differences import (  # likewise
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
    from fx_explorer.instruments.caches.figures import warm_start
    from fx_explorer.instruments.caches.report import (
        COMPARE,
        bypass_sentences,
        done_sentence,
        warm_sentence,
    )

    warm = warm_start(reader, answers)
    if warm:
        yield Fact("caches", "good", warm_sentence(warm), done_sentence(warm), view="time")
    missed = {answer.compilation.id for answer in answers if answer.record.outcome == "miss"}
    if missed:
        text = (
            f"{counted(len(missed), 'compilation')} found nothing in torch's caches, and was "
            "compiled again."
        )
        yield Fact("caches", "notice", text, COMPARE, view="time")
    for sentence in bypass_sentences(answers):
        yield Fact("caches", "notice", sentence, view="time")
