"""These tests check saved tensors, guards, kernels, regions, the console, and how figures are
written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis import words
from fx_explorer.analysis.annotated_regions import regions
from fx_explorer.instruments.guards.kinds import guard_kinds, guards_of
from fx_explorer.instruments.kernels.counts import kernel_uses, kernels_by_direction
from fx_explorer.instruments.memory.saved_values import saved_total, saved_values
from fx_explorer.overview.ending import console_lines, failures
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import Written


def test_a_saved_tensor_knows_who_makes_and_who_takes_it(step: SessionReader) -> None:
    (value,) = saved_values(step)
    assert (value.producer, value.file, value.line, value.consumers) == (
        "aten.addmm.default",
        "/p/mlp.py",
        7,
        ("mm",),
    )
    assert saved_total(step, "activation").size_bytes == 128
    assert saved_total(step, "parameter").count == 0


def test_a_saved_tensor_of_unknown_size_comes_last_and_is_counted(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add_all(
            model.SavedTensor(0, 1, n, "input", ("s0",), "f32", b, 0, 0)
            for n, b in (("a", 0), ("b", 8), ("c", 64))
        )

    reader = written(write)
    assert [value.saved.name for value in saved_values(reader)] == ["c", "b", "a"]
    assert saved_total(reader).unknown_sizes == 1


def test_saved_tensors_are_what_the_backward_takes_from_the_forward(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader]
) -> None:
    """Second source: the generated backward's own arguments, less the gradients that come in."""
    session = reader(captured("mlp"))
    (backward,) = [g for g in session.rows(model.Graph, stage="backward") if not g.parent]
    arguments = {node.name for node in session.nodes(backward) if node.op == "placeholder"}
    saved = {value.saved.name for value in saved_values(session)}
    assert saved
    assert saved == {name for name in arguments if not name.startswith("tangents")}


def test_kernels_are_told_by_direction(step: SessionReader) -> None:
    (forward,) = kernels_by_direction(step)
    assert (forward.generated, forward.library_calls, forward.operations_fused) == (1, 2, 1)
    assert forward.libraries == ("extern_kernels.addmm",)


def test_kernel_uses_come_in_the_order_of_calls(step: SessionReader) -> None:
    assert [
        (use.kernel.name, use.nodes, use.calls, use.line_count) for use in kernel_uses(step)
    ] == [
        ("extern_kernels.addmm", ("addmm",), 1, 0),
        ("kernel", ("gelu",), 1, 4),
        ("extern_kernels.addmm", ("addmm_1",), 1, 0),
    ]


def test_every_kernel_of_a_real_step_has_nodes(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader]
) -> None:
    uses = kernel_uses(reader(captured("mlp")))
    assert uses
    assert [use.kernel.name for use in uses if not use.nodes] == []


def test_guards_are_counted_by_kind(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add_all(
            model.Guard(0, compilation, position, kind, "", "", "")
            for compilation in (1, 2)
            for position, kind in enumerate(("TENSOR_MATCH", "ID_MATCH", "ID_MATCH", "BRAND_NEW"))
        )

    reader = written(write)
    assert [(k.kind, k.count) for k in guard_kinds(reader, 1)] == [
        ("ID_MATCH", 2),
        ("BRAND_NEW", 1),
        ("TENSOR_MATCH", 1),
    ]
    assert guard_kinds(reader)[0].count == 4
    assert [k.description for k in guard_kinds(reader) if k.kind == "BRAND_NEW"] == [""]
    assert [guard.position for guard in guards_of(reader, 2, 1, 3)] == [1, 2]


def test_regions_are_followed_through_the_stages(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        marked = [
            model.Node(0, 0, 0, f"n{i}", "call_function", "t", "", annotations=annotations)
            for i, annotations in enumerate(
                ({"part": "mlp"}, {"part": "mlp", "layer": 1}, {"other": "mlp"}, None)
            )
        ]
        graph = writer.add_graph(model.Graph(0, 1, "post_grad", "backward"), marked, [])
        code = writer.add(
            model.Artifact(0, 1, "kernel", "kernel", "backward", "k", "cpp", writer.text("x"), 1)
        )
        writer.add(model.Kernel(0, 1, "backward", 0, "k", "cpp", code))
        writer.add(model.LineNode(code, 0, graph.first_node, "origins"))

    found = {(r.key, r.value): r for r in regions(written(write))}
    assert found["part", "mlp"].nodes == {"post_grad/backward": 2}
    assert found["part", "mlp"].kernels == ("k",)
    assert found["part", "mlp"].name == "part: mlp", "two keys have this value"
    assert found["layer", "1"].name == "1"
    assert not found["layer", "1"].is_compiled


def test_a_region_given_to_regional_inductor_goes_by_its_name(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        annotations = {
            "compile_with_inductor": {"inductor_region": "attention", "inductor_configs": {}}
        }
        node = model.Node(0, 0, 0, "n", "call_function", "t", "", annotations=annotations)
        writer.add_graph(model.Graph(0, 1, "dynamo", ""), [node], [])

    (found,) = regions(written(write))
    assert (found.name, found.nodes) == ("attention", {"dynamo": 1})


def test_a_failure_is_at_the_users_innermost_line(written: Written) -> None:
    traceback = """Traceback (most recent call last):
  File "/p/m.py", line 9, in <module>
    main()
  File "/p/m.py", line 4, in main
    torch.mm(a, b)
  File "/lib/torch/ops.py", line 99, in mm
    raise RuntimeError("no")
RuntimeError: no
"""

    def write(writer: SessionWriter) -> None:
        writer.add(model.SourceFile(0, "/p/m.py", writer.text("\n" * 9), 9))
        writer.add(
            model.SourceFile(0, "/lib/torch/ops.py", writer.text("\n" * 99), 99, is_user=False)
        )
        writer.add(
            model.Failure(0, 0, "program", None, "RuntimeError", "no", writer.text(traceback))
        )

    (found,) = failures(written(write))
    assert found.traceback == traceback
    assert found.place is not None
    assert (found.place.document.title, found.place.line) == ("m.py", 3)


def test_the_console_is_read_by_page(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add_all(model.ConsoleLine(0, "stdout", str(i)) for i in range(10))

    assert [line.text for line in console_lines(written(write), 3, 5)] == ["3", "4"]


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [
        (0.0, "0.0 ms"),
        (0.00042, "0.4 ms"),
        (0.032, "32 ms"),
        (0.431, "0.43 s"),
        (12.34, "12.3 s"),
        (125.4, "2 min 5 s"),
    ],
)
def test_durations(duration_s: float, text: str) -> None:
    assert words.seconds(duration_s) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_234_567, "1.2 MB"),
        (2 * 10**9, "2.0 GB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes(size_bytes: int, text: str) -> None:
    assert words.size(size_bytes) == text


def test_counts_and_lists() -> None:
    assert words.counted(1, "graph") == "1 graph"
    assert words.counted(1024, "node") == "1,024 nodes"
    assert words.counted(2, "library") == "2 libraries"
    assert words.listed(["a"]) == "a"
    assert words.listed(["a", "b"]) == "a and b"
    assert words.listed("abcde") == "a, b, c and 2 more"
    assert words.listed([]) == ""
    assert words.share(1, 0) == "0 %"
    assert words.tensor("f32", ("4", "s0")) == "f32[4, s0]"
    assert words.first_line("\n  a\nb") == "a"
