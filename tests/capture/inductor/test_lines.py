import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fx_explorer.capture.inductor.generated import GeneratedKernel, LoweredKernels
from fx_explorer.capture.inductor.lines_by_node import RenderedTexts, TaggedLine
from tests.capture.lowering import lower, source_line

STATEMENT = re.compile(r"auto tmp\d+ = |\.store\(|out_ptr\d+\[|tmp_acc\d+")


class Norms(nn.Module):
    """Reductions, a vectorised loop with a tail (widths that no vector divides), masks, and half
    precision.
    """

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(10, 13)
        self.norm = nn.LayerNorm(13)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.gelu(self.norm(self.linear(x)))
        z = F.pad(y, (1, 2)).softmax(-1).to(torch.bfloat16) * 2
        return z.float().amax(-1).sum()


@pytest.fixture(scope="module")
def trained() -> list[LoweredKernels]:
    return lower(lambda step: step(torch.randn(7, 10)).backward(), Norms())


def generated(graphs: list[LoweredKernels]) -> list[GeneratedKernel]:
    return [kernel for graph in graphs for kernel in graph.kernels if kernel.language == "cpp"]


def test_nearly_every_statement_of_a_cpp_kernel_has_its_node(trained: list[LoweredKernels]) -> None:
    statements = linked = 0
    for kernel in generated(trained):
        lines = {line for line, _ in kernel.calls[0].line_nodes}
        numbers = [
            n for n, text in enumerate(kernel.source.split("\n"), 1) if STATEMENT.search(text)
        ]
        statements += len(numbers)
        linked += sum(number in lines for number in numbers)
    assert statements > 100
    assert linked >= 0.92 * statements


def test_a_line_links_to_nodes_of_its_own_graph_and_call(trained: list[LoweredKernels]) -> None:
    for kernel in generated(trained):
        for call in kernel.calls:
            assert {node for _, node in call.line_nodes} <= set(call.nodes)


OPERATIONS = {"erf": ".erf()", "exp": "exp", "rsqrt": "rsqrt", "amax": "max"}
"""Node whose code can be told by its look → what its lines contain."""


def test_the_line_that_looks_like_a_node_is_linked_to_it(trained: list[LoweredKernels]) -> None:
    seen = set()
    for kernel in generated(trained):
        for call in kernel.calls:
            for name in OPERATIONS.keys() & set(call.nodes):
                texts = [
                    source_line(kernel, line) for line, node in call.line_nodes if node == name
                ]
                seen.add(name)
                assert any(OPERATIONS[name] in text for text in texts), (kernel.name, name)
    assert seen >= {"erf", "exp", "amax"}


def test_a_value_used_by_two_nodes_is_linked_to_both() -> None:
    (graph,) = lower(lambda f: f(torch.ones(8)), lambda x: (x.sin(), x.cos()))
    (kernel,) = generated([graph])
    load = next(n for n, text in enumerate(kernel.source.split("\n"), 1) if "loadu(in_ptr0" in text)
    assert {node for line, node in kernel.calls[0].line_nodes if line == load} == {"sin", "cos"}


class Buffer:
    """Buffer imitates Inductor's IndentedBuffer, with torch's own way to make the text."""

    def __init__(self, lines: list[object]) -> None:
        from torch._inductor.utils import IndentedBuffer

        self.real = IndentedBuffer()
        self.real._lines = lines


def test_a_part_of_a_line_remembers_its_nodes() -> None:
    line = TaggedLine("    x = y", ["mul"])
    assert (line[4:], line[4:].nodes) == ("x = y", ["mul"])
    assert line == "    x = y"


def test_text_put_into_a_template_keeps_its_lines() -> None:
    texts = RenderedTexts()
    part = texts.render(
        Buffer(
            ["first", TaggedLine("tmp0 = a\ntmp1 = b", ["add"]), TaggedLine("", ["none"]), "last"]
        ).real
    )
    whole = "\n\nheader\n" + "\n".join("    " + line for line in part.splitlines()) + "\nfooter"
    assert texts.lines_of(part) == ((2, "add"), (3, "add"), (4, "none"))
    assert texts.lines_of(whole) == ((3, "add"), (4, "add"), (5, "none"))
    assert texts.lines_of("something else") == ()


def test_a_line_that_is_not_written_in_the_end_moves_no_other() -> None:
    from torch._inductor.utils import DeferredLineBase

    class Never(DeferredLineBase):
        def __call__(self) -> None:
            return None

    unwritten = Never("store")
    unwritten.nodes = ["gone"]
    texts = RenderedTexts()
    text = texts.render(Buffer([unwritten, TaggedLine("kept", ["mul"])]).real)
    assert text == "kept\n"
    assert texts.lines_of(text) == ((1, "mul"),)
