"""These tests check compile time as frames: self times add up to the whole, whatever the phases
look like.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest

from fx_explorer import model
from fx_explorer.instruments.compile_time.flame_view import SVG_COLOURS, TONES, compile_svg
from fx_explorer.instruments.compile_time.timing import CompileTime, compile_time
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.compilations import compile_seconds
from tests.conftest import Captured, OpenedReader
from tests.sessions import Written

FUNCTION = model.Compilation(0, "0/0", 0, 0, "Net.forward", "/p/net.py", 10, status="ok")


def span(
    name: str, start: float, duration: float, depth: int = 0, thread: str = "", compilation: int = 1
) -> model.Span:
    return model.Span(0, compilation, name, None, start, duration, depth, thread)


def timed(
    written: Written,
    spans: Sequence[model.Span],
    lines: Sequence[model.PhaseLine] = (),
    duration_s: float = 0.0,
) -> CompileTime:
    def write(writer: SessionWriter) -> None:
        writer.add(model.SourceFile(0, "/p/net.py", 0, 20))
        writer.add(
            model.Compilation(
                **{
                    **{f: getattr(FUNCTION, f) for f in FUNCTION.__dataclass_fields__},
                    "duration_s": duration_s,
                }
            )
        )
        writer.add_all(spans)
        writer.add_all(lines)

    found = compile_time(written(write))
    assert found
    return found


def outline(found: CompileTime) -> list[str]:
    return [
        f"{'  ' * one.depth}{one.name} {one.duration_s:.3g} ({one.self_s:.3g})"
        for one in found.root.frames()
    ]


def holds_together(found: CompileTime) -> None:
    """The self times are the whole, children lie in what they are in, and places are told by
    position.
    """
    frames = list(found.root.frames())
    assert sum(frame.self_s for frame in frames) == pytest.approx(found.root.duration_s)
    assert [part.frame for part in found.parts] == frames
    for position, frame in enumerate(frames):
        assert frame.steps.start == position
        assert len(frame.steps) == sum(1 for _ in frame.frames())
        at = frame.began_s
        for child in frame.children:
            assert child.began_s == pytest.approx(at)
            at = child.ended_s
        assert at <= frame.ended_s + 1e-9


def test_phases_lie_within_each_other_and_the_rest_is_their_own(written: Written) -> None:
    found = timed(
        written, [span("dynamo", 0, 10), span("gc", 2, 3, 1), span("build_guards", 6, 1, 1)]
    )
    assert outline(found) == [
        "compiling 10 (0)",
        "  [0/0] Net.forward 10 (0)",
        "    Dynamo 10 (6)",
        "      collecting garbage 3 (3)",
        "      making the guards 1 (1)",
    ]
    holds_together(found)


def test_what_torch_says_of_the_function_and_no_phase_covers_is_its_own_time(
    written: Written,
) -> None:
    found = timed(written, [span("dynamo", 0, 10)], duration_s=12.0)
    assert outline(found)[:2] == ["compiling 12 (0)", "  [0/0] Net.forward 12 (2)"]
    holds_together(found)


def test_threads_stand_beside_each_other_the_main_one_first(written: Written) -> None:
    spans = [
        span("compile_file", 1, 4, thread="pool-1", compilation=0),
        span("dynamo", 0, 6),
        span("gc", 2, 1, 1),
    ]
    found = timed(written, spans)
    assert outline(found) == [
        "compiling 10 (0)",
        "  the main thread 6 (0)",
        "    [0/0] Net.forward 6 (0)",
        "      Dynamo 6 (5)",
        "        collecting garbage 1 (1)",
        "  thread pool-1 4 (0)",
        "    of no function 4 (0)",
        "      building a C++ kernel 4 (4)",
    ]
    holds_together(found)


def line(
    number: int, module: str, took: float, phase: str = "dynamo", start: float = 0.0
) -> model.PhaseLine:
    return model.PhaseLine(0, 1, phase, start, 1, number, module, took)


def test_modules_hold_their_lines_and_one_that_holds_a_module_alone_is_left_out(
    written: Written,
) -> None:
    lines = [
        line(11, "", 1),
        line(12, "layers.0.fc1", 2),
        line(13, "layers.0", 0.5),
        line(12, "layers.1.fc1", 3),
    ]
    found = timed(written, [span("dynamo", 0, 10), span("gc", 2, 1, 1)], lines)
    assert outline(found)[2:] == [
        "    Dynamo 10 (2.5)",
        "      net.py:11 1 (1)",
        "      layers 5.5 (0)",
        "        layers.0 2.5 (0)",
        "          layers.0.fc1 2 (0)",
        "            net.py:12 2 (2)",
        "          net.py:13 0.5 (0.5)",
        "        layers.1.fc1 3 (0)",
        "          net.py:12 3 (3)",
        "      collecting garbage 1 (1)",
    ]
    assert [part.file for part in found.parts if part.frame.kind == "line"] == [1] * 4
    holds_together(found)


def test_lines_of_one_phase_are_not_those_of_another_one_of_its_name(written: Written) -> None:
    spans = [span("GraphLowering.run", 0, 2), span("GraphLowering.run", 5, 2)]
    lines = [line(11, "", 1, "GraphLowering.run", 0.0), line(12, "", 2, "GraphLowering.run", 5.0)]
    assert outline(timed(written, spans, lines))[2:] == [
        "    lowering 2 (1)",
        "      net.py:11 1 (1)",
        "    lowering 2 (0)",
        "      net.py:12 2 (2)",
    ]


@pytest.mark.parametrize("seed", range(5))
def test_self_times_add_up_whatever_a_file_says(written: Written, seed: int) -> None:
    """The written phases overlap, end after the phase they are in, or have no length; lines are
    longer than their phase.
    """
    chance = random.Random(seed)
    spans = [
        span(
            f"phase {number}",
            chance.uniform(0, 9),
            chance.choice((-1.0, 0.0, 1.0, chance.uniform(0, 5))),
            chance.randrange(3),
        )
        for number in range(60)
    ]
    lines = [
        model.PhaseLine(
            0,
            1,
            one.name,
            one.start_s,
            chance.randrange(3),
            number,
            "a.b" * (number % 3),
            chance.uniform(-1, 9),
        )
        for number, one in enumerate(spans)
    ]
    holds_together(timed(written, spans, lines, duration_s=3.0))


def test_phases_within_phases_a_thousand_deep_are_no_problem(written: Written) -> None:
    found = timed(
        written, [span("a", number * 1e-3, 10 - number * 2e-3, number) for number in range(2000)]
    )
    assert max(frame.depth for frame in found.root.frames()) == 2001
    holds_together(found)


def test_the_whole_of_a_real_capture_is_what_compiling_took(
    captured: Captured, reader: OpenedReader
) -> None:
    opened = reader(captured("mlp"))
    found = compile_time(opened)
    assert found
    assert found.root.duration_s == pytest.approx(compile_seconds(opened))
    holds_together(found)


def test_lines_and_modules_of_a_real_capture_are_those_of_the_users_file(
    captured: Captured, reader: OpenedReader
) -> None:
    found = compile_time(reader(captured("mlp")))
    assert found
    kinds = {"bytecode_tracing", "aot_trace_joint_graph", "GraphLowering.run"}
    for phase in (part for part in found.parts if part.span and part.span.name in kinds):
        within = [frame for frame in phase.frame.frames() if frame.kind == "module"]
        assert {frame.name for frame in within} == {"fc1", "fc2"}, phase.span
        assert all(child.name.startswith("mlp.py:") for frame in within for child in frame.children)


def test_the_picture_is_xml_with_a_colour_and_a_tone_for_every_kind(
    captured: Captured, reader: OpenedReader
) -> None:
    found = compile_time(reader(captured("mlp")))
    assert found
    titles = [
        one.text or ""
        for one in ElementTree.fromstring(compile_svg(found, found.root)).iter(
            "{http://www.w3.org/2000/svg}title"
        )
    ]
    assert any(title.startswith("fc1\n") for title in titles)
    assert set(TONES) == set(SVG_COLOURS)
    assert {frame.kind for frame in found.root.frames()} <= set(SVG_COLOURS)


def test_a_session_in_which_nothing_was_timed_has_no_frames(written: Written) -> None:
    with_nothing: SessionReader = written(lambda writer: writer.add(FUNCTION))
    assert compile_time(with_nothing) is None
