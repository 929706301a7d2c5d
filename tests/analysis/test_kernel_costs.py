"""These tests check what a kernel costs and who wrote it: counted by hand, and against torch's
numbers of a capture.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from fx_explorer import model
from fx_explorer.analysis.function_versions import over_versions, versions
from fx_explorer.instruments.kernels.costs import kernel_costs
from fx_explorer.instruments.kernels.report import kernels_as_text
from fx_explorer.session import SessionReader, SessionWriter
from tests.conftest import ROOT, Captured, OpenedReader
from tests.sessions import write_training_step


def test_a_kernel_has_the_line_of_the_nodes_that_it_computes(tmp_path: Path) -> None:
    """In tests/sessions.py: addmm and gelu are on line 7, addmm_1 on line 8."""
    with SessionReader(write_training_step(tmp_path / "s.fxs").path) as reader:
        found = [(one.use.kernel.name, one.line_label) for one in kernel_costs(reader)]
    assert found == [
        ("extern_kernels.addmm", "mlp.py:7"),
        ("kernel", "mlp.py:7"),
        ("extern_kernels.addmm", "mlp.py:8"),
    ]


def test_versions_of_a_function_are_counted_and_told_in_sums(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        for name, recompile in (("0/0", 0), ("0/1", 1), ("1/0", 0)):
            function = "twice" if name.startswith("0") else "once"
            compilation = writer.add(
                model.Compilation(
                    0, name, int(name[0]), recompile, function, "/p/f.py", 1, status="ok"
                )
            )
            writer.add(
                model.Kernel(
                    0, compilation, "forward", 0, f"k{name}", "triton", estimated_bytes=100
                )
            )
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert [one.description for one in versions(reader).values()] == ["1 of 2", "2 of 2", ""]
        assert over_versions(reader, [1, 2, 3]) == "over 2 versions of twice"
        assert over_versions(reader, [2, 3]) == ""
        assert kernels_as_text(reader).endswith(
            "3 kernels · 300 B · a sum over 2 versions of twice\n"
        )


@pytest.mark.parametrize("width", [60, 80, 120, 240])
def test_the_table_fits_its_width_and_says_what_it_left_out(tmp_path: Path, width: int) -> None:
    name = "triton_poi_fused__to_copy_add_native_layer_norm_backward_transpose_view_"
    with SessionWriter(tmp_path / "s.fxs") as writer:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/f.py", 1, status="ok"))
        for number in (2, 5):
            writer.add(
                model.Kernel(
                    0, compilation, "forward", 0, f"{name}{number}", "triton", estimated_bytes=1000
                )
            )
    with SessionReader(tmp_path / "s.fxs") as reader:
        whole, fitting = (
            kernels_as_text(reader).splitlines(),
            kernels_as_text(reader, width).splitlines(),
        )
    rows = fitting[: fitting.index("")]
    assert max(map(cell_len, rows)) <= width
    assert rows[1].split()[0] != rows[2].split()[0]
    assert rows[0].split()[0] == "kernel"
    assert "bytes" in rows[0]
    gone = {heading for heading in whole[0].split() if heading not in rows[0].split()}
    told = fitting[-1] if fitting[-1].startswith("Left out") else ""
    assert {heading for heading in whole[0].split() if f"“{heading}”" in told} == gone
    assert (fitting == whole) is (width > 106)


def test_alike_layers_are_one_module_in_words(tmp_path: Path) -> None:
    with SessionReader(write_training_step(tmp_path / "s.fxs").path) as reader:
        one = kernel_costs(reader)[0]
    assert replace(one, modules=("layers.0.up", "layers.1.up")).module_label == "layers.*.up ×2"
    assert replace(one, modules=("layers.0.up", "head")).module_label == "layers.0.up +1"
    assert replace(one, modules=("fc1", "fc2")).module_label == "fc1 +1"


def test_lines_and_modules_of_a_real_capture_are_those_of_the_users_file(
    captured: Captured, reader: OpenedReader
) -> None:
    """By hand: in mlp.py ``fc1`` and gelu stand in one line, ``fc2`` in the next; the gradients of
    the bias of ``fc2`` and of gelu are computed by one kernel.
    """
    source = (ROOT / "sample_models" / "mlp.py").read_text().splitlines()
    first = 1 + next(at for at, line in enumerate(source) if "self.fc1(" in line)
    second = 1 + next(at for at, line in enumerate(source) if "self.fc2(" in line)
    found = [
        (one.use.kernel.direction, sorted(line for _, line in one.lines), one.modules)
        for one in kernel_costs(reader(captured("mlp")))
    ]
    assert found == [
        ("forward", [first], ("fc1",)),
        ("forward", [first], ()),
        ("forward", [second], ("fc2",)),
        ("backward", [second], ("fc2",)),
        ("backward", [second], ("fc2",)),
        ("backward", [first, second], ("fc2",)),
        ("backward", [first], ("fc1",)),
        ("backward", [first], ("fc1",)),
    ]
