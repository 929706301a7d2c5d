"""These tests check that a tensor subclass is shown with its type, and with the parts that
AOTAutograd takes it apart into.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.testing._internal.two_tensor import TwoTensor

from fx_explorer.analysis.words import format_node
from fx_explorer.model import Graph, Node
from tests.capture.recorded import failures, record


def test_a_subclass_has_its_class_and_inner_tensors_and_its_parts_lead_to_it(
    tmp_path: Path,
) -> None:
    x = TwoTensor(torch.randn(4, 8), torch.randn(4, 8))
    nested = TwoTensor(x, TwoTensor(torch.ones(4, 8), torch.ones(4, 8)))
    plain = torch.randn(4, 8)

    def program(compile_: object) -> None:
        torch.compile(lambda a, b, c: (a * b).sin() + c, backend="aot_eager")(x, plain, nested)

    reader = record(tmp_path / "s.fxs", program)
    assert not failures(reader)
    (dynamo,) = reader.rows(Graph, stage="dynamo")
    inputs = {node.name: node for node in reader.nodes(dynamo) if node.op == "placeholder"}
    part = "TwoTensor(a: f32[4, 8], b: f32[4, 8])"
    assert [node.value for node in inputs.values()] == [
        part,
        "",
        f"TwoTensor(a: {part}, b: {part})",
    ]
    assert format_node(inputs["l_a_"]) == f"placeholder l_a_  {part}"
    assert format_node(inputs["l_b_"]) == "placeholder l_b_  f32[4, 8]"
    (traced,) = reader.rows(Graph, stage="forward")
    found: dict[str, list[str]] = {}
    for node in reader.nodes(traced):
        if node.op == "placeholder":
            (link,) = reader.parents([node.id])
            found.setdefault(reader.get(Node, link.parent).name, []).append(node.value)
    a, b = "f32[4, 8], inner tensor a", "f32[4, 8], inner tensor b"
    assert found == {"l_a_": [a, b], "l_b_": [""], "l_c_": [a, b, a, b]}
