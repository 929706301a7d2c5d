"""This module measures where the time of one call goes: a worker of its own builds the program, and
accounts for its calls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.model import (
    CaptureRequest,
    CardCeiling,
    FilterAnswer,
    LedgerCall,
    LedgerGap,
    LedgerOperator,
    LedgerStep,
)
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.trials import (
    HERE,
    Told,
    TrialWorker,
    ignore_message,
    recapture,
    straight_through,
    to_its_end,
    why_not_measured,
)

TIMEOUT_S = 1200.0


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger, apart from any session. Its steps name compilations and lines, which are the same
    in every capture of the same program.
    """

    call: LedgerCall
    steps: tuple[LedgerStep, ...]
    operators: tuple[LedgerOperator, ...]
    ceilings: tuple[CardCeiling, ...]
    filters: tuple[FilterAnswer, ...] = ()
    """The checks that torch's guard filters would drop."""
    gaps: tuple[LedgerGap, ...] = ()


async def account_for_call(
    request: CaptureRequest, tell: Told = ignore_message, worker: TrialWorker = HERE
) -> Ledger:
    """Measure the ledger of a call. ``request`` is the request of the session. Raises UsageError
    when there is nothing to call, or the program does not run to its end.
    """
    problem = why_not_measured(request)
    if problem:
        raise UsageError(problem)
    measured = straight_through(request, verify=False, build=True, ledger=True)
    again = await recapture(
        measured, worker, ledger_in, attend=partial(to_its_end, tell=tell), limit_s=TIMEOUT_S
    )
    if again.found is None or not again.is_whole:
        raise UsageError(
            f"A call could not be measured: {again.outcome.message or 'nothing was compiled'}"
        )
    return again.found


def ledger_in(reader: SessionReader) -> Ledger | None:
    """Return the last ledger of a session; None when it has none."""
    calls = reader.rows(LedgerCall)
    if not calls:
        return None
    number = calls[-1].id
    steps, operators = (
        reader.rows(LedgerStep, call=number),
        reader.rows(LedgerOperator, call=number),
    )
    ceilings, filters = tuple(reader.rows(CardCeiling)), tuple(reader.rows(FilterAnswer))
    gaps = tuple(reader.rows(LedgerGap, call=number))
    return Ledger(calls[-1], tuple(steps), tuple(operators), ceilings, filters, gaps)


def add_ledger(session: Path, ledger: Ledger) -> None:
    """Add the ledger to the session for which it was made. Raises SessionWriteError."""
    with SessionWriter(session) as writer, writer.transaction():
        call = writer.add(replace(ledger.call, id=0))
        writer.add_all(replace(row, id=0, call=call) for row in ledger.steps)
        writer.add_all(replace(row, id=0, call=call) for row in ledger.operators)
        writer.add_all(replace(row, id=0, call=call) for row in ledger.gaps)
        writer.add_all(replace(row, id=0) for row in ledger.ceilings)
        writer.add_all(replace(row, id=0) for row in ledger.filters)
