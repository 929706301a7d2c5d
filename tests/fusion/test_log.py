"""These tests hold the reasons of a session against ``TORCH_LOGS=fusion`` of the same run: pair by
pair, for each graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.session import SessionReader
from tests.exhaustive import with_others

_BEGINS = re.compile(r"===== attempting fusion \(1/10\)")
_REFUSES = re.compile(r"\[__fusion\] cannot fuse (\S+) with (\S+): (.*)")

Pairs = dict[tuple[str, str], str]


def logged_graphs(reader: SessionReader) -> list[Pairs]:
    """Return for each graph that the log has: two nodes, sorted → the last reason for them."""
    graphs: list[Pairs] = []
    for line in reader.rows(model.ConsoleLine):
        if _BEGINS.search(line.text):
            graphs.append({})
        refused = _REFUSES.search(line.text)
        if refused:
            graphs[-1][_sorted(refused.group(1, 2))] = refused[3]
    return graphs


def _sorted(names: Iterable[str]) -> tuple[str, str]:
    first, second = sorted(names)
    return first, second


def recorded_graphs(reader: SessionReader) -> Iterator[tuple[Pairs, dict[str, int]]]:
    """Yield for each graph that has pairs: two nodes, sorted → the reason of the session; and the
    names of nodes as they are after fusion, with the call that computes each.
    """
    kernels = {row.id: row for row in reader.rows(model.Kernel)}
    calls = {row.id: kernels[row.kernel] for row in reader.rows(model.KernelCall)}
    graphs: dict[tuple[int, str, str], tuple[Pairs, dict[str, int]]] = {}
    for row in reader.rows(model.UnfusedPair):
        if not row.reason:
            continue
        kernel = calls[row.first]
        pairs, names = graphs.setdefault(
            (kernel.compilation, kernel.direction, kernel.subgraph), ({}, {})
        )
        pairs[_sorted(row.names)] = row.reason
        if row.is_exact and row.is_dependent:
            names.update(zip(row.names, (row.first, row.second), strict=True))
    yield from graphs.values()


def compare(reader: SessionReader) -> int:
    """Check that every reason of a session is the log's last one for these two, and that no pair of
    nodes that are there after fusion is missing. Returns the number of pairs.
    """
    logged = logged_graphs(reader)
    count = 0
    for pairs, names in recorded_graphs(reader):
        count += len(pairs)
        alike = [graph for graph in logged if pairs.items() <= graph.items()]
        assert alike, pairs
        whole = min(alike, key=len)
        for pair in whole.keys() - pairs.keys():
            # C++ writes several nodes into one kernel without fusing them.
            assert not names.keys() >= set(pair) or names[pair[0]] == names[pair[1]], pair
    return count


PLANTED = Path(__file__).parent / "planted.py"


@pytest.mark.parametrize("gpu", ["", "h100"])
def test_planted_pairs_have_the_reasons_of_the_log(gpu: str, captured, reader) -> None:
    options = {"gpu": gpu} if gpu else {}
    compared = compare(reader(captured(PLANTED, **options)))
    assert compared >= (14 if gpu else 0)


MODELS = with_others(
    [("mlp", "h100")],
    [
        (name, gpu)
        for name in (
            "gpt2",
            "bert",
            "t5",
            "vit",
            "convnextv2",
            "resnet",
            "keeping",
            "llama2",
            "transformer",
            "convnet",
        )
        for gpu in ("", "h100")
    ],
)


@pytest.mark.parametrize(("name", "gpu"), MODELS)
def test_models_have_the_reasons_of_the_log(
    name: str, gpu: str, captured: Callable[..., Path], reader: Callable[[Path], SessionReader]
) -> None:
    options = {"gpu": gpu} if gpu else {}
    target = Path(__file__).parent / "logged.py"
    session = captured(target, call=f"build('{name}')", inputs=f"inputs('{name}')", **options)
    compare(reader(session))
