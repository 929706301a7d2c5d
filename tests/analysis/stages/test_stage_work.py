"""These tests compare each stage in a session with what torch itself passes from stage to stage:
counted in this process, without a recorder (bare.py), and for the smallest model by hand.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
import sqlite3
from pathlib import Path
from types import ModuleType

import pytest

from fx_explorer import model
from fx_explorer.analysis.graph_stages import StageGraphs, _fates_after_passes
from fx_explorer.analysis.stage_data import StageWork
from fx_explorer.analysis.stage_work import (
    _gathered_fates,
    points_at,
    points_in_use,
    stage_work,
    works_at,
)
from fx_explorer.overview.compiled_facts import stage_facts
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.report.json_report import stages_of_report
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import NodeOrigin, PlainNode
from tests.analysis.stages.bare import Bare, trained_bare
from tests.conftest import SAMPLES, Captured, OpenedReader
from tests.exhaustive import one_of, with_others

GPT2 = Path(__file__).parent / "gpt2.py"

LOGS = Path(__file__).parents[2] / "data"
"""Below it are logs of torch's of many kinds."""

Works = dict[tuple[str, str], StageWork]
"""By stage and direction."""


def loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bare_{file.stem}", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def works_of(reader: SessionReader) -> Works:
    return {
        (point.key, point.direction): stage_work(reader, point) for point in points_in_use(reader)
    }


@pytest.fixture(scope="module")
def bare_mlp() -> Bare:
    file = loaded(SAMPLES / "mlp.py")
    return trained_bare(file.MLP(), file.example_inputs)


@pytest.fixture(scope="module")
def bare_gpt2() -> Bare:
    file = loaded(GPT2)
    return trained_bare(file.get_model(), file.example_inputs())


@pytest.fixture(params=with_others(["mlp"], [GPT2]), ids=with_others(["mlp"], ["gpt2"]))
def both(
    request: pytest.FixtureRequest, captured: Captured, reader: OpenedReader
) -> tuple[Works, Bare]:
    bare = request.getfixturevalue("bare_mlp" if request.param == "mlp" else "bare_gpt2")
    return works_of(reader(captured(request.param))), bare


def test_each_stage_gets_and_leaves_as_many_operations_as_in_a_bare_process(
    both: tuple[Works, Bare],
) -> None:
    works, bare = both
    assert works["dynamo", ""].after == bare.dynamo
    assert (works["joint", ""].before, works["joint", ""].after) == (bare.dynamo, bare.joint)
    assert works["joint", ""].made["backward"] == bare.joint_backward
    assert (works["joint_passes", ""].before, works["joint_passes", ""].after) == (
        bare.joint,
        bare.cut,
    )
    assert works["partition", ""].before == bare.cut
    assert works["partition", ""].after == bare.forward + bare.backward
    for direction, (before, after, _, _) in zip(
        ("forward", "backward"), bare.post_grad, strict=True
    ):
        assert (works["post_grad", direction].before, works["post_grad", direction].after) == (
            before,
            after,
        )
    for direction, steps in zip(("forward", "backward"), bare.fusion, strict=True):
        assert works["pre_fusion", direction].after == steps[0]
        assert (
            works["post_fusion", direction].before,
            works["post_fusion", direction].after,
        ) == steps


def test_as_many_kernels_are_generated_as_are_built_in_a_bare_process(
    both: tuple[Works, Bare],
) -> None:
    works, bare = both
    told = [
        re.search(r"became (\d+) generated kernel", works["output_code", direction].sentence)
        for direction in ("forward", "backward")
    ]
    assert sum(int(one[1]) for one in told if one) == bare.kernels > 0


