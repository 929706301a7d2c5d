"""These tests check the evidence of each link."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.documents import Place, document_of
from fx_explorer.analysis.link_explanations import HOW_IN_WORDS, explain
from fx_explorer.model.rows.graph import How
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import Hand, Written


def test_a_node_tells_where_it_came_from_what_it_became_and_its_line(
    step: SessionReader, hand: Hand
) -> None:
    found = explain(step, Place(document_of(step, "graph", hand.graphs["forward"].id), 2))
    assert [(e.relation, e.name, e.how, e.place.document.title) for e in found] == [
        ("from", "gelu", "identity", "Joint graph"),
        ("became", "gelu", "identity", "Forward · post-grad"),
        ("source", "mlp.py:7", "stack_trace", "mlp.py"),
    ]


def test_a_post_grad_node_tells_its_kernel(step: SessionReader, hand: Hand) -> None:
    place = Place(document_of(step, "graph", hand.graphs["post_forward"].id), 2)
    (kernel,) = [e for e in explain(step, place) if e.relation == "kernel"]
    assert (kernel.name, kernel.how, kernel.is_certain) == ("kernel", "origins", True)


def test_a_node_of_a_library_call_tells_the_call(step: SessionReader, hand: Hand) -> None:
    place = Place(document_of(step, "graph", hand.graphs["post_forward"].id), 3)
    (kernel,) = [e for e in explain(step, place) if e.relation == "kernel"]
    assert (kernel.name, kernel.how) == ("extern_kernels.addmm", "call_site")


def test_a_kernel_line_tells_its_node(step: SessionReader, hand: Hand) -> None:
    (found,) = explain(step, Place(document_of(step, "artifact", hand.kernel_artifact), 2))
    assert (found.relation, found.name, found.how) == ("from", "gelu", "codegen")


def test_a_source_line_tells_its_nodes(step: SessionReader, hand: Hand) -> None:
    found = explain(step, Place(document_of(step, "source", hand.source), 7))
    assert {(e.relation, e.name) for e in found} == {
        ("became", "fc2"),
        ("became", "addmm_1"),
        ("became", "mm"),
    }


def test_a_link_by_sequence_number_is_not_certain(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        node = model.Node(0, 0, 0, "n", "call_function", "t", "")
        first = writer.add_graph(model.Graph(0, 0, "dynamo", ""), [node], [])
        second = writer.add_graph(model.Graph(0, 0, "backward", "backward"), [node], [])
        writer.add(model.Link(second.first_node, first.first_node, "seq_nr"))

    reader = written(write)
    (found,) = explain(reader, Place(document_of(reader, "graph", 2), 0))
    assert not found.is_certain


def test_every_way_of_knowing_has_words() -> None:
    assert set(HOW_IN_WORDS) == set(How.__args__)  # type: ignore[attr-defined]
