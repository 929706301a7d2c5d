"""These tests check that the times that panes show at operations and lines add up to those of the
join.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.profile.figures import (
    PART,
    PlaceTime,
    ProfiledPlaces,
    ProfileFigures,
    graph_times,
    profile_figures,
    profiled_places,
)
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.links import descendants
from tests.profiles import profiled_session, recorded_session
from tests.sessions import Written


def both(reader: SessionReader) -> tuple[ProfiledPlaces, ProfileFigures]:
    places, figures = profiled_places(reader), profile_figures(reader)
    assert places is not None
    assert figures is not None
    return places, figures


def times_of(
    reader: SessionReader, graph: model.Graph, places: ProfiledPlaces
) -> dict[int, PlaceTime]:
    """Return node → its time, and check that their sum is the time in the graph's title."""
    times = graph_times(reader, graph, places)
    found = {
        graph.first_node + at: time for at in range(graph.node_count) if (time := times.at(at))
    }
    assert sum(one.seconds for one in found.values()) == pytest.approx(
        times.whole.seconds, rel=1e-9
    )
    return found


@pytest.mark.parametrize("name", ["broken", "gpt2"])
def test_the_operations_of_each_graph_add_up_to_what_the_join_gives_to_what_came_of_them(
    name: str, tmp_path: Path
) -> None:
    with SessionReader(profiled_session(name, tmp_path)) as reader:
        places, figures = both(reader)
        joined = {one.node.id: one.seconds for one in figures.nodes}
        summed = 0
        for graph in reader.rows(model.Graph):
            came = descendants(reader, range(graph.first_node, graph.first_node + graph.node_count))
            expected = sum(seconds for node, seconds in joined.items() if node in came)
            times = times_of(reader, graph, places)
            assert sum(one.seconds for one in times.values()) == pytest.approx(expected, rel=1e-9)
            assert bool(times) == (expected > 0)
            summed += expected > 0
        assert summed >= 4


@pytest.mark.parametrize("name", ["broken", "gpt2"])
def test_the_last_graphs_together_have_all_that_is_joined_to_operations(
    name: str, tmp_path: Path
) -> None:
    with SessionReader(profiled_session(name, tmp_path)) as reader:
        places, figures = both(reader)
        times: dict[int, PlaceTime] = {}
        for graph in reader.rows(model.Graph, stage="post_grad"):
            times |= times_of(reader, graph, places)
        assert sum(one.seconds for one in times.values()) == pytest.approx(
            figures.at_node_s, rel=1e-9
        )
        assert len(times) == len(figures.nodes)
        for one in figures.nodes:
            assert times[one.node.id].seconds == pytest.approx(one.seconds, rel=1e-9)
            assert (PART in times[one.node.id].sign) == (one.among > 1)


@pytest.mark.parametrize("name", ["broken", "gpt2"])
def test_the_lines_that_call_kernels_have_all_that_is_joined(name: str, tmp_path: Path) -> None:
    with SessionReader(profiled_session(name, tmp_path)) as reader:
        places, figures = both(reader)
        calls = sum(time.seconds for lines in places.calls.values() for time in lines.values())
        assert calls == pytest.approx(figures.profile.joined_s, rel=1e-9)
        assert sum(time.seconds for time in places.output_codes.values()) == pytest.approx(
            calls, rel=1e-9
        )
        for one in figures.kernels:
            kernel = one.cost.use.kernel
            assert places.kernels[kernel.id].seconds == pytest.approx(one.time.seconds, rel=1e-9)
            if kernel.artifact:
                assert (
                    places.definitions[kernel.output_code][kernel.first_line - 1]
                    is places.kernels[kernel.id]
                )


def write_two_kernels(writer: SessionWriter) -> None:
    """``a`` became a1 and a2, which are all of one kernel (10 s). ``b`` became b1; b and c became
    s; b1 and s are one kernel (8 s).
    """
    compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/f.py", 1, status="ok"))

    def graph(stage: model.Stage, names: str) -> int:
        nodes = [model.Node(0, 0, 0, name, "call_function", name, "") for name in names.split()]
        return writer.add_graph(
            model.Graph(0, compilation, stage, "", call_count=len(nodes)), nodes, []
        ).first_node

    a, a1 = graph("dynamo", "a b c"), graph("post_grad", "a1 a2 b1 s")
    writer.add_all(
        model.Link(a1 + child, a + parent, "identity")
        for child, parent in ((0, 0), (1, 0), (2, 1), (3, 1), (3, 2))
    )
    code = writer.add(
        model.Artifact(
            0,
            compilation,
            "output_code",
            "output_code",
            "",
            "",
            "python",
            writer.text("code\n" * 9),
            9,
        )
    )
    sums = dict.fromkeys(("work_s", "compiled_s", "joined_s", "shared_s", "span_s", "busy_s"), 18.0)
    counts = dict.fromkeys(("events", "skipped", "graph_calls", "joined_calls", "gaps"), 0)
    profile = writer.add(
        model.Profile(0, "t.json", "", "GPU", is_of_gpu=True, problem="", **counts, **sums)
    )  # type: ignore[arg-type]
    for at, (nodes, seconds) in enumerate((((0, 1), 10.0), ((2, 3), 8.0))):
        artifact = writer.add(
            model.Artifact(
                0, compilation, "kernel", "kernel", "", "", "triton", writer.text("kernel"), 1
            )
        )
        kernel = writer.add(
            model.Kernel(0, compilation, "", at, f"k_{at}", "triton", artifact, code, 1 + at)
        )
        call = writer.add(model.KernelCall(0, kernel, 0, 5 + at))
        writer.add_all(model.LineNode(artifact, 0, a1 + node, "origins", call) for node in nodes)
        writer.add(model.ProfileTime(0, profile, kernel, call, "order", seconds, 1))


def test_an_operation_that_is_all_of_its_kernel_in_an_earlier_graph_is_no_part_of_it(
    written: Written,
) -> None:
    reader = written(write_two_kernels)
    places, _ = both(reader)
    told = {
        (graph.stage, reader.by_ids(model.Node, [node])[0].name): time.description
        for graph in reader.rows(model.Graph)
        for node, time in times_of(reader, graph, places).items()
    }
    assert told == {
        ("dynamo", "a"): "10 s",
        ("dynamo", "b"): "÷ 6 s",
        ("dynamo", "c"): "÷ 2 s",
        ("post_grad", "a1"): "÷ 5 s",
        ("post_grad", "a2"): "÷ 5 s",
        ("post_grad", "b1"): "÷ 4 s",
        ("post_grad", "s"): "÷ 4 s",
    }
    (calls,), (definitions,) = places.calls.values(), places.definitions.values()
    assert {line: time.seconds for line, time in calls.items()} == {4: 10.0, 5: 8.0}
    assert {line: time.seconds for line, time in definitions.items()} == {0: 10.0, 1: 8.0}


def test_a_session_without_a_profile_has_no_times(tmp_path: Path) -> None:
    with SessionReader(recorded_session("broken", tmp_path)) as reader:
        assert profiled_places(reader) is None
