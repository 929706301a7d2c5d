"""Traces in which a time could be counted twice, or for something else: CUDA graphs on several
streams, names that several compilations share, annotations in one another, several steps, threads,
devices and processes, torch's own stacks.

Written by hand, event by event, as Kineto writes them; what each call took is read off the
durations given here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.profile.graph_calls import CallName, CompiledGraph, compiled_graphs
from fx_explorer.instruments.profile.join import Joined, join
from fx_explorer.readers.kineto_reading import read_trace
from fx_explorer.session import SessionWriter
from tests.sessions import Written

Event = dict[str, object]


@dataclass
class Thread:
    """A Thread writes the events of one thread of a process. ``now`` is its clock, in microseconds."""

    trace: HandTrace
    process: int = 1
    thread: int = 1
    now: float = 0.0

    def does(self, name: str, cat: str = "cpu_op", **args: object) -> Doing:
        return Doing(self, name, cat, args)

    def launches(
        self, *kernels: Event, correlation: int = 0, name: str = "cudaLaunchKernel"
    ) -> None:
        """Launch kernels: several kernels of one launch are the replay of a CUDA graph."""
        number = correlation or next(self.trace.numbers)
        self.trace.events.append(self.event("cuda_runtime", name, 1.0, {"correlation": number}))
        self.now += 1.0
        for one in kernels:
            args = one["args"]
            assert isinstance(args, dict)
            args["correlation"] = number
            self.trace.events.append(one)

    def event(self, cat: str, name: str, dur: float, args: Event) -> Event:
        return {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": self.process,
            "tid": self.thread,
            "ts": self.now,
            "dur": dur,
            "args": args,
        }


@dataclass
class Doing:
    """Doing is an event of the CPU that lasts as long as its block: ``with thread.does("aten::mm"):
    …``.
    """

    thread: Thread
    name: str
    cat: str
    args: Event
    began: float = 0.0

    def __enter__(self) -> None:
        self.began = self.thread.now
        self.thread.now += 1.0

    def __exit__(self, *_: object) -> None:
        self.thread.now += 1.0
        event = self.thread.event(self.cat, self.name, self.thread.now - self.began, self.args)
        self.thread.trace.events.append({**event, "ts": self.began})


@dataclass
class HandTrace:
    events: list[Event] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 10_000)))

    def joined(self, folder: Path, *graphs: CompiledGraph) -> Joined:
        file = folder / "trace.json"
        file.write_text(json.dumps({"traceEvents": self.events}))
        return join(read_trace(file), list(graphs), "trace.json")


def kernel(
    name: str, dur: float, start: float = 0.0, stream: int = 7, device: int = 0, **args: object
) -> Event:
    more = {"device": device, "stream": stream, **args}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": device,
        "tid": stream,
        "ts": 1000 + start,
        "dur": dur,
        "args": more,
    }


def graph(name: str, calls: str, first: int, *, is_backward: bool = False) -> CompiledGraph:
    """A graph whose calls have the ids ``first``, ``first + 1``, … Names with a number are
    generated kernels.
    """
    names = calls.split()
    named = tuple(CallName(one, is_library="_" not in one) for one in names)
    return CompiledGraph(
        name, is_backward, named, tuple((first + at, first + at) for at in range(len(names)))
    )


def microseconds(joined: Joined) -> dict[int, float]:
    """Return the time of each call. Every microsecond of the trace is in exactly one row."""
    elsewhere = sum(one.seconds for one in joined.others)
    assert sum(one.seconds for one in joined.times) + elsewhere == pytest.approx(
        joined.profile.work_s
    )
    return {one.call: pytest.approx(one.seconds * 1e6) for one in joined.times}


def runs(joined: Joined) -> dict[int, int]:
    return {one.call: one.runs for one in joined.times}


REGION = "Torch-Compiled Region: {}"
CALL = "## Call CompiledFxGraph None ##"


def compiled(thread: Thread, name: str, *kernels_by_operator: tuple[str, Event]) -> None:
    """Call a compiled function whose graph runs these operators."""
    with thread.does(REGION.format(name)), thread.does(CALL, cat="user_annotation"):
        for operator, one in kernels_by_operator:
            with thread.does(operator):
                thread.launches(one)


def replayed(thread: Thread, name: str, *kernels: Event) -> None:
    """Call a compiled function whose graph is replayed as a CUDA graph: one launch, and no operator
    around it.
    """
    with thread.does(REGION.format(name)), thread.does(CALL, cat="user_annotation"):
        thread.launches(*kernels, name="cudaGraphLaunch")


def test_two_graphs_that_are_replayed_on_two_streams_keep_their_own_times(tmp_path: Path) -> None:
    trace = HandTrace()
    thread = Thread(trace)
    for step in (0, 100):
        replayed(
            thread,
            "0/0",
            kernel("triton_a_0", 1, step + 1, 7),
            kernel("triton_b_1", 2, step + 2, 7),
        )
        replayed(
            thread,
            "1/0",
            kernel("triton_a_0", 10, step, 13),
            kernel("triton_b_1", 20, step + 12, 13),
        )
    trace.events.reverse()  # the file has what ran in the order in which the GPU told of it
    found = trace.joined(
        tmp_path,
        graph("0/0", "triton_a_0 triton_b_1", 1),
        graph("1/0", "triton_a_0 triton_b_1", 11),
    )
    assert microseconds(found) == {1: 2.0, 2: 4.0, 11: 20.0, 12: 40.0}
    assert {one.how for one in found.times} == {"order"}


def test_a_replay_whose_kernels_overlap_on_streams_is_in_the_order_of_its_capture(
    tmp_path: Path,
) -> None:
    trace = HandTrace()
    nodes = [{"graph id": 3, "graph node id": (3 << 32) + at} for at in range(4)]
    replayed(
        Thread(trace),
        "0/0",
        kernel("triton_a_0", 1, 5, 7, **nodes[0]),
        kernel("triton_a_0", 8, 4, 13, **nodes[2]),
        kernel("triton_b_1", 2, 6, 7, **nodes[1]),
        kernel("triton_b_1", 4, 0, 13, **nodes[3]),
    )
    found = trace.joined(tmp_path, graph("0/0", "triton_a_0 triton_b_1 triton_a_0 triton_b_1", 1))
    assert microseconds(found) == {1: 1.0, 2: 2.0, 3: 8.0, 4: 4.0}


def test_a_replayed_library_call_that_runs_two_kernels_has_both(tmp_path: Path) -> None:
    trace = HandTrace()
    replayed(
        Thread(trace),
        "0/0",
        kernel("triton_a_0", 1, 0),
        kernel("sm90_gemm", 5, 1),
        kernel("splitK", 2, 7),
        kernel("triton_b_1", 3, 9),
    )
    found = trace.joined(tmp_path, graph("0/0", "triton_a_0 mm triton_b_1", 1))
    assert microseconds(found) == {1: 1.0, 2: 7.0, 3: 3.0}


def test_kernels_of_one_name_in_two_compilations_count_for_the_one_that_ran(tmp_path: Path) -> None:
    trace = HandTrace()
    thread = Thread(trace)
    compiled(
        thread,
        "0/0",
        ("triton_a_0", kernel("triton_a_0", 3)),
        ("triton_b_1", kernel("triton_b_1", 4)),
    )
    compiled(
        thread,
        "0/1",
        ("triton_a_0", kernel("triton_a_0", 50)),
        ("triton_b_1", kernel("triton_b_1", 60)),
    )
    found = trace.joined(
        tmp_path,
        graph("0/0", "triton_a_0 triton_b_1", 1),
        graph("0/1", "triton_a_0 triton_b_1", 11),
    )
    assert microseconds(found) == {1: 3.0, 2: 4.0, 11: 50.0, 12: 60.0}


def test_a_name_that_torch_gave_again_after_a_reset_is_told_apart_by_the_code(
    tmp_path: Path,
) -> None:
    trace = HandTrace()
    compiled(
        Thread(trace),
        "0/0",
        ("triton_a_0", kernel("triton_a_0", 3)),
        ("triton_c_1", kernel("triton_c_1", 4)),
    )
    before, after = (
        graph("0/0", "triton_a_0 triton_b_1 triton_c_1", 1),
        graph("0/0", "triton_a_0 triton_c_1", 11),
    )
    assert microseconds(trace.joined(tmp_path, before, after)) == {11: 3.0, 12: 4.0}


def test_the_buckets_of_one_compilation_have_their_own_times(tmp_path: Path) -> None:
    trace = HandTrace()
    thread = Thread(trace)
    for names, took in ((("triton_a_0", "triton_b_1"), 3), (("triton_c_0", "triton_d_1"), 40)):
        compiled(thread, "0/0", *((name, kernel(name, took + at)) for at, name in enumerate(names)))
    found = trace.joined(
        tmp_path,
        graph("0/0", "triton_a_0 triton_b_1", 1),
        graph("0/0", "triton_c_0 triton_d_1", 11),
    )
    assert microseconds(found) == {1: 3.0, 2: 4.0, 11: 40.0, 12: 41.0}


def test_equal_buckets_share_the_time_and_no_run_is_counted_twice(tmp_path: Path) -> None:
    trace = HandTrace()
    thread = Thread(trace)
    for took in (10, 30):
        compiled(thread, "0/0", ("triton_a_0", kernel("triton_a_0", took)))
    found = trace.joined(tmp_path, graph("0/0", "triton_a_0", 1), graph("0/0", "triton_a_0", 11))
    assert microseconds(found) == {1: 20.0, 11: 20.0}
    assert {one.how for one in found.times} == {"shared"}
    assert sum(runs(found).values()) == 2


def test_a_function_of_this_name_in_another_process_is_not_taken_for_one_that_is_only_alike(
    tmp_path: Path,
) -> None:
    trace = HandTrace()
    names = ["triton_a_0", "triton_b_1", "triton_c_2", "triton_d_3"]
    compiled(Thread(trace), "0/0", *((name, kernel(name, 5)) for name in names))
    alike, same = (
        graph("0/0", "triton_a_0 triton_b_1 triton_c_2 triton_x_3", 1),
        graph("1/0", " ".join(names), 11),
    )
    assert microseconds(trace.joined(tmp_path, alike, same)) == {11: 5.0, 12: 5.0, 13: 5.0, 14: 5.0}


def test_annotations_in_one_another_change_nothing(tmp_path: Path) -> None:
    trace = HandTrace()
    thread = Thread(trace)
    with (
        thread.does("ProfilerStep#4", cat="user_annotation"),
        thread.does("my step", cat="user_annotation"),
        thread.does(REGION.format("0/0")),
        thread.does(CALL, cat="user_annotation"),
        thread.does("graph_0_inductor_wrapper_call", cat="user_annotation"),
    ):
        for name, took in (("triton_a_0", 3), ("aten::mm", 5)):
            with thread.does("noted", cat="user_annotation"), thread.does(name):
                thread.launches(kernel(name, took))
    trace.events.append({**kernel("my step", 8), "cat": "gpu_user_annotation"})
    found = trace.joined(tmp_path, graph("0/0", "triton_a_0 mm", 1))
    assert microseconds(found) == {1: 3.0, 2: 5.0}
    assert found.profile.work_s == pytest.approx(8e-6)


def test_without_a_gpu_annotations_in_one_another_change_nothing_either(tmp_path: Path) -> None:
    trace = HandTrace()
    thread = Thread(trace)
    with thread.does(REGION.format("0/0")), thread.does(CALL, cat="user_annotation"):
        with (
            thread.does("noted", cat="user_annotation"),
            thread.does("aten::mm"),
            thread.does("aten::addmm"),
        ):
            thread.now += 6
        with thread.does("aten::addmm"):
            thread.now += 1
    found = trace.joined(tmp_path, graph("0/0", "mm addmm", 1))
    assert microseconds(found) == {1: 10.0, 2: 3.0}


def test_steps_of_one_trace_add_up(tmp_path: Path) -> None:
    trace = HandTrace()
    thread = Thread(trace)
    for step in range(3):
        with thread.does(f"ProfilerStep#{step}", cat="user_annotation"):
            compiled(
                thread,
                "0/0",
                ("triton_a_0", kernel("triton_a_0", 10**step)),
                ("triton_a_0", kernel("triton_a_0", 5)),
            )
    found = trace.joined(tmp_path, graph("0/0", "triton_a_0 triton_a_0", 1))
    assert microseconds(found) == {1: 111.0, 2: 15.0}
    assert runs(found) == {1: 3, 2: 3}


def test_kernels_of_several_devices_count_each_and_a_copy_between_them_is_no_third(
    tmp_path: Path,
) -> None:
    trace = HandTrace()
    thread = Thread(trace)
    compiled(
        thread,
        "0/0",
        ("triton_a_0", kernel("triton_a_0", 3, device=0)),
        ("triton_b_1", kernel("triton_b_1", 4, device=1)),
    )
    copy = kernel("Memcpy PtoP (Device -> Device)", 2)
    copy["cat"], copy["args"] = (
        "gpu_memcpy",
        {"fromDevice": 0, "inDevice": 1, "toDevice": 1, "stream": 7},
    )
    with thread.does("aten::copy_"):
        thread.launches(copy, name="cudaMemcpyPeerAsync")
    found = trace.joined(tmp_path, graph("0/0", "triton_a_0 triton_b_1", 1))
    assert microseconds(found) == {1: 3.0, 2: 4.0}
    assert [note for note in found.profile.notes if "Idle times" in note] == [
        "Idle times are for the GPU with the most work, of 2."
    ]


def test_an_operator_whose_kernels_run_on_two_streams_stays_one_call(tmp_path: Path) -> None:
    trace = HandTrace()
    thread = Thread(trace)
    with thread.does(REGION.format("0/0")), thread.does(CALL, cat="user_annotation"):
        for number, name in ((5, "aten::mm"), (6, "triton_a_0")):
            with thread.does(name, **{"External id": number}):
                pass
    # without launches: the first operator's second kernel runs behind the other's, on another
    # stream
    for name, took, start, number in (
        ("gemm", 5, 0, 5),
        ("triton_a_0", 3, 1, 6),
        ("reduce", 2, 2, 5),
    ):
        trace.events.append(kernel(name, took, start, **{"External id": number, "correlation": 0}))
    found = trace.joined(tmp_path, graph("0/0", "mm triton_a_0", 1))
    assert microseconds(found) == {1: 7.0, 2: 3.0}
    assert runs(found) == {1: 1, 2: 1}


def backward(thread: Thread, sequence: int, took: float) -> None:
    with (
        thread.does("CompiledFunctionBackward", **{"Sequence number": sequence}),
        thread.does(CALL, cat="user_annotation"),
        thread.does("triton_g_0"),
    ):
        thread.launches(kernel("triton_g_0", took))


def test_threads_count_their_backward_functions_each_for_itself(tmp_path: Path) -> None:
    trace = HandTrace()
    for at, name in enumerate(("0/0", "1/0")):
        thread = Thread(trace, thread=10 + at, now=100.0 * at)
        with (
            thread.does(REGION.format(name)),
            thread.does("CompiledFunction", **{"Sequence number": 4}),
        ):
            pass
    engine = Thread(trace, thread=20, now=500)
    backward(engine, 4, 10)
    backward(engine, 4, 30)
    graphs = (
        graph("0/0", "triton_g_0", 1, is_backward=True),
        graph("1/0", "triton_g_0", 11, is_backward=True),
    )
    found = trace.joined(tmp_path, *graphs)
    assert microseconds(found) == {1: 20.0, 11: 20.0}
    assert {one.how for one in found.times} == {"shared"}


def test_processes_of_one_trace_do_not_take_each_others_kernels(tmp_path: Path) -> None:
    trace = HandTrace()
    for process, name, number in (
        (1, "triton_a_0", 50),
        (2, "aten::relu", 50),
        (1, "triton_b_1", 51),
        (2, "aten::add", 52),
    ):
        thread = Thread(trace, process=process, now=10.0 * number)
        if process == 1:
            with (
                thread.does(REGION.format("0/0")),
                thread.does(CALL, cat="user_annotation"),
                thread.does(name),
            ):
                thread.launches(kernel(name, 4), correlation=number)
        else:
            with thread.does(name):
                thread.launches(kernel(name, 9), correlation=number)
    found = trace.joined(tmp_path, graph("0/0", "triton_b_1", 1))
    assert microseconds(found) == {1: 4.0}
    assert {(one.kind, one.name): pytest.approx(one.seconds * 1e6) for one in found.others} == {
        ("not known", "triton_a_0"): 4.0,
        ("not known", "aten::relu"): 9.0,
        ("eager", "aten::add"): 9.0,
    }
    (told,) = [note for note in found.profile.notes if "merges" in note]
    assert told.startswith(
        "It merges the traces of 2 processes. Several of them used the same number for a launch, "
        "so the launch of 2 GPU events is unknown"
    )


def test_processes_with_the_same_backward_numbers_keep_their_own_graphs(tmp_path: Path) -> None:
    trace = HandTrace()
    for process, name, took in ((1, "0/0", 10), (2, "1/0", 30)):
        thread = Thread(trace, process=process, now=1000.0 * process)
        with (
            thread.does(REGION.format(name)),
            thread.does("CompiledFunction", **{"Sequence number": 4}),
        ):
            pass
        backward(thread, 4, took)
    graphs = (
        graph("0/0", "triton_g_0", 1, is_backward=True),
        graph("1/0", "triton_g_0", 11, is_backward=True),
    )
    assert microseconds(trace.joined(tmp_path, *graphs)) == {1: 10.0, 11: 30.0}


USER_LINE = 'File "train.py", line 7, in step\n    return layer(x)'
IN_TORCH = 'File "/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 125, in forward\n    return F.linear(x)'


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        ([USER_LINE], ("train.py", 7)),
        ([f"{USER_LINE}\n{IN_TORCH}"], ("train.py", 7)),
        ([USER_LINE, USER_LINE], ("train.py", 7)),
        (USER_LINE, ("train.py", 7)),
        ([USER_LINE, USER_LINE.replace("7", "9")], ("", 0)),
        ([3, None, ""], ("", 0)),
        ({"a": 1}, ("", 0)),
    ],
    ids=["one", "within torch", "twice the same", "a text", "two lines", "no texts", "no list"],
)
def test_the_stacks_that_torch_writes_to_a_kernel_give_the_line_they_agree_on(
    stack: object, line: tuple[str, int], tmp_path: Path
) -> None:
    trace = HandTrace()
    compiled(Thread(trace), "0/0", ("triton_a_0", kernel("triton_a_0", 3, stack=stack)))
    (found,) = trace.joined(tmp_path).others
    assert (found.kind, found.file, found.line) == ("unjoined", *line)


def test_a_stack_that_a_kernel_has_by_the_number_of_its_stream_is_not_believed(
    tmp_path: Path,
) -> None:
    trace = HandTrace()
    thread = Thread(trace, thread=7)
    with thread.does("aten::relu", stack_trace=USER_LINE, node_name="relu"):
        thread.launches(kernel("relu_kernel", 3))
    with thread.does("aten::add"):
        thread.launches(kernel("add_kernel", 5, stack_trace=USER_LINE, node_name="relu"))
    found = trace.joined(tmp_path).others
    assert {one.name: (one.file, one.line) for one in found} == {
        "aten::relu": ("train.py", 7),
        "aten::add": ("", 0),
    }


def test_graphs_of_one_name_are_read_from_a_session_one_by_one(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        for name, codes in (("0/0", 2), ("0/0#2", 1)):
            compilation = writer.add(
                model.Compilation(0, name, 0, 0, "f", "/p/f.py", 1, status="ok")
            )
            for code in range(codes):
                text = writer.text(f"code {name} {code}")
                artifact = writer.add(
                    model.Artifact(
                        0,
                        compilation,
                        "output_code",
                        "output_code",
                        "forward",
                        "",
                        "python",
                        text,
                        9,
                    )
                )
                for position in range(2):
                    kernel = writer.add(
                        model.Kernel(
                            0,
                            compilation,
                            "forward",
                            position,
                            f"triton_k_{position}",
                            "triton",
                            0,
                            artifact,
                            0,
                        )
                    )
                    writer.add(model.KernelCall(0, kernel, 0, 3 + position))

    found = compiled_graphs(written(write))
    assert [(one.compilation, [call.key for call in one.calls], one.ids) for one in found] == [
        ("0/0", ["triton_k_0", "triton_k_1"], ((1, 1), (2, 2))),
        ("0/0", ["triton_k_0", "triton_k_1"], ((3, 3), (4, 4))),
        ("0/0", ["triton_k_0", "triton_k_1"], ((5, 5), (6, 6))),
    ]
