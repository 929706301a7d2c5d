"""These tests check that the share of each line adds up to that of its kernels, and that its total
is named.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.kernels.costs import kernel_costs, source_heat
from fx_explorer.session import SessionReader, SessionWriter
from tests.conftest import Captured
from tests.sessions import Written, write_training_step


def kernels_of_two_lines(
    writer: SessionWriter, bytes_: tuple[int, int] = (300, 100), measured: int = 0
) -> None:
    """Two kernels: the first computes two operations of line 2 and one of line 3, the second one of
    line 3. The first is called twice; of the first ``measured`` the time is measured.
    """
    file = writer.add(model.SourceFile(0, "/p/f.py", writer.text("a\nb\nc\n"), 3))
    compilation = writer.add(
        model.Compilation(0, "0/0", 0, 0, "Net.forward", "/p/f.py", 1, status="ok")
    )
    nodes = [
        model.Node(0, 0, 0, f"n{at}", "call_function", "aten.mul.Tensor", "", file=file, line=line)
        for at, line in enumerate((2, 2, 3, 3))
    ]
    graph = writer.add_graph(model.Graph(0, compilation, "post_grad", "forward"), nodes, [])
    for at, computed in enumerate(((0, 1, 2), (3,))):
        code = writer.add(
            model.Artifact(
                0,
                compilation,
                "kernel",
                "kernel",
                "forward",
                f"k{at}",
                "cpp",
                writer.text("x\n"),
                1,
            )
        )
        kernel = writer.add(
            model.Kernel(
                0, compilation, "forward", at, f"k{at}", "cpp", code, estimated_bytes=bytes_[at]
            )
        )
        writer.add_all(
            [model.LineNode(code, 0, graph.first_node + node, "origins") for node in computed]
        )
        writer.add_all([model.KernelCall(0, kernel, call, 0) for call in range(2 - at)])
        if at < measured:
            writer.add(model.KernelTime(0, kernel, 0, {}, "a card", (3e-6, 6e-6)[at], 0.0, 10, 0.0))


def test_a_kernel_of_several_lines_counts_for_each_by_its_operations(written: Written) -> None:
    heat = source_heat(written(kernels_of_two_lines))
    assert heat.measure == "bytes moved"
    two, three = heat.files[1][1], heat.files[1][2]
    # The first kernel moves 2 × 300 of 700 bytes, of which two thirds are of line 2.
    assert two.parts == ((1, pytest.approx(600 / 700 * 2 / 3)),)
    assert three.parts == ((1, pytest.approx(200 / 700)), (2, pytest.approx(100 / 700)))
    assert two.share + three.share == pytest.approx(1)


def test_measured_times_come_before_bytes(written: Written) -> None:
    heat = source_heat(written(lambda writer: kernels_of_two_lines(writer, measured=2)))
    assert heat.measure == "measured time"
    assert heat.files[1][1].share == pytest.approx(1 / 3)  # two thirds of 2 × 3 µs, of 12 µs
    assert heat.files[1][2].kernels == (2, 1)


def test_where_nothing_is_known_kernels_are_counted(tmp_path: Path) -> None:
    """By hand: line 7 is computed by the kernel and by a library call, line 8 by another one."""
    hand = write_training_step(tmp_path / "s.fxs")
    with SessionReader(hand.path) as reader:
        heat = source_heat(reader)
    assert heat.measure == ""
    assert {line: one.kernels for line, one in heat.files[hand.source].items()} == {
        6: (1, 2),
        7: (3,),
    }
    assert all(one.share == 0 for one in heat.files[hand.source].values())


def test_lines_have_the_kernels_that_the_table_of_kernels_has(captured: Captured) -> None:
    with SessionReader(captured("transformer")) as reader:
        heat, paths = (
            source_heat(reader),
            {file.id: file.path for file in reader.rows(model.SourceFile)},
        )
        told = {
            (paths[file], line + 1, kernel)
            for file, lines in heat.files.items()
            for line, one in lines.items()
            for kernel in one.kernels
        }
        assert told == {
            (file, line, one.use.kernel.id)
            for one in kernel_costs(reader)
            for file, line in one.lines
        }
        assert told
