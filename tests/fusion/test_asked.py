"""These tests ask Inductor for other kernels than it chose: two in one, or one taken apart."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import torch
import torch._inductor.config
from torch._inductor.choices import InductorChoices

from fx_explorer import cli, model
from fx_explorer.analysis.other_variants import describe_changes
from fx_explorer.capture.inductor.asked_fusions import asked_fusions
from fx_explorer.client import Capture
from fx_explorer.errors import UsageError
from fx_explorer.instruments.fusion.asked import (
    apart_change,
    asked_fusion,
    changes_for,
    offered_fusions,
)
from fx_explorer.instruments.fusion.figures import Unfused, unfused_in, unfused_pairs
from fx_explorer.instruments.fusion.trial import try_fusion
from fx_explorer.instruments.fusion.tried_fusions import describe_tried
from fx_explorer.model import Changes, Command, FusionChange, FusionKind, Notice, Outcome
from fx_explorer.session import SessionReader
from fx_explorer.trials import TrialWorker, recapture, straight_through
from fx_explorer.variant_trials import VariantTrial

LIMITED = Path(__file__).parent / "limited.py"


@pytest.fixture
def session(captured, reader) -> SessionReader:
    return reader(captured(f"{LIMITED}:normalized", gpu="h100"))


@pytest.fixture
def tried(session: SessionReader, warm_python_for_h100: str) -> Callable[..., VariantTrial]:
    async def try_kernels(kind: FusionKind, *kernels: str) -> VariantTrial:
        request = session.request()
        assert request is not None
        asked = asked_fusion(session, kind, kernels)
        return await try_fusion(request, asked, TrialWorker(warm_python_for_h100), measures=True)

    return try_kernels


def pair_for(session: SessionReader, kind: str) -> Unfused:
    """Return the first pair that is apart for this kind of reason."""
    return next(pair for pair in unfused_pairs(session) if pair.cause.kind == kind)


def numbers(pair: Unfused) -> tuple[str, str]:
    return f"#{pair.first.kernel.id}", f"#{pair.second.kernel.id}"


async def test_a_limit_does_not_hold_for_kernels_that_are_asked_for(session, tried) -> None:
    pair = pair_for(session, "size limit")
    trial = await tried("together", *numbers(pair))
    assert trial.is_done, trial.refused
    assert len(trial.after.kernels) == len(trial.before.kernels) - 1
    assert trial.before.moved_bytes - trial.after.moved_bytes == pair.pair.saved_bytes
    assert trial.not_measured.startswith("Nothing can run on a virtual GPU")


async def test_a_fusion_that_would_be_wrong_is_refused_with_the_reason(session, tried) -> None:
    trial = await tried("together", *numbers(pair_for(session, "one between")))
    assert not trial.is_done
    assert re.match(r"#\d+ runs between them: it needs the first", trial.refused)
    assert trial.after.kernels == trial.before.kernels


async def wait_for_command(notices: AsyncIterator[Notice]) -> None:
    """Wait until the worker can be sent a command, after the program or an earlier command."""
    async for notice in notices:
        is_end = notice.kind == "gate" and notice.state == "begin" and notice.gate is None
        if is_end or notice.kind in ("done", "refused"):
            return


async def test_the_list_says_what_came_of_a_pair_that_was_tried(
    session: SessionReader, warm_python_for_h100: str
) -> None:
    pairs = [pair_for(session, kind) for kind in ("one between", "size limit")]
    asked = [asked_fusion(session, "together", numbers(pair)) for pair in pairs]

    async def attend(capture: Capture) -> Outcome:
        notices = capture.notices()
        await wait_for_command(notices)
        for fusion in asked:
            with SessionReader(capture.session_path) as reader:
                changes = Changes(fusions=changes_for(reader, fusion))
            compilation = fusion.first.compilation
            capture.send(Command("again", "post_grad", compilation, changes=changes))
            await wait_for_command(notices)
        return await capture.cancel()

    def sentences(reader: SessionReader) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for variant in reader.rows(model.Compilation):
            pairs = unfused_in(reader, variant)
            found[variant.name] = [describe_tried(reader, pair) for pair in pairs]
        return found

    request = session.request()
    assert request is not None
    again = straight_through(request, stay=True)
    worker = TrialWorker(warm_python_for_h100)
    result = await recapture(again, worker, sentences, attend=attend)
    of_first = [sentence for sentence in result.found["0/0"] if sentence]
    assert len(of_first) == 2
    assert any(each.startswith("Tried, as [0/0~1]: Inductor refused") for each in of_first)
    assert "Tried, as [0/0~2]: Inductor made one kernel of them." in of_first
    assert "Tried, as [0/0~1]: Inductor refused, for this reason." in result.found["0/0~1"]
    # The pair of which one kernel was made is no pair of that variant.
    refused = [sentence for sentence in result.found["0/0~2"] if sentence]
    assert all("refused" in sentence for sentence in refused)
    assert describe_tried(session, pairs[0]) == ""


async def test_each_operation_of_a_kernel_has_one_of_its_own(session, tried) -> None:
    trial = await tried("apart", "_cos_sin_sub_sum_0")
    assert trial.is_done, trial.refused
    assert len(trial.after.kernels) > len(trial.before.kernels)


def test_what_can_be_asked_of_a_kernel(session: SessionReader) -> None:
    first, second = numbers(pair_for(session, "size limit"))
    kernel = next(row for row in session.rows(model.Kernel) if f"#{row.id}" == first)
    offers = offered_fusions(session, kernel)
    assert offers[-1].asked.kind == "apart"
    assert offers[0].words.startswith(f"fuse it with {second} ")
    (change,) = changes_for(session, offers[0].asked)
    (words,) = describe_changes(Changes(fusions=(change,)))
    assert words.endswith("in one kernel")


def test_the_command_lists_pairs_as_json(session: SessionReader, capsys) -> None:
    assert cli.main(["fusion", str(session.path), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["count"] == len(answer["pairs"]) >= 2
    assert "size limit" in {pair["why"] for pair in answer["pairs"]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--together", "#1", "#1"], "give two kernels to fuse"),
        (["--together", "#1", "nothing"], "there is no kernel nothing"),
        (["--together", "#1", "_fused"], "there is no kernel _fused"),
        (["--apart", "#99"], "there is no kernel #99"),
        (["--time"], "--time needs --together or --apart"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    words: list[str], message: str, session: SessionReader, capsys
) -> None:
    assert cli.main(["fusion", str(session.path), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_library_call_is_not_asked_for(captured, reader) -> None:
    session = reader(captured(Path(__file__).parent / "planted.py", gpu="h100"))
    library = next(row for row in session.rows(model.Kernel) if row.language == "extern")
    with pytest.raises(UsageError, match="is a library call"):
        asked_fusion(session, "apart", [f"#{library.id}"])


def test_changes_are_the_same_after_json() -> None:
    changes = Changes(fusions=(FusionChange("together", ("buf0", "buf1"), ("buf2",), "backward"),))
    assert Changes.from_json(json.loads(json.dumps(changes.to_json()))) == changes
    with pytest.raises(TypeError, match="kind"):
        Changes.from_json({"fusions": [{"kind": "neither", "first": ["a"], "second": ["b"]}]})


def two_sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    sine = x.sin()
    return sine.sum(1), (sine * 2).sum(1)


@pytest.mark.parametrize("direction", ["inference", "backward"])
def test_results_are_the_same_when_all_is_apart(direction: model.Direction) -> None:
    x = torch.linspace(-1, 1, 32 * 64).reshape(32, 64)
    buffers = tuple(f"buf{number}" for number in range(8))
    call = model.KernelCall(1, 1, 0, 0, buffers)
    before = vars(InductorChoices)["can_fuse"]
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        asked_fusions([apart_change(call, "inference")], direction),
    ):
        torch._dynamo.reset()
        results = torch.compile(two_sums)(x)
    assert vars(InductorChoices)["can_fuse"] is before
    for result, expected in zip(results, two_sums(x), strict=True):
        torch.testing.assert_close(result, expected)
