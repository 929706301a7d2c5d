"""These tests check what the backend publishes about itself, received by a listener of the test's
own.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sample_backends.small_backend import stages
from sample_models.convnet import ConvNet
from sample_models.mlp import MLP
from tests.sample_backends.conftest import compiled


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Everything that is published: stages by (name, direction), and runs."""
    found = SimpleNamespace(stages={}, runs=[])

    def publish(stage: str, content: Any, *, links: Any = None, direction: str = "") -> None:
        body = content if isinstance(content, torch.fx.GraphModule) else content()
        found.stages[stage, direction] = (body, links() if links else {})

    def publish_run(entry: str, instructions: Any, *, call: int) -> None:
        found.runs.append((entry, call, list(instructions)))

    library = SimpleNamespace(publish=publish, publish_run=publish_run, is_looked_at=lambda: True)
    monkeypatch.setattr(stages, "fx_explorer", library)
    return found


def test_every_stage_is_published_forward_and_backward(heard: SimpleNamespace) -> None:
    compiled(MLP())(torch.randn(4, 32)).sum().backward()  # type: ignore[attr-defined]
    names = ["support", "segments", "program", "artefact"]
    assert list(heard.stages) == [
        (name, direction) for direction in ("forward", "backward") for name in names
    ]


def test_each_line_of_a_program_is_linked_to_the_node_it_computes(heard: SimpleNamespace) -> None:
    compiled(MLP())(torch.randn(4, 32)).sum().backward()  # type: ignore[attr-defined]
    text, links = heard.stages["program", "forward"]
    lines = text.splitlines()
    assert links == {2: ("addmm",), 3: ("gelu",), 4: ("addmm_1",)}
    assert [lines[number - 1].split()[:2] for number in links] == [
        ["addmm", "matmul"],
        ["gelu", "gelu"],
        ["addmm_1", "matmul"],
    ]


def test_a_run_tells_ours_from_pytorchs_and_gives_the_same_result(heard: SimpleNamespace) -> None:
    model = ConvNet().eval()
    x = torch.randn(2, 3, 16, 16)
    function = compiled(model)
    with torch.no_grad():
        for call in (1, 2):
            torch.testing.assert_close(function(x), model(x))
            entry, number, instructions = heard.runs[-1]
            assert (entry, number) == ("inference", call)
    fell_back = [each["name"] for each in instructions if each["fell_back"]]
    ours = [each["name"] for each in instructions if not each["fell_back"]]
    assert fell_back.count("aten.convolution.default") == 5
    assert ours == ["relu", "add", "relu", "relu", "add", "relu", "matmul"]
    text, _ = heard.stages["program", "inference"]
    lines = text.splitlines()
    assert all(
        lines[each["line"] - 1].split()[1] == each["name"]
        for each in instructions
        if not each["fell_back"]
    )
    assert all(each["seconds"] >= 0 for each in instructions)


def test_the_artefacts_origin_is_shown(heard: SimpleNamespace) -> None:
    model, x = MLP(), torch.randn(4, 32)
    with torch.no_grad():
        compiled(model)(x)
        torch._dynamo.reset()
        compiled(model)(x)
    text, _ = heard.stages["artefact", "inference"]
    assert text.splitlines()[0].endswith("; in memory")


def test_without_fx_explorer_nothing_is_published_and_all_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stages, "fx_explorer", None)
    x = torch.randn(4)
    torch.testing.assert_close(compiled(torch.relu)(x), torch.relu(x))