def test_what_inductors_joint_passes_removed_is_not_the_partitioners(
    both: tuple[Works, Bare],
) -> None:
    works, bare = both
    passes, cut = works["joint_passes", ""], works["partition", ""]
    assert passes.made["kept"] == bare.joint_unchanged
    assert passes.became.get("removed", 0) <= bare.joint_gone
    assert passes.before - sum(
        passes.became.get(fate, 0) for fate in ("removed", "replaced", "fused", "decomposed")
    ) >= (bare.joint - bare.joint_gone)
    assert passes.made.get("made", 0) <= bare.joint_new
    assert cut.became["both"] == bare.in_both
    assert cut.became["removed"] == bare.in_none
    assert cut.made.get("made", 0) == bare.of_neither


def test_post_grad_passes_remove_and_make_what_they_do_in_a_bare_process(
    both: tuple[Works, Bare],
) -> None:
    works, bare = both
    for direction, (_, _, gone, new) in zip(("forward", "backward"), bare.post_grad, strict=True):
        work = works["post_grad", direction]
        assert (
            sum(work.became.get(fate, 0) for fate in ("removed", "replaced", "fused", "decomposed"))
            == gone
        )
        assert (
            sum(work.made.get(fate, 0) for fate in ("made", "replaced", "fused", "decomposed"))
            == new
        )


def test_each_operation_meets_one_fate(both: tuple[Works, Bare]) -> None:
    works, _ = both
    for work in works.values():
        if work.fates:
            assert sum(work.became.values()) == work.before
        if work.made:
            assert sum(work.made.values()) == work.after


def test_the_stages_of_an_mlp_are_those_counted_by_hand(
    captured: Captured, reader: OpenedReader
) -> None:
    """linear, gelu, linear. In ATen a linear is permute and addmm, and gelu's formula is mul, mul,
    erf, add, mul.
    """
    works = works_of(reader(captured("mlp")))
    joint, forward, code = (
        works["joint", ""],
        works["post_grad", "forward"],
        works["output_code", "forward"],
    )
    assert (joint.made["decomposed"], joint.made["view"]) == (7, 2)
    assert (
        joint.sentence
        == "AOTAutograd: 3 operations became 34: 7 by decomposition, 25 for the backward and 2 views."
    )
    assert forward.sentence == "The post-grad passes changed nothing: 9 operations."
    assert code.became == {"fused": 5, "kept": 2, "view": 2}
    assert code.sentence == (
        "Code generation: 9 operations became 1 generated kernel and 2 library calls: "
        "5 share a kernel, 2 have their own kernel and 2 views and selections need no computation."
    )


def test_a_pause_after_the_partition_tells_of_the_passes_before_it_too(
    captured: Captured, reader: OpenedReader
) -> None:
    points = points_in_use(reader(captured("mlp")))
    assert [point.key for point in points_at(points, "partition", "forward")] == [
        "joint_passes",
        "partition",
    ]
    assert [point.key for point in points_at(points, "post_grad", "backward")] == ["post_grad"]


def test_the_pause_before_the_backward_tells_of_the_backward_alone(captured: Captured) -> None:
    """By hand, in the graphs: of 22 operations of the backward, the forward has 4 too."""
    (work,) = works_at(captured("mlp"), "0/0", "partition", "backward")
    assert (
        work.sentence
        == "Now the backward: 18 operations of its own and 4 operations of the forward recomputed."
    )


def test_without_a_backward_aotautograd_has_made_the_inference_graph(
    captured: Captured, reader: OpenedReader
) -> None:
    session = reader(captured("mlp", train=False))
    points = points_in_use(session)
    assert "partition" not in [point.key for point in points]
    (traced,) = points_at(points, "partition", "inference")
    assert (
        stage_work(session, traced).sentence
        == "AOTAutograd: 3 operations became 9: 7 by decomposition and 2 views."
    )
    assert [one.title for one in points if one.key == "post_grad"] == ["Inductor's graph passes"]


def test_a_session_without_the_joint_graph_after_its_passes_blames_nobody(
    captured: Captured, reader: OpenedReader, tmp_path: Path
) -> None:
    """As where a release of torch lacks what is listened to."""
    without = Path(shutil.copy(captured("mlp"), tmp_path / "without.fxs"))
    with contextlib.closing(sqlite3.connect(without)) as database, database:
        database.execute("DELETE FROM graph WHERE name = ?", (model.AFTER_PASSES,))
    works = works_of(reader(without))
    assert ("joint_passes", "") not in works
    assert works["partition", ""].became["removed"] == 7
    assert works["partition", ""].sentence.startswith(
        "The partitioner, with the passes before it: 34 operations became "
    )


