"""This module compares the program of a session with eager mode, for the app: the same comparisons
as the command's, of the session's request.
"""

from __future__ import annotations

from dataclasses import replace

from fx_explorer.errors import UsageError
from fx_explorer.instruments.numerics.comparison_runs import (
    DEFAULT_BUDGET_S,
    EagerFailed,
    NumericsDriver,
    NumericsPlan,
)
from fx_explorer.model import CaptureRequest, Numerics
from fx_explorer.trials import HERE, Told, TrialWorker, ignore_message, why_not_measured


async def compare_with_eager(
    request: CaptureRequest,
    tell: Told = ignore_message,
    worker: TrialWorker = HERE,
    budget_s: float = DEFAULT_BUDGET_S,
) -> Numerics:
    """Compare, and return what was learned.

    ``request`` is the request of the session, ``budget_s`` the seconds after which nothing more is
    begun. Raises UsageError when there is nothing to call, or the program does not run in eager
    mode.
    """
    problem = why_not_measured(request)
    if problem:
        raise UsageError(problem)
    plain = replace(
        request, session="", build=True, pause="", stay=False, ledger=False, gpu=None,
        no_weights=False,
    )  # fmt: skip
    plan = NumericsPlan(plain, worker.python, worker.timeout_s, budget_s)
    try:
        return await NumericsDriver(plan, tell, worker.fork_server).run()
    except EagerFailed as failed:
        raise UsageError(f"It does not run in eager mode: {failed}") from failed
