"""All kinds of findings, and the findings of a session, worst first."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.findings.cache_faults import find_cache_faults
from fx_explorer.findings.compiler_errors import find_compiler_errors
from fx_explorer.findings.cuda_graphs import find_cuda_graphs
from fx_explorer.findings.environment import find_missing_tools
from fx_explorer.findings.finding import URGENCIES, Finding, FindingKind
from fx_explorer.findings.graph_breaks import find_graph_breaks
from fx_explorer.findings.never_called import find_never_called, find_nothing_compiled
from fx_explorer.findings.recompiles import find_limits, find_recompiles
from fx_explorer.findings.repeated_blocks import find_repeated_blocks
from fx_explorer.findings.slow_operators import find_slow_operators
from fx_explorer.findings.torch_warnings import find_torch_warnings
from fx_explorer.findings.trials import before_trials, with_trials
from fx_explorer.findings.unrolled_loops import find_unrolled_loops
from fx_explorer.findings.wrong_results import find_wrong_results
from fx_explorer.session import SessionReader
from fx_explorer.session.reader import answered_once

KINDS: tuple[FindingKind, ...] = (
    FindingKind("missing tools", "missing tools", find_missing_tools),
    FindingKind("compiler errors", "functions that could not be compiled", find_compiler_errors),
    FindingKind("wrong results", "results that differ (--try)", find_wrong_results),
    FindingKind("compile caches", "what differs with compile caches (--try)", find_cache_faults),
    FindingKind("never called", "results of torch.compile never called", find_never_called),
    FindingKind("nothing compiled", "programs that compile nothing", find_nothing_compiled),
    FindingKind("graph breaks", "graph breaks", find_graph_breaks),
    FindingKind("recompile limits", "functions compiled too often", find_limits),
    FindingKind("recompiles", "recompiles", find_recompiles),
    FindingKind("unrolled loops", "unrolled loops", find_unrolled_loops),
    FindingKind("repeated blocks", "blocks compiled one by one", find_repeated_blocks),
    FindingKind("slow operators", "operators that expand or are not fused", find_slow_operators),
    FindingKind("CUDA graphs", "CUDA graphs asked for and not had", find_cuda_graphs),
    FindingKind("warnings", "what torch warned of", find_torch_warnings),
)


@answered_once
def findings(reader: SessionReader) -> list[Finding]:
    """Return the findings of a session: what stops the program first, then by what they cost.
    Remedies that were tried have their results.
    """
    everything: list[Finding] = []
    for kind in KINDS:
        everything += kind.find(reader)
    trials = reader.rows(model.RemedyTrial)
    if trials:
        everything = with_trials(everything, before_trials(reader), trials)
    return worst_first(everything)


def worst_first(everything: list[Finding]) -> list[Finding]:
    """Return findings in the order in which they are shown."""
    return sorted(everything, key=_rank)


def _rank(finding: Finding) -> tuple[int, int, float]:
    is_notice = finding.severity != "problem"
    return is_notice, URGENCIES.index(finding.urgency), -finding.cost_s
