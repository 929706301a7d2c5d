"""The answer about how long the phases of a compile took, under torch's own names."""

from __future__ import annotations

from fx_explorer.analysis.words import listed
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.errors import UsageError
from fx_explorer.instruments.compile_time.torch_phases import PhaseSeconds, torch_phases
from fx_explorer.session import SessionReader

CODE_GENERATION = "Inductor's code generation"

MOST_SENTENCES = 4
"""Maximum number of compiles that the sentence is about."""


def of_phases(reader: SessionReader, name: str) -> Answer:
    """Return each phase of each compile with its seconds; with words, those that have them all in
    their name, torch's name, direction, function or compilation.
    """
    phases = torch_phases(reader)
    if name:
        chosen = [phase for phase in phases if _has_words(phase, name)]
        if phases and not chosen:
            names = dict.fromkeys(phase.phase.name for phase in phases)
            raise UsageError(f"no phase has {name!r}; there are: {', '.join(names)}")
        phases = chosen
        text = " ".join(_sentence(phase) for phase in phases[:MOST_SENTENCES])
    else:
        text = _whole(phases)
    if not phases:
        text = (
            "No compile time is recorded: torch writes it to TORCH_TRACE, not to the printed log."
        )
    return Answer(
        text=text,
        rows=[_row(phase) for phase in phases],
        known_from="torch's metrics of each compile (CompilationMetrics), or its timed phases "
        "(dynamo_timed) where it wrote no metrics; recorded_in says which. A phase "
        "holds others",
        next=["flame", "compilations"],
    )


def _has_words(phase: PhaseSeconds, name: str) -> bool:
    texts = (
        phase.phase.name, phase.torch_name, phase.timed_as, phase.direction, phase.function,
        phase.compilation,
    )  # fmt: skip
    text = " ".join(texts).casefold()
    return all(word in text for word in name.casefold().split())


def _row(phase: PhaseSeconds) -> Json:
    return {
        "compilation": phase.compilation,
        "function": phase.function,
        "direction": phase.direction,
        "phase": phase.phase.name,
        "seconds": round(phase.seconds, 6),
        "torch_name": phase.torch_name,
        "timed_as": phase.timed_as,
        "holds": phase.phase.holds,
        "recorded_in": phase.source,
    }


def _sentence(phase: PhaseSeconds) -> str:
    return (
        f"{phase.phase.name[0].upper()}{phase.phase.name[1:]} of the {phase.direction} of "
        f"[{phase.compilation}] took {phase.seconds:.3f} s ({phase.torch_name})."
    )


def _whole(phases: list[PhaseSeconds]) -> str:
    """Return how long each compile took, and how much of it code generation."""
    parts = []
    compiles = dict.fromkeys((phase.compilation, phase.direction) for phase in phases)
    for compilation, direction in compiles:
        seconds = {
            phase.phase.name: phase.seconds
            for phase in phases
            if (phase.compilation, phase.direction) == (compilation, direction)
        }
        whole = seconds.get("the whole compile", 0.0)
        code = seconds.get(CODE_GENERATION, 0.0)
        parts.append(
            f"the {direction} of [{compilation}] took {whole:.3f} s, {code:.3f} s of it "
            f"{CODE_GENERATION}"
        )
    text = listed(parts, MOST_SENTENCES)
    return f"{text[:1].upper()}{text[1:]}."
