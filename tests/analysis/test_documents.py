"""These tests check documents and places."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    document_of,
    documents,
    lines_of,
    node_at,
    place_of_kernel,
    place_of_node,
    place_of_path,
    place_of_source,
    places_of_nodes,
    rows_of,
)
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import KERNEL, OUTPUT_CODE, SOURCE, Hand, Written


def test_documents_come_in_the_order_of_the_stages(step: SessionReader) -> None:
    assert [d.title for d in documents(step)] == [
        "mlp.py",
        "Dynamo graph",
        "Bytecode as written",
        "Joint graph",
        "Forward graph",
        "Backward graph",
        "Forward · post-grad",
        "Backward · post-grad",
        "Output code · forward",
        "kernel",
    ]


def test_a_document_is_the_same_however_it_was_asked_for(step: SessionReader) -> None:
    for document in documents(step):
        assert document_of(step, document.kind, document.id) == document
        assert hash(document) == hash(Document(document.kind, document.id))


def test_the_lines_of_a_text_are_those_of_the_file(step: SessionReader, hand: Hand) -> None:
    assert lines_of(step, document_of(step, "source", hand.source)) == SOURCE.splitlines()
    assert (
        lines_of(step, document_of(step, "artifact", hand.output_code)) == OUTPUT_CODE.splitlines()
    )


def test_lines_are_split_at_line_feeds_only(written: Written) -> None:
    """A form feed or a Unicode line separator inside a string does not start a line for Python or a
    C++ compiler.
    """
    text = "a\x0cb\r\nc\u2028d\n"
    reader = written(
        lambda writer: writer.add(model.SourceFile(0, "/p/m.py", writer.text(text), 2))
    )
    assert lines_of(reader, document_of(reader, "source", 1)) == ["a\x0cb", "c\u2028d"]


def test_rows_are_read_by_page(step: SessionReader, hand: Hand) -> None:
    graph = document_of(step, "graph", hand.graphs["forward"].id)
    assert [node.name for node in rows_of(step, graph, 1, 3)] == ["addmm", "gelu"]


def test_a_node_and_its_place_are_each_other(step: SessionReader, hand: Hand) -> None:
    node = step.get(model.Node, hand.node("backward", 2))
    assert node_at(step, place_of_node(step, node)) == node


def test_there_is_no_node_in_a_text_or_below_a_graph(step: SessionReader, hand: Hand) -> None:
    assert node_at(step, Place(document_of(step, "source", hand.source), 6)) is None
    assert node_at(step, Place(document_of(step, "graph", hand.graphs["forward"].id), 99)) is None


def test_places_of_nodes_keep_the_order_and_leave_out_what_is_gone(
    step: SessionReader, hand: Hand
) -> None:
    wanted = [hand.node("backward", 1), 99_999, hand.node("dynamo", 1)]
    found = places_of_nodes(step, wanted)
    assert [(p.document.title, p.line) for p in found] == [
        ("Backward graph", 1),
        ("Dynamo graph", 1),
    ]


def test_a_kernel_is_at_its_code_and_a_library_call_at_the_call(step: SessionReader) -> None:
    places = {kernel.position: place_of_kernel(step, kernel) for kernel in step.rows(model.Kernel)}
    assert places[1] is not None
    assert lines_of(step, places[1].document) == KERNEL.splitlines()
    assert places[2] is not None
    assert (
        lines_of(step, places[2].document)[places[2].line]
        == "    extern_kernels.addmm(bias2, buf0, w2)"
    )


def test_a_source_whose_text_was_not_kept_has_no_place(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.SourceFile(0, "<string>", 0, note="no such file"))
        writer.add(model.Kernel(0, 0, "forward", 0, "mm", "extern"))

    reader = written(write)
    assert documents(reader) == []
    assert place_of_path(reader, "<string>", 3) is None
    assert place_of_path(reader, "/elsewhere.py", 3) is None
    assert place_of_source(reader, 77, 3) is None
    assert place_of_kernel(reader, reader.get(model.Kernel, 1)) is None


def test_titles_say_direction_and_subgraph() -> None:
    from fx_explorer.analysis.documents import artifact_title, graph_title

    assert graph_title(model.Graph(1, 1, "forward", "inference")) == "Inference graph"
    assert (
        graph_title(model.Graph(1, 1, "post_grad", "inference", "cond_true_0"))
        == "Inference · post-grad · cond_true_0"
    )
    assert (
        artifact_title(model.Artifact(1, 1, "listing", "dynamo", "", "what I was", "text", 0))
        == "what I was"
    )
