"""This program compiles with Precompile: a whole model, regions of one, and one graph by two
compilers.

One function is saved and loaded, by Precompile and by torch itself.
"""

import tempfile
from pathlib import Path

import torch
import torch.fx.traceback as fx_traceback
from torch.fx.passes.regional_inductor import regional_inductor

from fx_explorer.precompile import CompilerError, Precompile


class MLP(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.nn.functional.gelu(self.fc1(x)))


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with fx_traceback.annotate({"compile_with_inductor": "attention"}):
            x = x + torch.softmax(x @ x.transpose(-1, -2), -1) @ x
        with fx_traceback.annotate({"compile_with_inductor": "mlp"}):
            return x + self.up(x).tanh()


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def check(model: torch.nn.Module, x: torch.Tensor, compiler: object = None) -> None:
    gm, _, guards, inputs = Precompile.dynamo(model, x)
    run, guards = Precompile.aot_autograd(gm, guards, compiler=compiler)
    run(inputs).sum().backward()
    ours = next(model.parameters()).grad.clone()
    model.zero_grad()
    model(x).sum().backward()
    assert torch.allclose(ours, next(model.parameters()).grad, atol=1e-4)
    with torch.no_grad():
        assert torch.allclose(run(inputs), model(x), atol=1e-4)


torch.manual_seed(0)
check(MLP(), torch.randn(3, 8))
check(Block(), torch.randn(2, 5, 16), regional_inductor)
gm, _, guards, inputs = Precompile.dynamo(double, torch.ones(3))
for compiler in (lambda graph, inputs: graph.forward, None):  # the last is saved below
    run, _ = Precompile.aot_autograd(gm, guards, compiler=compiler)
    assert run(inputs).tolist() == [2.0, 2.0, 2.0]
Precompile.dynamo(double, torch.ones(4))
try:
    Precompile.aot_autograd(gm, guards, compiler=lambda graph, inputs: 1 / 0)
except CompilerError as error:
    print(type(error).__name__)
with tempfile.TemporaryDirectory() as folder:
    loaded = Precompile.load(Precompile.save(run, Path(folder) / "ours.pt2"))
    assert loaded(inputs).tolist() == [2.0, 2.0, 2.0]
    with torch._dynamo.config.patch(enable_aot_compile=True):
        torchs = torch.compile(double, fullgraph=True).aot_compile(((torch.ones(5),), {}))
    torchs.save_compiled_function(f"{folder}/torchs.pt2")
    with (Path(folder) / "torchs.pt2").open("rb") as file:
        assert torch.compiler.load_compiled_function(file)(torch.ones(5)).tolist() == [2.0] * 5
