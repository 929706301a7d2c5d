"""These tests check which graphs are recorded and replayed as CUDA graphs, as read from torch's own
functions, and the sentences about it.

There is no GPU here: the methods that torch's manager calls are called with stand-ins, in the order
of ``CUDAGraphTreeManager._run``.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from torch._inductor import cudagraph_trees as trees

from fx_explorer.capture.inductor.cuda_graphs import (
    OTHER_PATH,
    CudaGraphRuns,
    describe_runs,
    in_short,
)

MISFIT = """static input data pointer changed.
input name: primals_3. data pointer changed from 10 to 20. input stack trace:
  File "/home/me/model.py", line 12, in forward
    y = x @ self.weight
  File "/home/me/model.py", line 15, in inner
    return x
"""


@pytest.fixture
def torch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Imitate torch's behaviour on a GPU, without a GPU."""
    monkeypatch.setattr(
        trees.CUDAGraphTreeManager, "record_function", lambda manager, inputs, function: "recorded"
    )
    monkeypatch.setattr(
        trees.CUDAGraphTreeManager, "execute_node", lambda manager, node, inputs: "replayed"
    )
    monkeypatch.setattr(trees.CUDAGraphNode, "check_invariants", lambda node, inputs: node.answer)


def manager(compilation: str, mode: str) -> Any:
    return SimpleNamespace(compile_id=compilation, mode=trees.CompilationMode[mode])


def record(of: Any) -> str:
    return str(trees.CUDAGraphTreeManager.record_function(of, [], 0))


def replay(of: Any) -> str:
    return str(trees.CUDAGraphTreeManager.execute_node(of, None, []))  # type: ignore[arg-type]


def check(status: str) -> Any:
    node: Any = SimpleNamespace(answer=(trees.CheckInvariantStatus[status], lambda: MISFIT))
    return trees.CUDAGraphNode.check_invariants(node, [])


@pytest.mark.usefixtures("torch_does")
def test_recordings_and_replays_are_heard_with_their_graphs_and_torch_still_does_them() -> None:
    heard, forward, backward = (
        CudaGraphRuns(),
        manager("0/0", "FORWARD"),
        manager("0/0", "BACKWARD"),
    )
    with heard.recorded_runs():
        assert [record(forward), record(backward)] == ["recorded", "recorded"]
        assert check("SUCCESS")[0].name == "SUCCESS"
        assert [replay(forward), replay(backward), replay(forward)] == ["replayed"] * 3
    record(forward)
    assert heard.recorded == Counter({"[0/0] forward": 1, "[0/0] backward": 1})
    assert heard.replayed == Counter({"[0/0] forward": 2, "[0/0] backward": 1})
    assert not heard.why_again


@pytest.mark.usefixtures("torch_does")
def test_a_graph_that_is_recorded_again_has_the_reason_and_the_line_that_torch_names() -> None:
    heard, forward = CudaGraphRuns(), manager("0/0", "FORWARD")
    with heard.recorded_runs():
        record(forward)
        check("StaticInputIdxMismatch")
        record(forward)
        record(forward)
    assert heard.why_again == {
        "[0/0] forward": ["static input data pointer changed (/home/me/model.py:15)", OTHER_PATH]
    }


@pytest.mark.usefixtures("torch_does")
def test_a_recording_that_did_not_fit_is_no_reason_once_another_one_did() -> None:
    heard, forward = CudaGraphRuns(), manager("0/0", "FORWARD")
    with heard.recorded_runs():
        record(forward)
        check("StaticInputIdxMismatch")
        replay(forward)
        record(forward)
    assert heard.why_again == {"[0/0] forward": [OTHER_PATH]}


@pytest.mark.usefixtures("torch_does")
def test_each_size_that_a_graph_or_a_part_of_it_is_called_with_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trees.CUDAGraphTreeManager, "add_function", add_function)
    heard = CudaGraphRuns()
    with heard.recorded_runs():
        for rows in (16, 17, 18, 16):
            add(rows, "tensor")
            add(rows, 2 * rows, "tensor", "of another part")
        of = manager("0/0", "INFERENCE")
        for _ in range(6):
            record(of)
        assert not heard.why_again, "each size of each part has its own recording"
        record(of)
        assert heard.why_again == {"[0/0] inference": [OTHER_PATH]}
    assert heard.number_of_sizes("[0/0] inference") == 3
    assert heard.number_of_sizes("[1/0] inference") == 0


