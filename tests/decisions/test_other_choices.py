"""These tests have Inductor choose otherwise at a decision: another memory layout, another
candidate, an option. What the code then computes is compared with eager mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch._inductor.config

from fx_explorer import cli, model
from fx_explorer.analysis.other_variants import describe_changes
from fx_explorer.capture.inductor.asked_choices import asked_layouts
from fx_explorer.instruments.decisions.figures import Explained, explained_decisions
from fx_explorer.instruments.decisions.other_choices import (
    OtherChoice,
    choice_named,
    other_choices,
    why_no_other,
)
from fx_explorer.instruments.decisions.trial import try_choice
from fx_explorer.model import CandidateChange, Changes, LayoutChange
from fx_explorer.session import SessionReader
from fx_explorer.trials import TrialWorker
from fx_explorer.variant_trials import VariantTrial

HERE = Path(__file__).parent


@pytest.fixture
def on_cpu(captured, reader) -> SessionReader:
    return reader(captured(f"{HERE / 'choosing_cpu.py'}:convolved"))


@pytest.fixture
def on_gpu(captured, reader) -> SessionReader:
    return reader(captured(f"{HERE / 'choosing_gpu.py'}:product", gpu="h100"))


def explained_of(
    session: SessionReader, kind: str, wanted: Callable[[Explained], bool] = lambda _: True
) -> Explained:
    for explained in explained_decisions(session):
        if explained.decision.kind == kind and wanted(explained):
            return explained
    raise AssertionError(f"no decision about {kind}")


def named(session: SessionReader, explained: Explained, name: str) -> OtherChoice:
    choice = choice_named(other_choices(session, explained), name)
    assert choice is not None, [each.name for each in other_choices(session, explained)]
    return choice


def copied_node(session: SessionReader, explained: Explained) -> str:
    """Return the node whose value is copied."""
    return session.get(model.Node, explained.decision.about).name


def copies(session: SessionReader, variant: model.Compilation) -> set[str]:
    """Return the nodes whose values the code of a variant copies for another layout."""
    calls = set()
    for kernel in session.rows(model.Kernel, compilation=variant.id):
        calls |= {call.id for call in session.rows(model.KernelCall, kernel=kernel.id)}
    return {
        session.get(model.Node, row.about).name
        for row in session.rows(model.KernelDecision, kind="layout", outcome="copied")
        if row.call in calls
    }


async def tried(
    session: SessionReader,
    explained: Explained,
    name: str,
    python: str,
    folder: Path | None = None,
) -> VariantTrial:
    request = session.request()
    assert request is not None
    (compilation,) = session.by_ids(model.Compilation, [explained.kernel.compilation])
    kernel = compilation.name, explained.kernel.direction
    choice = named(session, explained, name)
    return await try_choice(request, kernel, choice, TrialWorker(python), folder=folder)


async def test_an_input_in_the_layout_that_is_asked_for_needs_no_copy(
    on_cpu: SessionReader, warm_python: str, tmp_path: Path
) -> None:
    copied = explained_of(on_cpu, "layout", lambda each: each.decision.outcome == "copied")
    trial = await tried(on_cpu, copied, "channels_last", warm_python, tmp_path)
    assert trial.is_done, trial.refused
    assert trial.session
    with SessionReader(trial.session) as both:
        original, variant = both.rows(model.Compilation)
        assert (trial.original, trial.variant) == (original.name, variant.name)
        (name,) = describe_changes(Changes.from_json(variant.changes or {}))
        assert name == f"{copied_node(on_cpu, copied)} in channels_last"
        assert copies(both, original) - copies(both, variant) == {copied_node(on_cpu, copied)}


async def test_convolutions_without_layout_optimization_copy_nothing(
    on_cpu: SessionReader, warm_python: str
) -> None:
    copied = explained_of(on_cpu, "layout", lambda each: each.decision.outcome == "copied")
    trial = await tried(on_cpu, copied, "layout_optimization", warm_python)
    assert trial.is_done, trial.refused


async def test_another_candidate_is_taken_without_timing(
    on_gpu: SessionReader, warm_python_for_h100: str
) -> None:
    chosen = explained_of(on_gpu, "candidates")
    choices = other_choices(on_gpu, chosen)
    library = next(each for each in choices if " " not in each.name)
    assert library.words == "mm by the library's mm"
    trial = await tried(on_gpu, chosen, library.name, warm_python_for_h100)
    assert trial.is_done, trial.refused
    assert trial.before
    assert trial.after
    assert any("extern_kernels" in kernel for kernel in trial.after.kernels)
    assert not any("extern_kernels" in kernel for kernel in trial.before.kernels)


async def test_a_second_configuration_writes_another_kernel(
    on_gpu: SessionReader, warm_python_for_h100: str
) -> None:
    chosen = explained_of(on_gpu, "candidates")
    templates = [each for each in other_choices(on_gpu, chosen) if " " in each.name]
    assert len(templates) > 2
    trial = await tried(on_gpu, chosen, templates[-1].name, warm_python_for_h100)
    assert trial.is_done, trial.refused


def test_on_a_cpu_it_is_said_that_a_product_has_no_other_candidate(
    on_cpu: SessionReader, capsys: pytest.CaptureFixture[str]
) -> None:
    library = explained_of(on_cpu, "library call", lambda each: "mm" in each.kernel.name)
    assert other_choices(on_cpu, library) == []
    assert "no other candidate on this CPU" in why_no_other(library)
    assert cli.main(["decisions", str(on_cpu.path), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["decisions"]
    sentences = [row["nothing_to_try"] for row in rows if "mm" in row["kernel"]]
    assert "no other candidate on this CPU" in sentences[0]


def test_the_list_has_a_number_and_the_other_choices_for_each_decision(
    on_cpu: SessionReader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["decisions", str(on_cpu.path)]) == 0
    printed = capsys.readouterr().out
    assert "other choices" in printed
    assert "channels_last" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--try", "99", "mm"], "there is no decision 99"),
        (["--try", "1", "mm"], "nothing can be tried there. There is no other candidate"),
        (["--try", "4", "no such choice"], "there is no one choice"),
        (["--time"], "--time is for --try"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    words: list[str], message: str, on_cpu: SessionReader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["decisions", str(on_cpu.path), *words]) == 2
    assert message in capsys.readouterr().err


def test_changes_are_the_same_after_json() -> None:
    changes = Changes(
        layouts=(LayoutChange("relu", (3, 0, 2, 1), "forward"),),
        candidates=(CandidateChange("mm", "triton_mm BLOCK_M=64"),),
    )
    assert Changes.from_json(json.loads(json.dumps(changes.to_json()))) == changes
    assert changes
    with pytest.raises((TypeError, ValueError)):
        Changes.from_json({"layouts": [{"node": "relu", "order": ["a"]}]})


def in_between(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    product = (x + 1) @ weight
    return (product.sin() * 2).sum(0), product.transpose(0, 1) + 1


@pytest.mark.parametrize("node", ["add", "mm", "sin", "mul"])
def test_results_are_the_same_in_another_layout(node: str) -> None:
    x, weight = torch.randn(16, 32), torch.randn(32, 24)
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        asked_layouts([LayoutChange(node, (0, 1))], "inference"),
    ):
        torch._dynamo.reset()
        results = torch.compile(in_between)(x, weight)
    for result, expected in zip(results, in_between(x, weight), strict=True):
        torch.testing.assert_close(result, expected)
        assert result.stride() == expected.stride()
