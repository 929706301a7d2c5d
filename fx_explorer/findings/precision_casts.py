"""Weights that are cast to 16 bits again in each call. autocast does so, and without gradients it
is work for nothing, because the weights can be stored in 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_source
from fx_explorer.analysis.input_names import InputNames
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.words import counted, size
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.findings import casts_of_inputs

LEAST_BYTES = 1 << 20
"""Bytes of weights below which casting them takes no time worth a word."""

NARROW = ("bf16", "f16")

BYTES_READ, BYTES_WRITTEN = 4, 2
"""Bytes of a number of 32 bits, and of 16."""


@dataclass(frozen=True, slots=True)
class _Cast:
    weight: model.Node
    cast: model.Node

    @property
    def numbers(self) -> int:
        count = 1
        for extent in self.weight.shape or ():
            count *= int(extent) if extent.isdigit() else 0
        return count


def find_precision_casts(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding where an inference casts weights that it could have stored as it needs
    them.
    """
    if reader.count(model.Graph, direction="backward"):
        return  # training needs them in float32
    casts: dict[str, list[_Cast]] = {}
    for compilation in variants_in_use(reader):
        for cast in _casts_of_weights(reader, compilation):
            casts.setdefault(cast.cast.dtype, []).append(cast)
    for dtype, of_dtype in casts.items():
        read = BYTES_READ * sum(cast.numbers for cast in of_dtype)
        if read >= LEAST_BYTES:
            yield _finding(reader, dtype, of_dtype, read)


def _casts_of_weights(reader: SessionReader, compilation: model.Compilation) -> list[_Cast]:
    pairs = casts_of_inputs(reader, compilation.id)
    nodes = {
        node.id: node for node in reader.by_ids(model.Node, {i for pair in pairs for i in pair})
    }
    casts = []
    for weight, cast in pairs:
        if nodes[weight].dtype == "f32" and nodes[cast].dtype in NARROW:
            casts.append(_Cast(nodes[weight], nodes[cast]))
    names = InputNames(reader).of([cast.weight for cast in casts])
    return [cast for cast in casts if names[cast.weight.id].kind == "parameter"]


def _finding(reader: SessionReader, dtype: str, casts: list[_Cast], read: int) -> Finding:
    written = read * BYTES_WRITTEN // BYTES_READ
    first = casts[0].cast
    is_or_are = "is" if len(casts) == 1 else "are"
    name = {"bf16": "bfloat16", "f16": "float16"}[dtype]
    return Finding(
        kind="precision cast",
        text=(
            f"{counted(len(casts), 'parameter')} ({size(read)}) "
            f"{is_or_are} cast from float32 to {name} in each call."
        ),
        urgency="slow",
        severity="notice",
        topic="kernels",
        place=place_of_source(reader, first.file, first.line) if first.file else None,
        view="graphs",
        evidence=(f"Each call reads {size(read)} and writes {size(written)} for it.",),
        explanation=(
            "autocast casts weights where they are used. No gradient is computed here, so nothing "
            "needs them in float32."
        ),
        remedies=(
            Remedy(
                f"For inference store the weights in {name}: model.to(torch.{name}), and call it "
                f"without autocast. Operations that autocast keeps in float32 then use {name} as "
                "well: compare the results."
            ),
        ),
        count=len(casts),
        cost=f"{size(read + written)} a call",
    )
