"""These tests check ``fx_explorer.Stages``: it returns what torch made, and what a capture of the
same model has.
"""

from __future__ import annotations

import doctest
import gc
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch._inductor.compile_fx
from torch import nn

import fx_explorer
from fx_explorer import stages as stages_module
from fx_explorer.errors import PassProblem, UsageError
from fx_explorer.model import Artifact, Compilation, Gate, Graph, Intervention, Mark, RegionLowering
from fx_explorer.session import SessionReader
from fx_explorer.stages import StageError, Stages, StageView
from tests.capture.stepping.driving import Net, WithNorm
from tests.exhaustive import in_exhaustive_runs, with_others

pytestmark = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)

GELU_TO_RELU = """
import torch

def pass_(gm):
    for node in list(gm.graph.nodes):
        if node.target is torch.nn.functional.gelu:
            node.target = torch.relu
            node.kwargs = {}
"""

NEGATED = """
import torch

def pass_(gm):
    for node in list(gm.graph.nodes):
        if node.target is torch.ops.aten.erf.default:
            node.target = torch.ops.aten.neg.default
"""


class Broken(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        torch._dynamo.graph_break()
        return self.down(nn.functional.gelu(x))


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, use_cache=False, **sizes))


def stages_of(model: nn.Module, *inputs: object, **options: object) -> Stages:
    return Stages(model, *(inputs or (torch.randn(4, 16),)), **options)  # type: ignore[arg-type]


def code(view: StageView) -> list[str]:
    """Output codes without comments and the number that AOTAutograd gives them."""
    texts = [one.text for one in view.texts if one.document.title.startswith("Output code")]
    return [re.sub(r"#.*|\b(?:forward|backward|inference)_\d+", "", text).strip() for text in texts]


def recorded_code(path: Path, step: Callable[[], object]) -> list[str]:
    """The same, of torch.compile recorded and not driven."""
    torch._dynamo.reset()
    with fx_explorer.record(path, build=False):
        step()
    torch._dynamo.reset()
    with SessionReader(path) as reader:
        texts = [reader.text(row.text) for row in reader.rows(Artifact, kind="output_code")]
        order = {
            (row.compilation, row.direction): i
            for i, row in enumerate(reader.rows(Artifact, kind="output_code"))
        }
    assert list(order.values()) == sorted(order.values())
    return [re.sub(r"#.*|\b(?:forward|backward|inference)_\d+", "", text).strip() for text in texts]


@pytest.mark.parametrize("make", with_others([Broken], [Net]))
def test_stage_by_stage_gives_the_code_of_an_undriven_compile(
    tmp_path: Path, make: Callable[[], nn.Module]
) -> None:
    torch.manual_seed(0)
    model, x = make(), torch.randn(4, 16)
    expected = recorded_code(tmp_path / "s.fxs", lambda: torch.compile(model)(x).sum().backward())
    stages = stages_of(model, x)
    assert {one.document.stage for one in stages.dynamo().shown} == {"dynamo"}
    assert stages.view("inductor").shown == []
    assert {graph.direction for graph in stages.aot().graphs if graph.direction} == {
        "forward",
        "backward",
    }
    assert stages.view("inductor").shown == []
    assert code(stages.inductor()) == expected


@in_exhaustive_runs
def test_a_llama_of_transformers_goes_through_all_stages(tmp_path: Path) -> None:
    model, ids = llama(), torch.randint(0, 64, (2, 8))
    expected = recorded_code(
        tmp_path / "s.fxs", lambda: torch.compile(model)(ids, labels=ids).loss.backward()
    )
    stages = stages_of(model, ids, kwargs={"labels": ids})
    assert code(stages.inductor()) == expected
    saved = {row.name for row in stages.aot().saved_tensors}
    placeholders = {
        node.name
        for graph in stages.aot().graphs
        if graph.direction == "backward"
        for node in graph.nodes
    }
    assert saved
    assert saved <= placeholders


def test_graph_breaks_and_guards_are_there_after_dynamo() -> None:
    captured = stages_of(Broken()).dynamo()
    (found,) = captured.graph_breaks
    assert found.file == __file__
    assert "graph_break()" in found.code
    assert {guard.kind for guard in captured.guards} >= {"TENSOR_MATCH", "GRAD_MODE"}
    assert f"graph break at {__file__}:{found.line}" in str(captured)


def test_between_the_calls_torch_is_untouched() -> None:
    before = torch._inductor.compile_fx.compile_fx, torch._inductor.config.max_fusion_size
    stages = stages_of(Net())
    stages.aot()
    stages.set({"inductor.max_fusion_size": 1})
    assert (torch._inductor.compile_fx.compile_fx, torch._inductor.config.max_fusion_size) == before
    rows = len(stages.dynamo().shown)
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert len(stages.dynamo().shown) == rows


