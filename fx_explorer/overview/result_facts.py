"""These facts of the overview are about the result of a compile: its kernels, what the forward
keeps for the backward, and how long compiling took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from fx_explorer import model
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.function_versions import over_versions
from fx_explorer.analysis.naming import SizeNames
from fx_explorer.analysis.whole_session import (
    is_log,
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
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.instruments.kernels.counts import DirectionKernels, kernels_by_direction
from fx_explorer.instruments.kernels.launched import measured_choices
from fx_explorer.instruments.memory.saved_values import (
    SavedValue,
    computed_total,
    kept_bytes,
    saved_total,
    saved_values,
    saving_compilations,
    user_names,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.kernels import unlinked_kernels

CHOICES_SHOWN = 5
"""Maximum number of choices of autotuning that are listed one by one."""


def kernel_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how many kernels were generated for each direction, which choices autotuning made, and
    why there are no kernels.
    """
    directions = kernels_by_direction(reader)
    # Those of a log of tritonparse are above, with their configurations.
    if not is_tritonparse(reader):
        for direction_kernels in directions:
            text = _kernels_text(direction_kernels)
            detail = _summed(reader, direction_kernels.compilations)
            yield Fact("kernels", "good", text, detail, view="kernels")
    for choice in islice(measured_choices(reader), CHOICES_SHOWN):
        text = f"{choice.description}."
        yield Fact("kernels", "good", text, choice.best_description, view="kernels")
    unlinked = unlinked_kernels(reader, "cpp") if is_log(reader) else 0
    if unlinked:
        text = (
            f"Nothing in the log leads to its {counted(unlinked, 'C++ kernel')}: torch wrote no "
            "table of what they compute."
        )
        yield Fact("kernels", "notice", text, "INDUCTOR_PROVENANCE=1 makes it write one.")
    is_known = reader.meta("outcome") is not None and "kernels" not in not_in_text(reader)
    if not directions and is_known:
        yield from _why_no_kernels(reader)


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
    biggest = saved_values(reader)[0]
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
    which = "parameters and inputs that are there anyway"
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
