"""These tests check how complete the links are."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.link_explanations import link_coverage, statement_lines
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.links import nodes_without_source
from tests.sessions import Written


def test_the_coverage_of_a_training_step(step: SessionReader) -> None:
    forward, backward = link_coverage(step)
    assert (
        forward.direction,
        forward.nodes,
        forward.compute_nodes,
        forward.to_source,
        forward.to_kernel,
    ) == (
        "forward",
        3,
        3,
        3,
        3,
    )
    assert (forward.kernel_lines, forward.kernel_lines_linked) == (2, 1)
    assert (backward.direction, backward.nodes, backward.to_kernel) == ("backward", 2, 0), (
        "no backward kernel was written"
    )


def test_views_are_not_expected_to_have_a_kernel(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        view = model.Node(0, 0, 0, "view", "call_function", "aten.view.default", "", is_view=True)
        given = model.Node(0, 0, 0, "x", "placeholder", "x", "")
        writer.add_graph(model.Graph(0, 0, "post_grad", "inference"), [given, view], [])

    (found,) = link_coverage(written(write))
    assert (found.nodes, found.compute_nodes) == (1, 0)


def test_a_line_known_through_an_ancestor_counts(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        file = writer.add(model.SourceFile(0, "/p/m.py", writer.text("a\n"), 1))
        known = model.Node(0, 0, 0, "n", "call_function", "t", "", file=file, line=1)
        bare = model.Node(0, 0, 0, "n", "call_function", "t", "")
        first = writer.add_graph(model.Graph(0, 0, "dynamo", ""), [known], [])
        second = writer.add_graph(model.Graph(0, 0, "post_grad", "inference"), [bare, bare], [])
        writer.add(model.Link(second.first_node, first.first_node, "from_node"))

    reader = written(write)
    (found,) = link_coverage(reader)
    assert (found.nodes, found.to_source) == (2, 1)
    assert nodes_without_source(reader, "inference", None) == [3]


def test_an_ir_line_is_no_kernel(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        graph = writer.add_graph(
            model.Graph(0, 0, "post_grad", "inference"),
            [model.Node(0, 0, 0, "n", "call_function", "t", "")],
            [],
        )
        ir = writer.add(
            model.Artifact(
                0, 0, "ir_post_fusion", "schedule", "inference", "", "ir", writer.text("op0\n"), 1
            )
        )
        writer.add(model.LineNode(ir, 1, graph.first_node, "origins"))

    (found,) = link_coverage(written(write))
    assert found.to_kernel == 0


def test_statements_of_a_cpp_kernel_are_loads_operations_and_stores() -> None:
    code = """extern "C" void kernel(const float* in_ptr0, float* out_ptr0)
{
    {
        float tmp_acc0 = 0;
        for(int64_t x0=0; x0<64; x0+=8)
        {
            auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + x0);
            auto tmp1 = tmp0 + tmp0;
            tmp_acc0 = tmp_acc0 + tmp1;
            tmp1.store(out_ptr0 + x0);
        }
        out_ptr0[static_cast<int64_t>(0L)] = tmp_acc0;
    }
}"""
    assert statement_lines(code, "cpp") == [7, 8, 9, 10, 12]


def test_statements_of_a_triton_kernel() -> None:
    code = """@triton.jit
def triton_(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = tmp0 + tmp0
    tl.store(out_ptr0 + (x0), tmp1, xmask)"""
    assert statement_lines(code, "triton") == [6, 7, 8]


def test_nothing_is_claimed_of_an_unknown_language() -> None:
    assert statement_lines("auto tmp0 = 1;", "sass") == []