def test_a_view_is_no_company_and_an_operation_of_two_kernels_is_in_several() -> None:
    nodes = [PlainNode(number, number == 4, False) for number in (1, 2, 3, 4, 5, 6)]
    into = {1: {10}, 2: {10, 11}, 3: {12}, 4: {12}, 5: {11}}
    assert _gathered_fates(nodes, into) == {
        1: "fused",  # kernel 10 computes operation 2 as well
        2: "several",
        3: "kept",  # beside it in kernel 12 is a view alone
        4: "view",
        5: "fused",
        6: "removed",
    }


def test_several_that_became_several_were_replaced_and_not_fused() -> None:
    before, after = (
        [PlainNode(number, False, False) for number in numbers]
        for numbers in ((1, 2, 3, 4, 5), (11, 12, 13, 14))
    )
    copy = [NodeOrigin(11, 1, True, False)]
    crossed = [NodeOrigin(child, parent, False, True) for child in (12, 13) for parent in (2, 3)]
    fates = _fates_after_passes(
        StageGraphs(before, after, [*copy, *crossed, NodeOrigin(14, 4, False, True)])
    )
    assert fates[1] == fates[11] == "kept"
    assert {fates[one] for one in (2, 3, 12, 13)} == {"replaced"}
    assert (fates[4], fates[14], fates[5]) == ("replaced", "replaced", "removed")
    fused = _fates_after_passes(
        StageGraphs(
            before[:2], after[:1], [NodeOrigin(11, 1, False, True), NodeOrigin(11, 2, False, True)]
        )
    )
    assert set(fused.values()) == {"fused"}


def test_overview_and_report_have_the_sentences_and_a_big_graph_is_only_counted(
    captured: Captured, reader: OpenedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = reader(captured("mlp"))
    (fact,) = stage_facts(session)
    assert (
        "AOTAutograd: 3 operations became 34: 7 by decomposition, 25 for the backward and 2 views."
        in fact.detail.splitlines()
    )
    assert "The pre-grad passes" not in fact.detail  # they changed nothing
    told = stages_of_report(session)
    assert told is not None
    sentences = [stage_work(session, point).sentence for point in points_in_use(session)]
    assert [one["sentence"] for one in told] == sentences
    monkeypatch.setattr("fx_explorer.overview.compiled_facts.MOST_NODES", 10)
    (short,) = stage_facts(session)
    assert short.detail.splitlines() == [
        "AOTAutograd: 3 operations became 34.",
        "Inductor's passes over the joint graph: 34 operations became 30.",
        "The partitioner: 30 operations became 31, forward and backward together.",
    ]


@pytest.mark.parametrize("log", one_of(3, sorted(LOGS.rglob("*.gz"))), ids=lambda log: log.name)
def test_of_a_log_no_stage_made_everything_out_of_nothing(log: Path, tmp_path: Path) -> None:
    """Of some stages a log has what they left, and not what they were given."""
    read_log(log, tmp_path / "log.fxs")
    with SessionReader(tmp_path / "log.fxs") as reader:
        told = [work.sentence for work in works_of(reader).values()]
    assert not [sentence for sentence in told if " 0 operations became" in sentence]


def test_where_nothing_links_the_graphs_of_a_stage_it_is_said_without_counts(
    tmp_path: Path,
) -> None:
    read_log(LOGS / "vllm" / "pieces.log.gz", tmp_path / "log.fxs")
    with SessionReader(tmp_path / "log.fxs") as reader:
        told = [work.sentence for (stage, _), work in works_of(reader).items() if stage == "joint"]
    assert told == ["AOTAutograd: 6 operations became 30; how they are related is not known."]
