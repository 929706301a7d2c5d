"""All kinds of findings, and the findings of a session, worst first."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.whole_session import is_log, not_in_text
from fx_explorer.analysis.words import counted
from fx_explorer.findings.cache_faults import find_cache_faults
from fx_explorer.findings.checkpoints import find_checkpoints
from fx_explorer.findings.compiler_errors import find_compiler_errors
from fx_explorer.findings.environment import find_missing_tools
from fx_explorer.findings.finding import URGENCIES, Finding, FindingKind
from fx_explorer.findings.framework_hooks import find_framework_hooks
from fx_explorer.findings.graph_breaks import find_graph_breaks
from fx_explorer.findings.kept_trials import kept_trials
from fx_explorer.findings.layout_copies import find_layout_copies
from fx_explorer.findings.lost_cuda_graphs import find_cuda_graphs
from fx_explorer.findings.missed_fusions import find_missed_fusions
from fx_explorer.findings.never_called import find_never_called, find_nothing_compiled
from fx_explorer.findings.overwritten_outputs import find_overwritten_outputs
from fx_explorer.findings.placement import find_placement
from fx_explorer.findings.plugin_problems import kinds_of_plugins
from fx_explorer.findings.precision_casts import find_precision_casts
from fx_explorer.findings.program_errors import find_program_errors
from fx_explorer.findings.recompile_limits import find_limits
from fx_explorer.findings.recompiles import find_recompiles
from fx_explorer.findings.remedy_trials import before_trials, with_own_settings, with_trials
from fx_explorer.findings.repeated_blocks import find_repeated_blocks
from fx_explorer.findings.settings_without_effect import find_settings_without_effect
from fx_explorer.findings.slow_operators import find_slow_operators
from fx_explorer.findings.tiny_graphs import find_tiny_graphs
from fx_explorer.findings.torch_warnings import find_torch_warnings
from fx_explorer.findings.unfinished import find_unfinished
from fx_explorer.findings.unrolled_loops import find_unrolled_loops
from fx_explorer.findings.waited_for_collectives import find_waited_for_collectives
from fx_explorer.findings.wrong_results import find_wrong_results
from fx_explorer.instruments.kernels.launched import last_profile
from fx_explorer.instruments.numerics.figures import numerics_of
from fx_explorer.instruments.recompiles.causes import limit_hits
from fx_explorer.session import SessionReader
from fx_explorer.session.reader import answered_once


def _find_by_trials(reader: SessionReader) -> Iterator[Finding]:
    """Yield what was found by running the program in other ways, where the session keeps that."""
    yield from kept_trials(reader).findings


def _find_nothing(_: SessionReader) -> Iterator[Finding]:
    """Yield nothing: the kind's findings are among those of another."""
    return iter(())


def _find_slow_kernels(reader: SessionReader) -> Iterator[Finding]:
    """Yield the slow kernels of a profile. Few sessions have one, and what reads it is not imported
    for the others.
    """
    if last_profile(reader) is not None:
        from fx_explorer.findings.slow_kernels import find_slow_kernels

        yield from find_slow_kernels(reader)


def _find_waiting_gpu(reader: SessionReader) -> Iterator[Finding]:
    """Yield that the GPU of a profile waits, as ``_find_slow_kernels`` does."""
    if last_profile(reader) is not None:
        from fx_explorer.findings.waiting_gpu import find_waiting_gpu

        yield from find_waiting_gpu(reader)


