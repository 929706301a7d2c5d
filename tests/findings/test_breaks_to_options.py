"""These tests check what is said of graph breaks that an option, an import or the place of
torch.compile decides about, and of fullgraph=True.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from fx_explorer.findings.known_errors import as_remedy, known_error
from fx_explorer.model import Graph
from tests.capture.recorded import Compile, record
from tests.conftest import Captured, OpenedReader


def probed(x: torch.Tensor) -> torch.Tensor:
    try:
        import a_module_that_is_not_there  # noqa: F401
    except ImportError:
        x = x + 1
    return x * 2


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


def the_break(function: Callable[..., object], path: Path) -> Finding:
    def program(compile_: Compile) -> None:
        compile_(function)(torch.ones(3))

    reader = record(path / "s.fxs", program, backend="eager")
    (finding,) = [row for row in findings(reader) if row.kind == "graph break"]
    return finding


def test_an_import_that_fails_belongs_outside(tmp_path: Path) -> None:
    finding = the_break(probed, tmp_path)
    assert "an import fails inside the compiled code" in finding.text
    assert "at the top of the module" in finding.detail
    assert "torch's hint" not in finding.detail


def test_the_option_of_a_hint_can_be_tried(tmp_path: Path) -> None:
    finding = the_break(scaled, tmp_path)
    (remedy,) = finding.remedies
    assert remedy.changes == {"settings": {"dynamo.capture_scalar_outputs": True}}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("Set torch._dynamo.config.allow_rnn = True.", {"dynamo.allow_rnn": True}),
        ("Change `torch._dynamo.config.trace_numpy` to `True`.", {"dynamo.trace_numpy": True}),
        ("Set `torch._dynamo.config.enable_faithful_generator_behavior = False`.", None),
        ("consider increasing torch._dynamo.config.recompile_limit to a value", None),
        ("Report it.", None),
    ],
)
def test_options_in_texts(text: str, settings: dict[str, bool] | None) -> None:
    assert as_remedy(text).changes.get("settings") == settings


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("torch._subclasses.fake_tensor.DynamicOutputShapeException: aten.nonzero.default", "mask"),
        ("DataDependentOutputException: aten._local_scalar_dense.default", "number"),
    ],
)
def test_errors_of_data_dependent_operators_name_their_option(message: str, words: str) -> None:
    known = known_error(message)
    assert known is not None
    assert words in known.explanation
    assert as_remedy(known.remedies[0]).changes


WRAPPED = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, x):
        return self.layers(x) * 2


def layers():
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))


model = {model}
with torch.no_grad():
    model(torch.randn(2, 4))
"""


@pytest.mark.parametrize(
    ("model", "is_in_vain"),
    [
        ("torch.compile(DistributedDataParallel(layers()))", True),
        ("torch.compile(DistributedDataParallel(Net()))", False),
        ("DistributedDataParallel(torch.compile(layers()))", False),
    ],
    ids=["torch's layers", "own module", "compiled inside"],
)
def test_nothing_is_compiled_inside_a_wrapper(
    model: str, is_in_vain: bool, tmp_path: Path, captured: Captured, reader: OpenedReader
) -> None:
    file = tmp_path / "wrapped.py"
    file.write_text(WRAPPED.format(model=model))
    session = reader(captured(file, backend="eager"))
    texts = [finding.text for finding in findings(session)]
    assert ("No part of the model inside DistributedDataParallel was compiled." in texts) == (
        is_in_vain
    )
    assert (session.count(Graph) == 0) == is_in_vain


WHOLE = """
import torch


class Sampler:
    @torch.no_grad()
    def draw(self, x):
        return x * 2


@torch.compile(fullgraph=True, backend="eager")
def step(x):
    return Sampler().draw(x) + 1


step(torch.ones(3))
"""


def test_fullgraph_makes_an_error_of_a_break(
    tmp_path: Path, captured: Captured, reader: OpenedReader
) -> None:
    file = tmp_path / "whole.py"
    file.write_text(WHOLE)
    (finding,) = findings(reader(captured(file, exit_code=3)))
    assert finding.text == "step breaks the graph, which is an error with fullgraph=True."
    assert finding.place is not None
    assert finding.place.line + 1 == 13
    assert "instead of the decorator" in finding.detail
    # Dynamo raises it: another backend fails as well.
    changes = [remedy.changes for remedy in finding.remedies if remedy.changes]
    assert changes == [{"settings": {"compile.fullgraph": False}}]


def test_the_advice_on_decorated_methods_holds() -> None:
    class Sampler:
        def draw(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return x * 2

    def step(x: torch.Tensor) -> torch.Tensor:
        return Sampler().draw(x) + 1

    x = torch.ones(3)
    assert torch.equal(torch.compile(step, backend="eager", fullgraph=True)(x), step(x))


def shared_memory(x: torch.Tensor) -> torch.Tensor:
    weights = nn.Parameter(x)
    with torch.no_grad():
        weights.mul_(2)
    return weights.sum() + x.sum()


def test_aot_eager_is_no_way_around_an_error_of_aotautograd(tmp_path: Path) -> None:
    layer = nn.Linear(3, 3)

    def program(compile_: Compile) -> None:
        with pytest.raises(Exception, match="non-differentiable view input mutations"):
            compile_(lambda x: shared_memory(layer(x)))(torch.ones(2, 3))

    reader = record(tmp_path / "s.fxs", program, backend="inductor")
    (finding,) = [row for row in findings(reader) if row.kind == "compiler error"]
    assert "while AOTAutograd traced the forward and backward" in finding.text
    assert "share memory" in finding.detail
    settings = [row.changes.get("settings", {}) for row in finding.remedies]
    backends = [row["compile.backend"] for row in settings if "compile.backend" in row]
    assert backends == ["eager"]