def add_function(
    self: Any,
    model: Any,
    inputs: Any,
    static_input_idxs: Any,
    stack_traces: Any,
    mode: Any,
    constants: Any,
    placeholders: Any,
    mutated_input_idxs: Any,
    compile_id: Any,
) -> str:
    """Take the same arguments as torch's own function."""
    return "added"


def add(*inputs: object) -> None:
    own: Any = SimpleNamespace()
    of: Any = None
    mode = trees.CompilationMode.INFERENCE
    answer: Any = trees.CUDAGraphTreeManager.add_function(
        own, of, inputs, (), None, mode, (), (), (), "0/0"
    )
    assert answer == "added"


def test_the_hooks_are_methods_that_this_torch_has() -> None:
    for owner, name in (
        (trees.CUDAGraphTreeManager, "add_function"),
        (trees.CUDAGraphTreeManager, "record_function"),
        (trees.CUDAGraphTreeManager, "execute_node"),
        (trees.CUDAGraphNode, "check_invariants"),
    ):
        before = getattr(owner, name)
        with CudaGraphRuns().recorded_runs():
            assert getattr(owner, name) is not before
        assert getattr(owner, name) is before


def test_a_graph_of_which_a_part_is_replayed_is_not_called_outside_as_a_whole() -> None:
    call = CudaGraphRuns()
    call.replayed["[0/0] inference"] += 1
    call.recorded["[2/0] forward"] += 1
    lines = describe_runs(call, call, {"[0/0] inference", "[1/0] forward", "[2/0] forward"})
    assert "Outside of CUDA graphs: [1/0] forward" in lines
    around = (
        "Outside of CUDA graphs, in generated code whose other parts are inside: [0/0] "
        "inference, [2/0] forward"
    )
    assert around in lines


def test_what_is_replayed_what_is_outside_and_what_was_recorded_again_is_said() -> None:
    built = CudaGraphRuns(Counter({"[0/0] forward": 2}), why_again={"[0/0] forward": [OTHER_PATH]})
    call = CudaGraphRuns(replayed=Counter({"[0/0] forward": 1}))
    replayed, outside, again = describe_runs(built, call, {"[1/0] forward"})
    assert replayed.startswith("Replayed as CUDA graphs: [0/0] forward;")
    assert outside == "Outside of CUDA graphs: [1/0] forward"
    assert again.startswith("[0/0] forward was recorded 2 times")
    (in_every_call,) = describe_runs(
        CudaGraphRuns(), CudaGraphRuns(Counter({"[0/0] forward": 1})), set()
    )
    assert in_every_call.startswith("Recorded as CUDA graphs in every call")


def test_without_cuda_graphs_nothing_is_said() -> None:
    assert describe_runs(CudaGraphRuns(), CudaGraphRuns(), {"[0/0] forward"}) == []


def test_a_reason_without_a_line_is_told_as_it_is() -> None:
    assert (
        in_short("expected dead indices before graph are live")
        == "expected dead indices before graph are live"
    )


@pytest.mark.usefixtures("torch_does")
def test_a_fault_of_ours_does_not_reach_the_call_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A release in which what the hooks look at is another thing."""
    faults: list[BaseException] = []

    class Wall(contextlib.AbstractContextManager[None]):
        def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
            if error is not None:
                faults.append(error)
            return True

    monkeypatch.setattr(trees.CUDAGraphNode, "check_invariants", lambda node, inputs: "no pair")
    with CudaGraphRuns(wall=Wall).recorded_runs():
        node: Any = SimpleNamespace()
        assert trees.CUDAGraphNode.check_invariants(node, []) == "no pair"  # type: ignore[comparison-overlap]
    assert len(faults) == 1
