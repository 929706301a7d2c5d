"""These tests check what is highlighted when something is selected."""

from __future__ import annotations

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, document_of
from fx_explorer.analysis.linked_lines import linked_places
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import KERNEL, OUTPUT_CODE, SOURCE, Hand, Written

GELU_LINE = SOURCE.splitlines().index("        h = F.gelu(self.fc1(x))")
FC2_LINE = SOURCE.splitlines().index("        return self.fc2(h)")
TMP1_LINE = KERNEL.splitlines().index("    auto tmp1 = gelu(tmp0);")


def lit(reader: SessionReader, hand: Hand, start: str, line: int) -> dict[str, set[int]]:
    """Lines that light up by name of document, from line ``line`` of document ``start``."""
    shown = named_documents(reader, hand)
    found = linked_places(reader, Place(shown[start], line), shown.values())
    return {name: set(found[document]) for name, document in shown.items()}


def named_documents(reader: SessionReader, hand: Hand) -> dict[str, Document]:
    shown = {name: document_of(reader, "graph", graph.id) for name, graph in hand.graphs.items()}
    shown["source"] = document_of(reader, "source", hand.source)
    shown["kernel"] = document_of(reader, "artifact", hand.kernel_artifact)
    shown["output code"] = document_of(reader, "artifact", hand.output_code)
    shown["bytecode"] = document_of(reader, "artifact", hand.bytecode)
    return shown


def output_code_line(text: str) -> int:
    return OUTPUT_CODE.splitlines().index(text)


def test_a_forward_node_lights_its_source_kernel_line_and_both_directions(
    step: SessionReader, hand: Hand
) -> None:
    assert lit(step, hand, "post_forward", 2) == {
        "dynamo": {2},
        "joint": {2},
        "forward": {2},
        "backward": {2},
        "post_forward": {2},
        "post_backward": {2},
        "source": {GELU_LINE},
        "kernel": {TMP1_LINE},
        "output code": {
            output_code_line("    auto tmp1 = gelu(tmp0);"),
            output_code_line("    kernel(buf0)"),
        },
        "bytecode": {0},
    }


def test_a_backward_node_lights_the_forward_through_the_dynamo_graph(
    step: SessionReader, hand: Hand
) -> None:
    found = lit(step, hand, "post_backward", 1)
    assert found["dynamo"] == {3}
    assert found["post_forward"] == {3}
    assert found["joint"] == {4}, "its own place in the joint graph, not the forward's"
    assert found["source"] == {FC2_LINE}


def test_a_dynamo_node_lights_forward_and_backward(step: SessionReader, hand: Hand) -> None:
    found = lit(step, hand, "dynamo", 3)
    assert found["joint"] == {3, 4}
    assert found["post_forward"] == {3}
    assert found["post_backward"] == {1}


def test_a_source_line_lights_all_that_was_computed_on_it(step: SessionReader, hand: Hand) -> None:
    found = lit(step, hand, "source", GELU_LINE)
    assert found["source"] == {GELU_LINE}
    assert found["dynamo"] == {1, 2}
    assert found["post_forward"] == {1, 2}
    assert found["post_backward"] == {2}
    assert found["bytecode"] == {0}


def test_a_kernel_line_lights_its_node_and_the_user_line(step: SessionReader, hand: Hand) -> None:
    found = lit(step, hand, "kernel", TMP1_LINE)
    assert found["post_forward"] == {2}
    assert found["source"] == {GELU_LINE}


def test_a_kernel_line_of_nobody_stands_for_the_whole_kernel(
    step: SessionReader, hand: Hand
) -> None:
    assert lit(step, hand, "kernel", 0)["post_forward"] == {2}


def test_the_call_of_a_library_lights_its_node(step: SessionReader, hand: Hand) -> None:
    found = lit(
        step, hand, "output code", output_code_line("    extern_kernels.addmm(bias2, buf0, w2)")
    )
    assert found["post_forward"] == {3}
    assert found["source"] == {FC2_LINE}


def test_a_kernel_inside_output_code_is_the_kernel(step: SessionReader, hand: Hand) -> None:
    line = output_code_line("    auto tmp1 = gelu(tmp0);")
    assert lit(step, hand, "output code", line)["kernel"] == {TMP1_LINE}


def test_an_instruction_lights_what_its_line_computes(step: SessionReader, hand: Hand) -> None:
    assert lit(step, hand, "bytecode", 1)["dynamo"] == {3}


def test_an_instruction_lights_its_source_line(step: SessionReader, hand: Hand) -> None:
    assert lit(step, hand, "bytecode", 0)["source"] == {GELU_LINE}
    assert lit(step, hand, "bytecode", 1)["source"] == {FC2_LINE}


def test_an_input_lights_only_itself(step: SessionReader, hand: Hand) -> None:
    found = lit(step, hand, "post_forward", 0)
    assert {name for name, lines in found.items() if lines} == {"post_forward"}


@pytest.mark.parametrize("line", [-1, 99])
def test_a_line_outside_the_document_links_to_nothing(
    step: SessionReader, hand: Hand, line: int
) -> None:
    found = lit(step, hand, "dynamo", line)
    assert not any(lines for name, lines in found.items() if name != "dynamo")


def test_a_node_without_a_stack_is_shown_where_it_came_from(written: Written) -> None:
    """A pass may drop the stack of a node it makes; the line is then that of the node it replaces."""

    def write(writer: SessionWriter) -> None:
        file = writer.add(model.SourceFile(0, "/p/m.py", writer.text("a\nb\n"), 2))
        stack = writer.add_stack(
            model.Stack(0, (model.Frame("/p/m.py", 2, "f"),)), {"/p/m.py": file}
        )
        node = model.Node(0, 0, 0, "n", "call_function", "t", "", stack=stack, file=file, line=2)
        bare = model.Node(0, 0, 0, "n", "call_function", "t", "")
        first = writer.add_graph(model.Graph(0, 0, "dynamo", ""), [node], [])
        second = writer.add_graph(model.Graph(0, 0, "post_grad", "inference"), [bare], [])
        writer.add(model.Link(second.first_node, first.first_node, "seq_nr"))

    reader = written(write)
    source, later = document_of(reader, "source", 1), document_of(reader, "graph", 2)
    assert linked_places(reader, Place(later, 0), [source]) == {source: frozenset({1})}
