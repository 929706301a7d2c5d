"""These tests check kernels below the roofline: points computed by hand, and kernels without a
point are named.
"""

from __future__ import annotations

import dataclasses
import math
from xml.etree import ElementTree

import pytest

from fx_explorer import model
from fx_explorer.errors import UsageError
from fx_explorer.gpus import find_gpu
from fx_explorer.instruments.kernels.roofline_picture import (
    MARK_OF_AT_MOST,
    MARK_OF_MEASURED,
    NO_BYTES,
    NO_FLOPS,
    NO_ROOF,
    NO_TIME,
    KernelRoofline,
    kernel_roofline,
    roof,
    roofline_plot,
    roofline_svg,
    why_no_roof,
)
from fx_explorer.instruments.kernels.roofline_view import RooflineChart, roofline_table
from fx_explorer.session import SessionReader, SessionWriter
from tests.conftest import Captured, OpenedReader
from tests.ledger.test_ledger_rows import CALL
from tests.sessions import Written

H100 = find_gpu("h100")


def kernels(writer: SessionWriter, *sizes: tuple[int, int]) -> None:
    """Write a kernel for each (bytes, operations), called in the lines from 1 of one output code."""
    compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/f.py", 1, status="ok"))
    code = writer.add(
        model.Artifact(
            0,
            compilation,
            "output_code",
            "output_code",
            "forward",
            "",
            "python",
            writer.text("x\n" * 9),
            9,
        )
    )
    for number, (size_bytes, flops) in enumerate(sizes):
        kernel = model.Kernel(
            0,
            compilation,
            "forward",
            number,
            f"mm_{number}",
            "extern",
            0,
            code,
            number + 1,
            estimated_bytes=size_bytes,
            estimated_flops=flops,
        )
        writer.add(model.KernelCall(0, writer.add(kernel), 0, number + 1))


def of_h100(written: Written, *sizes: tuple[int, int]) -> KernelRoofline:
    def write(writer: SessionWriter) -> None:
        writer.set_meta(
            "request",
            {**dataclasses.asdict(model.CaptureRequest("f.py", "")), "gpu": H100.to_json()},
        )
        kernels(writer, *sizes)

    return kernel_roofline(written(write))


def test_a_kernel_that_did_not_run_stands_on_the_roof(written: Written) -> None:
    """By the data sheet: 3.35 TB/s, 67 TFLOP/s of fp32, so the roof bends at 20 operations a byte."""
    found = of_h100(written, (1_000_000, 2_000_000), (1_000, 1_000_000))
    places = {one.cost.use.kernel.name: (one.intensity, one.flops_per_s) for one in found.drawn}
    assert found.roof
    assert found.roof.ridge("fp32") == pytest.approx(20)
    assert places == {
        "mm_0": (2.0, pytest.approx(2 * 3.35e12)),
        "mm_1": (1000.0, pytest.approx(67e12)),
    }
    assert not any(one.is_measured or one.of_roof for one in found.drawn)


def test_kernels_without_figures_have_no_point_and_say_why(written: Written) -> None:
    found = of_h100(written, (1_000, 0), (1_000, -1), (-1, 5), (1_000, 2_000))
    assert [one.cost.use.kernel.name for one in found.drawn] == ["mm_3"]
    assert found.reasons == {NO_FLOPS: 2, NO_BYTES: 1}
    assert [one.missing for one in found.points] == ["", NO_FLOPS, NO_FLOPS, NO_BYTES]


def with_ledger(writer: SessionWriter) -> None:
    kernels(writer, (-1, -1), (-1, -1))
    call = writer.add(CALL)
    writer.add_all(
        model.LedgerStep(0, call, number, "library", f"mm_{number}", "0/0", "forward", number + 1, "", 0, took_s, 0.0,
                         moved_bytes=1_000, flops=flops)
        for number, (took_s, flops) in enumerate([(1e-6, 4_000), (2e-6, -1)])
    )  # fmt: skip
    writer.add(model.CardCeiling(0, "cpu", "memory", 2e9, "copy of 0.27 GB"))
    writer.add(model.CardCeiling(0, "cpu", "fp32", 1e11, "product"))