def test_an_option_set_after_aot_changes_what_inductor_makes() -> None:
    plain, changed = stages_of(WithNorm()), stages_of(WithNorm())
    changed.aot()
    changed.set({"inductor.max_fusion_size": 1})
    assert len(code(changed.inductor())[0]) > len(code(plain.inductor())[0])


def test_what_the_user_sets_goes_before_what_held_when_the_model_ran() -> None:
    config = torch._inductor.config
    plain, of_program, changed = stages_of(WithNorm()), stages_of(WithNorm()), stages_of(WithNorm())
    before = config.max_fusion_size
    plain.inductor()
    for stages in (of_program, changed):
        with config.patch(max_fusion_size=1):
            stages.dynamo()
    changed.set({"inductor.max_fusion_size": before})
    assert code(changed.inductor()) == code(plain.view("inductor")) != code(of_program.inductor())
    assert config.max_fusion_size == before


def test_a_mark_on_a_graph_that_was_compiled_at_once_is_refused() -> None:
    stages = stages_of(Net())
    with torch._inductor.config.patch(
        post_grad_custom_post_pass=lambda graph: None
    ):  # the program's own, which cannot wait
        stages.dynamo()
    with pytest.raises(UsageError, match="compiled in one go"):
        stages.mark("head", module="down")


@pytest.mark.parametrize(
    "settings", [{"inductor.no_such": 1}, {"inductor.max_fusion_size": "many"}]
)
def test_a_wrong_option_is_refused_and_nothing_is_lost(settings: dict[str, object]) -> None:
    stages = stages_of(Net())
    with pytest.raises(UsageError, match=next(iter(settings))):
        stages.set(settings)
    with pytest.raises(UsageError, match=next(iter(settings))):
        stages.again("dynamo", settings=settings)
    assert len(stages.inductor().variants) == 1


def test_another_variant_repeats_nothing_before_its_gate_and_can_be_compared() -> None:
    stages = stages_of(WithNorm())
    first = stages.inductor()
    other = stages.again("post_grad", settings={"inductor.max_fusion_size": 1})
    (variant,) = other.variants
    assert (variant.name, variant.variant_of, variant.variant_from) == ("0/0~1", "0/0", "post_grad")
    assert variant.saved_s > 0
    assert [graph.variant for graph in other.graphs] == ["0/0", "0/0"]
    assert code(other) != code(first)
    kernels = next(figure for figure in stages.compare("0/0", "0/0~1") if figure.what == "kernels")
    assert (int(kernels.left), int(kernels.right)) == (len(first.kernels), len(other.kernels))


def test_another_variant_can_set_out_before_inductor_was_run() -> None:
    stages = stages_of(Net())
    stages.aot()
    other = stages.again("joint")
    assert code(other) == code(stages.inductor())


def test_a_marked_region_is_what_regional_inductor_compiles() -> None:
    stages = stages_of(Net(), backend="regional_inductor")
    assert "1 node" in stages.mark("head", module="down")
    stages.inductor()
    with SessionReader(stages.session) as reader:
        lowered = {(row.direction, row.name) for row in reader.rows(RegionLowering) if row.subgraph}
        (edit,) = reader.rows(Intervention)
    assert lowered == {("forward", "head"), ("backward", "head")}
    assert (edit.kind, edit.gate) == ("mark", "dynamo")


@pytest.mark.parametrize(
    ("gate", "source"),
    with_others([("joint", NEGATED)], [("dynamo", GELU_TO_RELU), ("partition", NEGATED)]),
)
def test_a_pass_is_applied_once_and_changes_the_code(
    tmp_path: Path, gate: Gate, source: str
) -> None:
    (tmp_path / "edit.py").write_text(source)
    stages = stages_of(Net())
    stages.apply_pass(tmp_path / "edit.py", gate, "forward" if gate == "partition" else "")
    forward = code(stages.inductor())[0]
    assert ".erf()" not in forward
    with SessionReader(stages.session) as reader:
        (edit,) = reader.rows(Intervention)
        assert edit.gate == gate
        assert reader.get(Graph, edit.before).stage == reader.get(Graph, edit.after).stage


def test_what_comes_too_late_is_refused_with_the_other_variant(tmp_path: Path) -> None:
    (tmp_path / "edit.py").write_text(NEGATED)
    stages = stages_of(Net())
    stages.aot()
    for gate in ("dynamo", "pre_grad", "joint"):
        with pytest.raises(UsageError, match=rf'again\("{gate}"'):
            stages.apply_pass(tmp_path / "edit.py", gate)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r'again\("dynamo"'):
        stages.mark("head", module="down")
    assert (
        stages.again("dynamo", marks=(Mark("head", module="down"),)).variants[0].variant_from
        == "dynamo"
    )


def test_a_gate_that_does_not_exist_is_refused_with_those_that_do() -> None:
    stages = stages_of(Net())
    with pytest.raises(UsageError, match="joint, partition"):
        stages.again("fusion")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="pre_grad"):
        stages.graph_module("fusion")  # type: ignore[arg-type]


