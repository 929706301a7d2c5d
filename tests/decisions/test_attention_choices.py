"""These tests check what is said of scaled_dot_product_attention on a CPU, against the kernels that
torch generated: whether it is a fused one, and that the named change makes it one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fx_explorer import model
from fx_explorer.answers.graphs_and_kernels import of_decisions
from fx_explorer.answers.of_node import of_nodes
from fx_explorer.overview.ending import failures
from fx_explorer.session import SessionReader
from tests.capture.recorded import record

QUERY = torch.randn(1, 2, 5, 8)
MASK = torch.randn(1, 2, 5, 5, requires_grad=True)


def attended(**given: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def function(query: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if given.get("attn_mask") == "mask":
            return F.scaled_dot_product_attention(query, query, query, mask)
        key = query[:, : given.get("heads", 2)]
        others = {name: value for name, value in given.items() if name != "heads"}
        return F.scaled_dot_product_attention(query, key, key, **others)

    return function


def recorded(
    path: Path, given: dict[str, Any], query: torch.Tensor = QUERY, mask: torch.Tensor = MASK
) -> SessionReader:
    def program(compile_it: Callable[[Any], Any]) -> None:
        compile_it(attended(**given))(query, mask)

    return record(path, program)


def is_fused(session: SessionReader) -> bool:
    return any("flash_attention" in kernel.name for kernel in session.rows(model.Kernel))


CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"attn_mask": "mask"}, "attn_mask requires grad", "attn_mask without requires_grad"),
    ({"dropout_p": 0.2}, "do not support non-zero dropout", "dropout_p=0.0"),
    ({"heads": 1}, "to have the same num_heads", "enable_gqa=True"),
    ({}, "", ""),
]


@pytest.mark.parametrize(("given", "reason", "change"), CASES)
def test_why_attention_takes_the_math_is_torchs_condition(
    given: dict[str, Any], reason: str, change: str, tmp_path: Path
) -> None:
    with recorded(tmp_path / "s.fxs", given) as session:
        assert failures(session) == []
        first = of_decisions(session, "scaled_dot_product_attention").rows[0]
        assert is_fused(session) == (not reason)
    assert first["about"] == "attention"
    assert first["why"] == ("math" if reason else "flash")
    assert reason in first["sentence"]
    assert change in first["may_change_it"]


CHANGED: list[tuple[dict[str, Any], torch.Tensor]] = [
    ({"attn_mask": "mask"}, MASK.detach()),
    ({"dropout_p": 0.0}, MASK),
    ({"heads": 1, "enable_gqa": True}, MASK),
]


@pytest.mark.parametrize(("given", "mask"), CHANGED)
def test_with_the_named_change_it_is_a_fused_kernel(
    given: dict[str, Any], mask: torch.Tensor, tmp_path: Path
) -> None:
    with recorded(tmp_path / "s.fxs", given, mask=mask) as session:
        assert is_fused(session)


def test_it_says_nothing_where_the_program_allows_other_kernels(tmp_path: Path) -> None:
    def function(query: torch.Tensor) -> torch.Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return F.scaled_dot_product_attention(query, query, query)

    def program(compile_it: Callable[[Any], Any]) -> None:
        compile_it(function)(QUERY)

    with record(tmp_path / "s.fxs", program) as session:
        assert not is_fused(session)
        about = {row["about"] for row in of_decisions(session, "").rows}
    assert "attention" not in about


def test_a_node_of_dynamos_graph_says_whether_it_requires_grad(tmp_path: Path) -> None:
    with recorded(tmp_path / "s.fxs", {"attn_mask": "mask"}) as session:
        (graph,) = session.rows(model.Graph, stage="dynamo")
        rows = list(of_nodes(session, str(graph.id)).rows)
        of_later = session.rows(model.Graph, stage="forward")
        later = list(of_nodes(session, str(of_later[0].id)).rows)
    needs = {row.get("user_name", row["name"]): row["requires_grad"] for row in rows}
    assert needs["mask"] is True
    assert needs["query"] is False
    assert {row["requires_grad"] for row in later} == {None}
