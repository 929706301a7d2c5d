import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import nn
from torch._inductor.graph import GraphLowering

from fx_explorer.capture.inspecting import NotBuilt, inspecting
from tests.capture.lowering import fresh_compiler
from tests.exhaustive import with_others


def inspected(function: Any, *args: Any, **options: Any) -> Any:
    with fresh_compiler(), inspecting():
        return torch.compile(function, **options)(*args)


def test_results_and_gradients_are_those_of_eager() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.BatchNorm1d(16), nn.Linear(16, 4))
    other = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.BatchNorm1d(16), nn.Linear(16, 4))
    other.load_state_dict(model.state_dict())
    x = torch.randn(5, 8)
    inspected(lambda x: model(x).square().sum(), x).backward()
    other(x).square().sum().backward()
    for mine, eager in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine.grad, eager.grad)
    for mine, eager in zip(model.buffers(), other.buffers(), strict=True):
        assert torch.equal(mine, eager), "batch norm counted once"


def mutate(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x


def alias(x: torch.Tensor) -> torch.Tensor:
    return x.view(-1)[1:]


def draw(x: torch.Tensor) -> torch.Tensor:
    return torch.rand_like(x) + torch.nn.functional.dropout(x)


def branch(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    if y.sum().item() > 0:
        return y * 2
    return y


@pytest.mark.parametrize("function", [mutate, alias, draw, branch, breaks])
@pytest.mark.parametrize("dynamic", with_others([False], [True]))
def test_a_segment_behaves_as_without_torch_compile(
    function: Callable[..., Any], dynamic: bool
) -> None:
    torch.manual_seed(1)
    mine = torch.randn(3, 4)
    theirs = mine.clone()
    with fresh_compiler(), inspecting():
        compiled = torch.compile(function, dynamic=dynamic)
        torch.manual_seed(2)
        result = compiled(mine)
        torch.manual_seed(2)
        assert torch.equal(result, function(theirs))
    assert torch.equal(mine, theirs)
    if function in (mutate, alias):
        assert result.untyped_storage().data_ptr() == mine.untyped_storage().data_ptr()


def test_a_training_step_of_nested_compile_regions_runs() -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x * 2) + 1

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    plain, x = outer, torch.ones(3, requires_grad=True)
    (expected,) = torch.autograd.grad(plain(plain(x)).sum(), x)
    inner, region = (
        torch.compiler.nested_compile_region(inner),
        torch.compiler.nested_compile_region(outer),
    )
    inspected(lambda x: region(region(x)).sum(), x).backward()
    assert torch.equal(x.grad, expected)


def test_a_second_shape_is_recompiled_and_runs() -> None:
    with fresh_compiler(), inspecting():
        compiled = torch.compile(lambda x: x.sin() * x.shape[0])
        for size in (3, 5, 7):
            assert torch.equal(compiled(torch.ones(size)), torch.ones(size).sin() * size)


def test_an_exception_of_the_compiler_comes_through() -> None:

    from fx_explorer.capture.torch_compat.patching import patched

    def fail(_: object) -> Any:
        def run(*_: object) -> None:
            raise ZeroDivisionError("lowering failed")

        return run

    with patched(GraphLowering, "run", fail), pytest.raises(Exception, match="lowering failed"):
        inspected(torch.sin, torch.ones(3))


def test_other_backends_are_left_alone() -> None:
    seen: list[torch.fx.GraphModule] = []

    def backend(module: torch.fx.GraphModule, _: object) -> Any:
        seen.append(module)
        return lambda *args: (torch.full((3,), 7.0),)

    assert torch.equal(inspected(torch.sin, torch.ones(3), backend=backend), torch.full((3,), 7.0))
    assert len(seen) == 1


WITHOUT_COMPILER = """
import shutil, sys, warnings
warnings.simplefilter("ignore")
assert shutil.which("g++") is None and shutil.which("gcc") is None
import torch
from torch._inductor import codecache
from fx_explorer.capture.inspecting import inspecting
from fx_explorer.capture.inductor.generated import kernel_recording

graphs = []
with inspecting() as notes, kernel_recording(graphs.append):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU())
    torch.compile(lambda x: model(x).sum())(torch.ones(4, 8)).backward()
assert [g.is_backward for g in graphs] == [False, True]
assert "compiler" in notes, notes
assert any("at::vec::Vectorized" in k.source for g in graphs for k in g.kernels), "vector code, as with a compiler"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the compiler is hidden by an empty PATH")
def test_no_compiler_is_needed_and_nothing_is_built(tmp_path: Path) -> None:
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("CXX", "CC", "TORCHINDUCTOR_VEC_ISA_OK")
    }
    environment |= {
        "PATH": str(tmp_path),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    built = [
        path.name
        for path in (tmp_path / "cache").rglob("*")
        if path.suffix in (".so", ".o", ".gch", ".cpp")
    ]
    assert built == []


def test_a_kernel_that_was_not_built_says_so_when_called() -> None:
    with pytest.raises(RuntimeError, match="--build"):
        NotBuilt()(1)


def test_nothing_stays_changed_afterwards() -> None:
    from torch._inductor import async_compile, compile_fx, cpu_vec_isa, select_algorithm

    def state() -> list[object]:
        return [
            compile_fx.compile_fx,
            async_compile.AsyncCompile.cpp_pybinding,
            async_compile.AsyncCompile.triton,
            cpu_vec_isa.VecISA.check_build,
            torch.fx.GraphModule.print_readable,
            len(select_algorithm.get_algorithm_selector_cache().preprocessing_fns),
            torch._functorch.config.force_non_lazy_backward_lowering,
            torch._inductor.config.compile_threads,
            gc.get_threshold(),
        ]

    before = state()
    with inspecting():
        assert state() != before
    assert state() == before


def test_of_several_candidates_the_first_stands_for_all_whatever_the_program_clears() -> None:
    from torch._inductor import select_algorithm as algorithms

    def filtered(choices: list[Any]) -> list[Any]:
        for one in algorithms.get_algorithm_selector_cache().preprocessing_fns:
            if one.__module__ == inspecting.__module__:
                choices = one(choices)
        return choices

    with inspecting():
        assert filtered([1, 2]) == [1]
        algorithms.clear_preprocessing_fns(clear_defaults=False)
        assert filtered([1, 2]) == [1]
        algorithms.get_algorithm_selector_cache().preprocessing_fns.clear()
    assert filtered([1, 2]) == [1, 2]
