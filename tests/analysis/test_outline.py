"""These tests check the outline, a session's table of contents."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import read_sources
from fx_explorer.analysis.naming import plain_function
from fx_explorer.overview.outline import outline
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import Written


def test_the_outline_of_a_training_step(step: SessionReader) -> None:
    assert [(e.depth, e.title, e.detail) for e in outline(step)] == [
        (0, "Source", "1 file"),
        (1, "mlp.py", "8 lines"),
        (0, "[0/0] MLP.forward", "mlp.py:6 · 2.00 s"),
        (1, "Dynamo graph", "5 nodes"),
        (1, "Bytecode as written", "2 lines"),
        (1, "Joint graph", "7 nodes"),
        (1, "Forward graph", "5 nodes"),
        (1, "Backward graph", "4 nodes"),
        (1, "Forward · post-grad", "5 nodes"),
        (1, "Backward · post-grad", "4 nodes"),
        (1, "Output code · forward", "11 lines"),
        (1, "Kernels · forward", "3"),
        (2, "extern_kernels.addmm", "library call"),
        (2, "kernel", "cpp"),
        (2, "extern_kernels.addmm", "library call"),
    ]


def test_everything_but_headings_can_be_followed(step: SessionReader) -> None:
    assert [e.title for e in outline(step) if e.place is None] == ["Source", "Kernels · forward"]


def test_a_failed_compilation_says_why_and_which_stages_are_missing(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        missing = {"kernel": "backend eager generates none"}
        writer.add(
            model.Compilation(
                0,
                "0/0",
                0,
                0,
                "f",
                "/p/m.py",
                3,
                status="failed",
                error="it broke",
                missing_stages=missing,
            )
        )

    failed, absent = outline(written(write))
    assert (failed.status, failed.detail) == ("failed", "m.py:3 · it broke")
    assert (absent.title, absent.detail, absent.status) == (
        "kernel",
        "backend eager generates none",
        "missing",
    )


def test_a_nested_graph_stands_below_the_one_that_holds_it(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 3))
        whole = writer.add_graph(model.Graph(0, compilation, "dynamo", ""), [], [])
        writer.add_graph(model.Graph(0, compilation, "dynamo", "", "cond_true_0", whole.id), [], [])

    assert [(e.depth, e.title) for e in outline(written(write))][1:] == [
        (1, "Dynamo graph"),
        (2, "Dynamo graph · cond_true_0"),
    ]


def test_another_variant_stands_right_below_its_compilation_and_says_what_differs(
    written: Written,
) -> None:
    def write(writer: SessionWriter) -> None:
        first = writer.add(
            model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 3, status="ok", in_use=False)
        )
        writer.add_graph(model.Graph(0, first, "dynamo", ""), [], [])
        changes = model.Changes({"inductor.max_fusion_size": 8}).to_json()
        variant = model.Compilation(
            0,
            "0/0~1",
            0,
            0,
            "f",
            "/p/m.py",
            3,
            status="ok",
            variant_of="0/0",
            variant_from="dynamo",
            changes=changes,
            saved_s=2.0,
        )
        writer.add(variant)

    heading, variant, own = outline(written(write))
    assert (heading.title, own.title) == ("[0/0] f", "Dynamo graph")
    assert (variant.depth, variant.title) == (
        1,
        "↳ variant 1: inductor.max_fusion_size = 8 · from Dynamo",
    )
    assert variant.detail == "[0/0~1] · saved 2.00 s · the program uses it"


def test_an_empty_session_has_an_empty_outline(written: Written) -> None:
    assert outline(written(lambda writer: None)) == []


@pytest.mark.parametrize(
    ("function", "plain"),
    [
        ("MLP.forward", "MLP.forward"),
        ("torch_dynamo_resume_in_forward_at_12", "rest of forward after line 12"),
        ("Net.torch_dynamo_resume_in_forward_at_7", "rest of Net.forward after line 7"),
        ("torch_dynamo_resume_in_look_at_me_at_7", "rest of look_at_me after line 7"),
        ("look_at_12", "look_at_12"),
    ],
)
def test_the_rest_of_a_function_after_a_break_is_called_by_its_line(
    function: str, plain: str
) -> None:
    assert plain_function(function) == plain


def write_with_packages(path: Path) -> None:
    """A node in the user's file, one in a package's, a break in another's, and a guard that a third
    one asked for.
    """
    with SessionWriter(path) as writer:
        stacks = {}
        for name in ("/site/lib.py", "/p/mine.py", "/site/breaks.py", "/lib/typing.py"):
            file = writer.add(
                model.SourceFile(0, name, writer.text("x\n"), 1, is_user=name.startswith("/p/"))
            )
            stacks[name] = writer.add_stack(
                model.Stack(0, (model.Frame(name, 1, "f"),)), {name: file}
            )
        nodes = [
            model.Node(0, 0, 0, f"n{i}", "call_function", "f", "", stack=stacks[name])
            for i, name in enumerate(("/site/lib.py", "/p/mine.py"))
        ]
        writer.add_graph(model.Graph(0, 1, "dynamo", ""), nodes, [])
        writer.add(
            model.GraphBreak(
                0, 1, "", "r", "", (), "/site/breaks.py", 1, "", stack=stacks["/site/breaks.py"]
            )
        )


def test_a_file_that_only_guards_come_from_is_not_listed(tmp_path: Path) -> None:
    write_with_packages(tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert [one.title for one in read_sources(reader)] == ["mine.py", "lib.py", "breaks.py"]


def test_files_of_packages_stand_below_the_users_own(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    write_with_packages(path)
    with SessionReader(path) as reader:
        assert [(e.depth, e.title) for e in outline(reader)] == [
            (0, "Source"),
            (1, "mine.py"),
            (1, "of packages"),
            (2, "lib.py"),
            (2, "breaks.py"),
        ]