KINDS: tuple[FindingKind, ...] = (
    FindingKind("missing tools", "missing tools", find_missing_tools, "a capture"),
    FindingKind(
        "unfinished compilations", "compilations that were stopped", find_unfinished, "a capture"
    ),
    FindingKind("compiler errors", "errors of the compiler", find_compiler_errors, "graphs"),
    FindingKind(
        "program errors",
        "errors caused by the object that torch.compile returned",
        find_program_errors,
        "a capture",
    ),
    FindingKind("wrong results", "wrong results", find_wrong_results, "--try"),
    FindingKind("compile caches", "faults of compile caches", find_cache_faults, "--try"),
    FindingKind(
        "without torch.compile", "what differs without torch.compile", _find_by_trials, "--try"
    ),
    FindingKind(
        "eager calls", "compiled modules that also run in eager mode", _find_nothing, "--try"
    ),
    FindingKind("never called", "unused results of torch.compile", find_never_called, "a capture"),
    FindingKind("nothing compiled", "nothing compiled", find_nothing_compiled, "a capture"),
    FindingKind("placement", "a better place of torch.compile", find_placement, "graph breaks"),
    FindingKind("framework hooks", "hooks of frameworks", find_framework_hooks, "graph breaks"),
    FindingKind("graph breaks", "graph breaks", find_graph_breaks, "graph breaks"),
    FindingKind("recompile limits", "the recompile limit", find_limits, "recompiles"),
    FindingKind("recompiles", "recompiles", find_recompiles, "recompiles"),
    FindingKind("unrolled loops", "unrolled loops", find_unrolled_loops, "graphs"),
    FindingKind("repeated blocks", "repeated blocks", find_repeated_blocks, "graphs"),
    FindingKind("slow operators", "slow operators", find_slow_operators, "kernels"),
    FindingKind("missed fusions", "kernels that could be one", find_missed_fusions, "kernels"),
    FindingKind(
        "layout copies", "inputs copied into another layout", find_layout_copies, "kernels"
    ),
    FindingKind(
        "waited-for collectives",
        "collectives that nothing runs beside",
        find_waited_for_collectives,
        "kernels",
    ),
    FindingKind("CUDA graphs", "skipped CUDA graphs", find_cuda_graphs, "kernels"),
    FindingKind("slow kernels", "slow kernels", _find_slow_kernels, "a profile"),
    FindingKind("waiting GPU", "a GPU that waits", _find_waiting_gpu, "a profile"),
    FindingKind(
        "overwritten outputs", "overwritten outputs", find_overwritten_outputs, "a capture"
    ),
    FindingKind("settings", "settings without effect", find_settings_without_effect, "kernels"),
    FindingKind("checkpoints", "checkpoints without effect", find_checkpoints, "a capture"),
    FindingKind("precision casts", "repeated casts of weights", find_precision_casts, "kernels"),
    FindingKind("tiny graphs", "too little compiled", find_tiny_graphs, "kernels"),
    FindingKind("warnings", "warnings of torch", find_torch_warnings, "a capture"),
)


def every_kind() -> list[FindingKind]:
    """Return all kinds, those of plug-ins last."""
    return [*KINDS, *kinds_of_plugins([kind.name for kind in KINDS])]


BY_RUNS = ("compile caches", "without torch.compile", "eager calls")
"""Names of the kinds for which ``diagnose --try`` runs a script in other ways."""


@dataclass(frozen=True, slots=True)
class FindingSearch:
    """What was looked for in a session."""

    looked_for: tuple[str, ...]
    not_looked_for: tuple[str, ...]
    """What the session cannot show, because it lacks what it takes, or as nothing was tried."""
    given_up: tuple[str, ...] = ()
    """Those of ``not_looked_for`` for which the time did not suffice."""
    given_up_since: str = ""
    """Why these were given up, as a clause."""

    @property
    def description(self) -> str:
        sentence = f"Checked: {', '.join(self.looked_for)}."
        if self.given_up:
            sentence += f" Not checked, because {self.given_up_since}: {', '.join(self.given_up)}."
        others = [name for name in self.not_looked_for if name not in self.given_up]
        if others:
            sentence += f" Not checked: {', '.join(others)}."
        return sentence

    @property
    def summary(self) -> str:
        """Return how many kinds of problems were looked for, where there is no room for the
        list.
        """
        sentence = f"Checked for {counted(len(self.looked_for), 'kind')} of problems"
        if self.not_looked_for:
            sentence += f", not for {counted(len(self.not_looked_for), 'other')}"
        return sentence

    def after_trials(self, tried: Collection[str], given_up_since: str = "") -> FindingSearch:
        """Return the search with the kinds of these names, which were tried since.
        ``given_up_since`` says why further runs of the program were given up.
        """
        since = [kind.looked_for for kind in KINDS if kind.name in tried]
        left = tuple(name for name in self.not_looked_for if name not in since)
        given_up: tuple[str, ...] = ()
        if given_up_since:
            of_runs = [kind.looked_for for kind in KINDS if kind.name in BY_RUNS]
            given_up = tuple(name for name in left if name in of_runs)
        return FindingSearch((*self.looked_for, *since), left, given_up, given_up_since)


