"""These tests capture programs of many kinds for a virtual GPU."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.link_explanations import link_coverage
from fx_explorer.session import SessionReader
from tests.capture.virtual_gpu.conftest import HERE, ForGpu, needs_triton, told
from tests.exhaustive import IS_EXHAUSTIVE, in_exhaustive_runs, with_others
from tests.worker.capturing import Ended

pytestmark = needs_triton

SCRIPT = HERE / "programs.py"
RECORDED = HERE.parents[1] / "golden_gpu" / "programs.py"
SAMPLES = HERE.parents[2] / "sample_models"
MODELS = HERE / "models.py"
FEW = ("mlp", "fused_attention")
MORE = (
    "recurrent_loop",
    "matmul_template",
    "layer_norm",
    "transformer_block_in_autocast",
    "convolutions",
    "embedding",
    "dynamic_batch",
    "graph_break",
    "scans_and_sorts",
    "optimizer_step",
    "value_dependent",
)
"""Of each kind of program one, for one GPU. An exhaustive run compiles all programs for each GPU."""

FUSED = dict(with_others([("h100", "cudnn"), ("mi300x", "flash")], [("a100", "flash")]))

Opened = Callable[[Ended], SessionReader]


def names() -> list[str]:
    """Return the names of the functions under ``@program``."""
    files = (ast.parse(file.read_text()) for file in (RECORDED, SCRIPT))
    functions = [node for file in files for node in file.body if isinstance(node, ast.FunctionDef)]
    return [
        one.name
        for one in functions
        if "program" in [ast.unparse(decorator) for decorator in one.decorator_list]
    ]


@pytest.fixture
def zoo(for_gpu: ForGpu) -> Callable[[str], Ended]:
    """Return the programs for one GPU, compiled."""
    return lambda gpu: for_gpu(SCRIPT, gpu, as_script=True, arguments=tuple(programs_for(gpu)))


def programs_for(gpu: str) -> list[str]:
    if IS_EXHAUSTIVE:
        return names()
    return [*FEW, *MORE] if gpu == "h100" else list(FEW)


@pytest.mark.parametrize("gpu", FUSED)
def test_every_program_is_compiled(zoo: Callable[[str], Ended], gpu: str) -> None:
    ended = zoo(gpu)
    assert told(ended, "failed") == []
    assert told(ended, "compiled") == programs_for(gpu)
    assert ended.outcome.kind == "finished"


@pytest.mark.parametrize("gpu", FUSED)
def test_kernels_are_triton_in_both_directions(
    zoo: Callable[[str], Ended], opened: Opened, gpu: str
) -> None:
    kernels = opened(zoo(gpu)).rows(model.Kernel)
    assert {kernel.language for kernel in kernels} == {"triton", "extern"}
    assert {kernel.direction for kernel in kernels if kernel.language == "triton"} >= {
        "forward",
        "backward",
    }


@pytest.mark.parametrize("gpu", FUSED)
def test_attention_is_fused_and_not_decomposed(
    zoo: Callable[[str], Ended], opened: Opened, gpu: str
) -> None:
    called = {kernel.name for kernel in opened(zoo(gpu)).rows(model.Kernel, language="extern")}
    fused = f"torch.ops.aten._scaled_dot_product_{FUSED[gpu]}_attention"
    assert {f"{fused}.default", f"{fused}_backward.default"} <= called


@pytest.mark.parametrize("gpu", FUSED)
def test_the_code_is_for_that_gpu(zoo: Callable[[str], Ended], opened: Opened, gpu: str) -> None:
    """Inductor writes the device into each kernel: ``DeviceProperties(type='cuda', …, cc=90, …)``."""
    reader = opened(zoo(gpu))
    sources = [
        reader.text(artifact.text)
        for artifact in reader.rows(model.Artifact, kind="kernel", language="triton")
    ]
    wanted = {
        "h100": ("type='cuda'", "cc=90,"),
        "a100": ("type='cuda'", "cc=80,"),
        "mi300x": ("type='hip'", "cc='gfx942'"),
    }
    assert sources
    assert all(word in source for source in sources for word in wanted[gpu])


def test_a_matmul_is_a_triton_template_when_it_is_tuned_and_its_candidates_are_listed(
    zoo: Callable[[str], Ended],
) -> None:
    choices = zoo("h100").meta["virtual_gpu_choices"]
    assert [choice["shown"] for choice in choices] == [
        choice["candidates"][0]["name"] for choice in choices
    ]
    assert all(len(choice["candidates"]) > 10 for choice in choices)
    assert "BLOCK_M" in choices[0]["candidates"][0]["description"]


def test_the_session_names_the_gpu_and_how_the_program_was_fed(zoo: Callable[[str], Ended]) -> None:
    meta = zoo("h100").meta
    assert meta["environment"]["virtual_gpu"] == "NVIDIA H100 SXM 80 GB"
    assert meta["request"]["gpu"]["name"] == "h100"
    assert meta["virtual_gpu"]["feeding"] == "transplant"


def test_values_are_real_while_the_program_runs_on_the_cpu(
    zoo: Callable[[str], Ended], opened: Opened
) -> None:
    """The program of the branch that needs a value goes on behind it: that is a compilation of its
    own.
    """
    resumed = [
        row
        for row in opened(zoo("h100")).rows(model.Compilation)
        if "torch_dynamo_resume_in_run" in row.function
    ]
    assert resumed


def test_statements_of_triton_kernels_have_their_nodes(
    zoo: Callable[[str], Ended], opened: Opened
) -> None:
    for found in link_coverage(opened(zoo("h100"))):
        assert found.kernel_lines > 100
        assert found.kernel_lines_linked >= 0.95 * found.kernel_lines
        assert found.to_kernel >= 0.95 * found.compute_nodes


@in_exhaustive_runs
def test_statements_and_lines_of_a_model_are_linked_to_nodes(
    for_gpu: ForGpu, opened: Opened
) -> None:
    names = with_others(["llama"], ["vit"])
    ended = for_gpu(MODELS, "h100", as_script=True, arguments=tuple(names))
    assert told(ended, "compiled") == names, told(ended, "failed")
    coverage = {one.direction: one for one in link_coverage(opened(ended))}
    for direction in ("forward", "backward"):
        found = coverage[direction]
        assert found.kernel_lines > 100
        assert found.kernel_lines_linked >= 0.95 * found.kernel_lines
        assert found.to_kernel >= 0.95 * found.compute_nodes
        assert found.to_source >= 0.9 * found.nodes


@in_exhaustive_runs
@pytest.mark.parametrize(
    "options",
    with_others([{"mode": "reduce-overhead"}], [{"backend": "regional_inductor"}]),
    ids=str,
)
def test_other_ways_of_compiling_make_triton_kernels_too(
    for_gpu: ForGpu, opened: Opened, options: dict[str, str]
) -> None:
    ended = for_gpu(SAMPLES / "regions.py", "h100", **options)
    assert ended.outcome.kind == "finished", ended.outcome
    generated = {kernel.language for kernel in opened(ended).rows(model.Kernel)} - {"extern"}
    assert generated == {"triton"}


@in_exhaustive_runs
def test_code_is_the_same_in_a_process_that_is_forked_with_its_gpu_and_in_a_fresh_one(
    for_gpu: ForGpu, opened: Opened
) -> None:
    """Most tests for an H100 fork a process that has it already (tests/warm_python.py)."""
    codes = []
    for options in ({}, {"python": sys.executable}):
        reader = opened(for_gpu(SAMPLES / "mlp.py", "h100", **options))
        codes.append(
            [reader.text(row.text) for row in reader.rows(model.Artifact, kind="output_code")]
        )
    assert codes[0] == codes[1]
    assert len(codes[0]) == 2, "a forward and a backward"


@in_exhaustive_runs
def test_nothing_of_it_is_in_the_caches_of_a_real_gpu(
    own_cache: Path, for_gpu: ForGpu, tmp_path: Path
) -> None:
    """A program that says where the compilers would put things."""
    (tmp_path / "where.py").write_text(
        "import os, torch\nfrom torch._inductor.runtime.cache_dir_utils import cache_dir\n"
        "torch.compile(torch.sin)(torch.ones(3))\n"
        "print(cache_dir(), os.environ['TRITON_CACHE_DIR'], [os.environ['CUDA_VISIBLE_DEVICES']], sep='\\n')\n"
    )
    inductor, triton, devices = for_gpu(tmp_path / "where.py", "l4").printed()
    assert Path(inductor).is_relative_to(own_cache / "fx-explorer")
    assert Path(triton).is_relative_to(own_cache / "fx-explorer")
    assert devices == "['']"