def test_a_direction_that_cannot_be_lowered_alone_is_refused() -> None:
    stages = stages_of(Net())
    stages.aot()
    with pytest.raises(UsageError, match="forward, backward or inference"):
        stages.again("partition", direction="sideways")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="are separate only from the partition on"):
        stages.again("joint", direction="forward")


def test_a_region_with_an_option_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(UsageError, match=r"region 'head': .*max_fusion_size"):
        stages_of(Net()).mark("head", module="down", configs={"max_fusion_size": "many"})


def test_a_function_without_tensors_says_why_there_is_nothing() -> None:
    assert (
        str(stages_of(lambda x: 3).dynamo())
        == "[0/0] nothing: Dynamo captured no tensor operation here"
    )


def test_a_pass_file_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(PassProblem, match=r"none\.py"):
        stages_of(Net()).apply_pass(tmp_path / "none.py", "joint")


def test_a_stage_that_fails_says_so_and_keeps_the_rest(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def pass_(gm):\n    raise KeyError('gelu')\n")
    stages = stages_of(Broken())
    stages.apply_pass(tmp_path / "bad.py", "joint")
    with pytest.raises(StageError, match=r"bad\.py:2") as raised:
        stages.inductor()
    assert raised.value.view.variants[0].status == "failed"
    assert stages.dynamo().graphs


def test_a_model_that_raises_keeps_what_was_captured_before() -> None:
    class Raising(Broken):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            super().forward(x)
            raise LookupError("no such thing")

    stages = stages_of(Raising())
    with pytest.raises(LookupError, match="no such thing"):
        stages.dynamo()
    assert stages.dynamo().graphs
    assert stages.inductor().kernels


def test_an_eager_backend_says_why_there_is_nothing_more() -> None:
    stages = stages_of(Net(), backend="eager")
    assert stages.aot().graphs == []
    assert stages.aot().missing == {"0/0": "backend eager does not use AOTAutograd"}
    assert "does not use" in str(stages.inductor())


def test_the_live_graph_of_a_stage_is_a_copy() -> None:
    stages = stages_of(Net(), train=False)
    stages.aot()
    graph = stages.graph_module("dynamo")
    names = [node.name for node in graph.graph.nodes]
    graph.graph.erase_node(list(graph.graph.nodes)[-1])
    assert [node.name for node in stages.graph_module("dynamo").graph.nodes] == names
    assert [node.name for node in stages.dynamo().graphs[0].nodes] == names
    with pytest.raises(UsageError, match="post-grad"):
        stages.graph_module("post_grad", "inference")


def test_the_session_file_is_complete_and_outlives_the_object(tmp_path: Path) -> None:
    with Stages(Net(), torch.randn(4, 16), session=tmp_path / "net.fxs") as stages:
        stages.inductor()
    with SessionReader(tmp_path / "net.fxs") as reader:
        assert reader.meta("outcome")["kind"] == "finished"
        assert "Still at work" not in stages.overview()
        assert reader.meta("target")["train"] is True
        assert [row.status for row in reader.rows(Compilation)] == ["ok"]
    with pytest.raises(FileExistsError):
        Stages(Net(), torch.randn(4, 16), session=tmp_path / "net.fxs")


def test_a_session_without_a_name_goes_with_the_object() -> None:
    stages = stages_of(Net())
    path = stages.session
    assert path.exists()
    del stages
    gc.collect()
    assert not path.exists()


def test_a_model_is_taken_through_the_stages_twice() -> None:
    model = Net()
    first, second = stages_of(model), stages_of(model)
    assert code(first.inductor()) == code(second.inductor())
    assert [variant.name for variant in second.inductor().variants] == ["0/0"]


def test_what_was_compiled_before_goes_on_working() -> None:
    model, x = Net().eval(), torch.randn(4, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(model, backend="aot_eager")
    expected = compiled(x)
    stages_of(model, x).inductor()
    torch.testing.assert_close(compiled(x), expected)


def test_the_examples_in_the_docstrings_run() -> None:
    ran = doctest.testmod(stages_module)
    assert ran.attempted > 5
    assert ran.failed == 0


def test_closed_stages_compile_nothing_and_say_why() -> None:
    stages = stages_of(nn.Linear(4, 4), torch.ones(2, 4))
    stages.dynamo()
    stages.close()
    calls: tuple[Callable[[], object], ...] = (
        stages.aot,
        stages.inductor,
        lambda: stages.again("dynamo"),
        lambda: stages.set({"inductor.max_fusion_size": 1}),
        lambda: stages.mark("a", nodes=("linear",)),
    )
    for call in calls:
        with pytest.raises(UsageError, match="closed"):
            call()
    assert len(stages.dynamo().graphs) == 1