def search(reader: SessionReader) -> FindingSearch:
    """Return what was looked for in a session."""
    looked, lacking = [], []
    for kind in every_kind():
        if _can_show(reader, kind):
            looked.append(kind.looked_for)
        else:
            lacking.append(kind.looked_for)
    return FindingSearch(tuple(looked), tuple(lacking))


def needs_of(looked_for: str) -> str:
    """Return what a session must have for a kind of problem to be looked for: ``a profile``."""
    needs = next(kind.needs for kind in every_kind() if kind.looked_for == looked_for)
    return "diagnose --try" if needs == "--try" else needs


def _can_show(reader: SessionReader, kind: FindingKind) -> bool:
    match kind.needs:
        case "a capture":
            return not is_log(reader)
        case "--try":
            return _was_tried(reader, kind.name)
        case "a profile":
            needs_kernels = kind.name == "slow kernels"
            is_enough = reader.count(model.Kernel) > 0 or not needs_kernels
            return last_profile(reader) is not None and is_enough
        case "kernels":
            # At a pause, and with a backend that generates no code, there are none to look at.
            # A log has no decisions of Inductor's scheduler.
            is_enough = kind.name != "missed fusions" or not is_log(reader)
            return reader.count(model.Kernel) > 0 and is_enough
        case subject:
            # A log that has nothing else may have torch's warning of the limit.
            has_limit = kind.name == "recompile limits" and bool(limit_hits(reader))
            return has_limit or subject not in not_in_text(reader)


def _was_tried(reader: SessionReader, name: str) -> bool:
    if name in kept_trials(reader).looked_for:
        return True
    match name:
        case "compile caches":
            return reader.count(model.CacheComparison) > 0
        case "wrong results":
            return bool(numerics_of(reader))
        case _:
            return False


@answered_once
def findings(reader: SessionReader) -> list[Finding]:
    """Return the findings of a session: what stops the program first, then by what they cost.
    Remedies that were tried have their results.
    """
    everything: list[Finding] = []
    with reader.snapshot():  # so that what several kinds ask is answered once
        for kind in every_kind():
            # A plug-in is asked only about sessions that have what it needs.
            if not kind.is_of_plugin or _can_show(reader, kind):
                everything += kind.find(reader)
        everything = with_own_settings(reader, everything)
        trials = reader.rows(model.RemedyTrial)
        if trials:
            everything = with_trials(everything, before_trials(reader), trials)
        elif is_log(reader):
            everything = [_without_trials(finding) for finding in everything]
    return worst_first(everything)


def _without_trials(finding: Finding) -> Finding:
    """Return a finding whose remedies no trial can make: a log does not say how to run the
    program.
    """
    remedies = tuple(replace(remedy, changes={}) for remedy in finding.remedies)
    return replace(finding, remedies=remedies)


def worst_first(everything: list[Finding]) -> list[Finding]:
    """Return findings in the order in which they are shown."""
    return sorted(everything, key=_rank)


def _rank(finding: Finding) -> tuple[int, int, float]:
    is_notice = finding.severity != "problem"
    return is_notice, URGENCIES.index(finding.urgency), -finding.cost_s