def test_on_a_cpu_the_roof_and_the_points_are_what_was_measured_with_a_call(
    written: Written,
) -> None:
    found = kernel_roofline(written(with_ledger))
    (one,) = found.drawn
    assert found.roof
    assert (found.roof.title, found.roof.bytes_per_s, dict(found.roof.flops_per_s)) == (
        "this CPU",
        2e9,
        {"fp32": 1e11},
    )
    assert (one.intensity, one.flops_per_s, one.bytes_per_s) == (
        4.0,
        pytest.approx(4e9),
        pytest.approx(1e9),
    )
    assert one.of_roof == pytest.approx(4e9 / 8e9)
    assert found.reasons == {NO_FLOPS: 1}


def test_without_a_measurement_there_is_no_roof_and_the_view_says_what_to_do(
    written: Written,
) -> None:
    reader = written(lambda writer: kernels(writer, (1_000, 2_000)))
    assert roof(reader) is None
    assert why_no_roof(reader) == NO_ROOF
    assert kernel_roofline(reader).reasons == {NO_TIME: 1}
    table = roofline_table(reader)
    assert not table.rows
    assert table.empty == NO_ROOF
    assert table.chart is None
    with pytest.raises(UsageError, match="nothing to draw"):
        roofline_svg(kernel_roofline(reader))


SIZES = [(1_000 * (number + 1), 3**number * 1_000) for number in range(9)]


@pytest.mark.parametrize(("width", "height"), [(30, 6), (78, 9), (120, 20), (199, 28), (400, 90)])
def test_every_point_of_the_plot_is_where_it_is_said_to_be(
    written: Written, width: int, height: int
) -> None:
    for found, mark in (
        (of_h100(written, *SIZES), MARK_OF_AT_MOST),
        (kernel_roofline(written(with_ledger)), MARK_OF_MEASURED),
    ):
        plot = roofline_plot(found, width, height)
        assert len(plot.lines) == height
        assert max(map(len, plot.lines)) <= width
        assert {plot.lines[line][column] for line, column in plot.cells} == {mark}
        assert sum(line.count(mark) for line in plot.lines) == len(set(plot.cells))


def test_the_chart_marks_the_kernel_of_the_row_and_a_click_on_it_finds_the_row(
    written: Written,
) -> None:
    found = of_h100(written, *SIZES, (1_000, -1))
    chart = RooflineChart(found)
    for row in range(len(SIZES)):
        drawn = chart.rows(100, 20, row)
        lit = [(y, sum(len(piece.text) for piece in line[:at])) for y, line in enumerate(drawn) for at, piece in enumerate(line)
               if piece.is_marked]  # fmt: skip
        assert len(lit) == 1
        y, x = lit[0]
        assert chart.row_at(100, 20, row - 1, x, y) is not None
    assert not any(piece.is_marked for line in chart.rows(100, 20, len(SIZES)) for piece in line), (
        "it has no point"
    )
    assert chart.row_at(100, 20, 0, 0, 0) is None
    assert chart.rows(10, 3, 0)[0][0].text, "where there is no room it says so"


def test_the_picture_says_the_same_as_the_plot(written: Written) -> None:
    found = of_h100(written, (1_000_000, 2_000_000), (1_000, -1))
    svg = roofline_svg(found)
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    for words in (
        "1 kernel of 2 below the roof of NVIDIA H100 SXM 80 GB",
        "fp32: 67 TFLOP/s",
        "at most: nothing ran",
        "mm_0",
    ):
        assert words in svg
    assert svg == roofline_svg(found)


def test_the_kernels_of_a_gpu_that_is_not_there_are_below_its_roof(
    captured: Captured, reader: OpenedReader
) -> None:
    opened: SessionReader = reader(captured("mlp", gpu="h100"))
    found = kernel_roofline(opened)
    assert found.drawn
    for one in found.drawn:
        kernel = one.cost.use.kernel
        assert one.intensity == pytest.approx(kernel.estimated_flops / kernel.estimated_bytes)
        assert math.isclose(one.flops_per_s, min(67e12, one.intensity * 3.35e12))
    assert (
        len(found.drawn) + sum(found.reasons.values())
        == len(found.points)
        == opened.count(model.Kernel)
    )
