"""Facts on graphs that DDPOptimizer has cut into buckets, inside DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.naming.functions import plain_function
from fx_explorer.analysis.variants.lineage import first_variants
from fx_explorer.session import SessionReader


def bucket_count(reader: SessionReader, compilation: int) -> int:
    """Return how many buckets the graph of a compilation was cut into; 0 for one that was not."""
    labels = {
        graph.label
        for graph in reader.rows(model.Graph, compilation=compilation, parent=0)
        if graph.stage != "dynamo"
    }
    return sum(map(model.is_bucket_label, labels))


def bucket_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield, for each graph that was cut into buckets, how many there are and why."""
    for row in first_variants(reader):
        buckets = bucket_count(reader, row.id)
        if buckets:
            yield Fact(
                "graphs",
                "good",
                f"torch split the graph of {plain_function(row.function)} into {buckets} "
                "buckets (DDPOptimizer).",
                "Each has a forward and a backward of its own, so that "
                "DistributedDataParallel can send the gradients of one "
                "while the backward of the next one runs. It is no graph break.",
                view="graphs",
            )
