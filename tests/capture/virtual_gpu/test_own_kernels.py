"""These tests check kernels that the user wrote: their lines in every text, against the file itself
and against Triton's record of that file.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from torch._inductor import config as inductor_config

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    document_of,
    documents,
    lines_of,
    rows_of,
)
from fx_explorer.analysis.kernel_documents import level_document, linked_with_levels, text_of_level
from fx_explorer.analysis.link_explanations import explain
from fx_explorer.analysis.linked_lines import Selection, linked_places
from fx_explorer.capture.virtual_gpu.not_possible import needs_fake
from fx_explorer.gpus import find_gpu
from fx_explorer.instruments.kernels.builder_pool import BuilderPool
from fx_explorer.instruments.kernels.report import kernel_text
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import nodes_of_stage
from fx_explorer.session.queries.links import ancestors
from tests.capture.virtual_gpu.conftest import HERE, ForGpu, needs_triton, told
from tests.exhaustive import with_others

FILES = (HERE / "own_kernels.py", HERE / "kernels_elsewhere.py")

KERNELS = {
    "add_kernel": ["add_kernel"],
    "softmax_kernel": ["softmax_kernel"],
    "matmul_kernel": ["matmul_kernel", "leaky_relu"],
    "layer_norm_kernel": ["layer_norm_kernel"],
    "hard_swish_kernel": ["hard_swish_kernel", "hard_swish", "clamped"],
    "scale_kernel": ["scale_kernel"],
    "square_kernel": ["square_kernel"],
    "square_backward_kernel": ["square_backward_kernel"],
}
"""With the functions that are copied with them."""

HELPED = ["matmul_kernel", "hard_swish_kernel"]
BUILT = with_others(HELPED, [name for name in KERNELS if name not in HELPED])
"""Kernels that are compiled to instructions: in an ordinary run two that call others, in two files.
"""

pytestmark = needs_triton


@pytest.fixture(scope="module")
def session(for_gpu: ForGpu) -> Iterator[SessionReader]:
    ended = for_gpu(FILES[0], "h100", as_script=True)
    assert told(ended, "failed") == []
    with SessionReader(ended.session) as reader:
        yield reader


def own(reader: SessionReader) -> list[model.Kernel]:
    return [
        kernel for kernel in reader.rows(model.Kernel) if kernel.name.rpartition("_")[0] in KERNELS
    ]


def copied(reader: SessionReader, kernel: model.Kernel) -> list[model.LineSource]:
    return reader.rows(model.LineSource, artifact=kernel.artifact, how="copied")


def file_named(reader: SessionReader, name: str) -> Document:
    return next(document for document in documents(reader) if document.title == name)


def place_of(reader: SessionReader, text: str, file: str = "own_kernels.py") -> Place:
    document = file_named(reader, file)
    (line,) = (i for i, line in enumerate(lines_of(reader, document)) if text in line)
    return Place(document, line)


def code_of(reader: SessionReader, kernel: model.Kernel) -> list[str]:
    return lines_of(reader, document_of(reader, "artifact", kernel.artifact))


def test_the_text_of_every_linked_line_is_that_of_the_file(session: SessionReader) -> None:
    texts = {str(file): file.read_text().split("\n") for file in FILES}
    for kernel in own(session):
        code = code_of(session, kernel)
        for row in copied(session, kernel):
            path = session.get(model.SourceFile, row.file).path
            assert code[row.line - 1] == texts[path][row.source_line - 1], (kernel.name, row)


def test_every_line_of_a_kernel_and_of_its_helpers_is_linked(session: SessionReader) -> None:
    spans = {}
    for file in FILES:
        lines = file.read_text().split("\n")
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                numbers = range(node.lineno, (node.end_lineno or 0) + 1)
                spans[node.name] = {
                    (str(file), number) for number in numbers if lines[number - 1].strip()
                }
    for kernel in own(session):
        expected = set().union(*(spans[name] for name in KERNELS[kernel.name.rpartition("_")[0]]))
        rows = copied(session, kernel)
        assert {
            (session.get(model.SourceFile, row.file).path, row.source_line) for row in rows
        } == expected, kernel.name


def test_a_call_is_linked_to_its_kernel_and_to_no_other(session: SessionReader) -> None:
    """Which of two equal kernels it is, the constants in the kernel's metadata and the call in the
    file say.
    """
    file = FILES[0].read_text().split("\n")
    factors = set()
    for kernel in session.rows(model.Kernel):
        called = (
            {row.node for row in session.nodes_of_line(kernel.artifact, 0)}
            if kernel.artifact
            else set()
        )
        nodes = session.by_ids(model.Node, called)
        calls = [node for node in nodes if "triton_kernel_wrapper" in node.target]
        if kernel not in own(session):
            assert not calls, kernel.name
            continue
        assert calls == nodes, kernel.name
        assert len(nodes) == 1, kernel.name
        if kernel.name.startswith("scale_kernel"):
            (factor,) = re.findall(r"'FACTOR': (\d)", "\n".join(code_of(session, kernel)))
            assert f"FACTOR={factor}" in file[nodes[0].line - 1]
            factors.add(factor)
    assert factors == {"2", "3"}


def test_a_call_keeps_its_number_from_dynamo_to_inductor(session: SessionReader) -> None:
    for kernel in own(session):
        (row,) = session.nodes_of_line(kernel.artifact, 0)
        (made_from,) = session.parents([row.node])
        assert made_from.how == "kernel_call"
        (node,), (parent,) = (
            session.by_ids(model.Node, [row.node]),
            session.by_ids(model.Node, [made_from.parent]),
        )
        assert parent.target.endswith("triton_kernel_wrapper_functional")
        assert parent.line == node.line


def test_a_call_reaches_the_call_that_dynamo_traced_also_out_of_an_autograd_function(
    session: SessionReader,
) -> None:
    for kernel in own(session):
        (row,) = session.nodes_of_line(kernel.artifact, 0)
        (node,) = session.by_ids(model.Node, [row.node])
        family = session.by_ids(
            model.Node, nodes_of_stage(session, ancestors(session, [node.id]), "dynamo")
        )
        assert [one.line for one in family] == [node.line], kernel.name
        assert re.search("triton_kernel_wrapper|own_add", family[0].target)


@pytest.mark.parametrize(
    ("setting", "is_copied"),
    with_others(
        [("inductor.cpp_wrapper", True)],
        [("inductor.epilogue_fusion_user_defined_triton_kernel", False)],
    ),
)
def test_a_kernel_in_a_text_of_cpp_is_linked_and_one_that_torch_changed_is_not(
    for_gpu: ForGpu, setting: str, is_copied: bool
) -> None:
    if not hasattr(inductor_config, setting.removeprefix("inductor.")):
        pytest.skip("this torch cannot do that")
    ended = for_gpu(
        FILES[0], "h100", as_script=True, arguments=("vector_add",), settings={setting: True}
    )
    if any("CudaKernelParamCache" in line for line in told(ended, "failed")):
        pytest.skip("the C++ wrapper of torch 2.11 is written when the kernels are built")
    with SessionReader(ended.session) as reader:
        (kernel,) = own(reader)
        (output_code,) = reader.rows(model.Artifact, kind="output_code")
        generated = reader.text(output_code.text).split("\n")
        file = FILES[0].read_text().split("\n")
        rows = copied(reader, kernel)
        assert bool(rows) is is_copied
        for row in rows:
            assert generated[kernel.first_line + row.line - 2] == file[row.source_line - 1]
        failures = [failure.message for failure in reader.rows(model.Failure)]
        assert bool(failures) is not is_copied
        assert all("its lines are not linked to it" in message for message in failures)


def test_a_line_of_the_kernel_is_lit_in_every_text_and_only_it(session: SessionReader) -> None:
    place = place_of(session, "sums += tl.load(x_ptr + column")
    lit = {
        document: lines
        for document, lines in linked_places(session, place, documents(session)).items()
        if lines
    }
    assert lit[place.document] == {place.line}
    (kernel,) = (document for document in lit if document.stage == "kernel")
    (output_code,) = (document for document in lit if document.stage == "output_code")
    text = lines_of(session, place.document)[place.line]
    assert [lines_of(session, kernel)[line] for line in lit[kernel]] == [text]
    assert [
        line
        for line in (lines_of(session, output_code)[at] for at in sorted(lit[output_code]))
        if line == text
    ]
    for graph in (document for document in lit if document.kind == "graph"):
        rows = rows_of(session, graph)
        assert all("triton_kernel_wrapper" in rows[row].target for row in lit[graph]), graph.title
    assert {document.stage for document in lit} >= {"dynamo", "forward", "post_grad"}
    for other, lines in ((kernel, lit[kernel]), (output_code, lit[output_code])):
        back = linked_places(session, Place(other, min(lines)), [place.document])
        assert back[place.document] == {place.line}


def test_a_node_leads_to_the_kernel_in_the_file_it_was_imported_from(
    session: SessionReader,
) -> None:
    kernel = next(kernel for kernel in own(session) if kernel.name == "hard_swish_kernel_0")
    (row,) = session.nodes_of_line(kernel.artifact, 0)
    (node,) = session.by_ids(model.Node, [row.node])
    calling, elsewhere = (
        file_named(session, "own_kernels.py"),
        file_named(session, "kernels_elsewhere.py"),
    )
    lit = linked_places(
        session,
        Place(document_of(session, "graph", node.graph), node.position),
        [calling, elsewhere],
    )
    assert [lines_of(session, elsewhere)[line] for line in lit[elsewhere]] == [
        "def hard_swish_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):"
    ]
    assert ["hard_swish_kernel[" in lines_of(session, calling)[line] for line in lit[calling]] == [
        True
    ]


def test_a_link_says_how_it_is_known(session: SessionReader) -> None:
    place = place_of(session, "return x * clamped(", "kernels_elsewhere.py")
    found = explain(session, place)
    assert [(one.relation, one.how) for one in found] == [
        ("kernel", "copied"),
        ("became", "origins"),
    ]
    back = explain(session, found[0].place)
    assert (back[0].relation, back[0].place, back[0].text) == ("source", place, found[0].text)


def test_kernels_in_files_that_the_program_imports_are_found_before_it_runs(tmp_path: Path) -> None:
    package = tmp_path / "layers"
    package.mkdir()
    (tmp_path / "model.py").write_text(
        "import torch\nfrom layers import swish\nfrom layers.norm import Norm\n"
    )
    (package / "__init__.py").write_text("")
    (package / "norm.py").write_text(
        "from . import kernels\nfrom .. import model\nimport os.path\n"
    )
    (package / "swish.py").write_text("def swish(x): return x\n")
    assert needs_fake(tmp_path / "model.py", train=None) == ""
    (package / "kernels.py").write_text("import triton\n\n@triton.jit\ndef kernel(x): pass\n")
    found = needs_fake(tmp_path / "model.py", train=None)
    assert found == "the program has its own Triton kernels (kernels.py:4), which run only on a GPU"


def test_a_report_says_where_a_kernel_is_written(session: SessionReader) -> None:
    (matmul,) = (
        kernel
        for compilation in json_report(session)["compilations"]  # type: ignore[attr-defined]
        for kernel in compilation["kernels"]
        if kernel["name"] == "matmul_kernel_0"
    )
    line = FILES[0].read_text().split("\n").index("def matmul_kernel(") + 1
    assert matmul["written_at"] == {"file": str(FILES[0]), "line": line}
    (kernel,) = session.rows(model.Kernel, name="matmul_kernel_0")
    told = kernel_text(session, kernel, find_gpu("h100"))
    assert told.startswith(f"matmul_kernel_0, your kernel at own_kernels.py:{line}\n")


# below the kernel


@pytest.fixture(scope="module")
def built(session: SessionReader) -> dict[str, model.KernelBuild]:
    async def build() -> dict[str, model.KernelBuild]:
        async with BuilderPool(find_gpu("h100"), builders=1) as builds:
            kernels = reversed(own(session))
            first = {kernel.name.rpartition("_")[0]: kernel for kernel in kernels}
            return {name: await builds.build(session.path, first[name].id) for name in BUILT}

    return asyncio.run(build())


def compiled_directly(
    reader: SessionReader, builds: dict[str, model.KernelBuild]
) -> dict[str, str]:
    wanted = [
        {
            "kernel": name,
            "name": name,
            **_meta(code_of(reader, reader.get(model.Kernel, row.kernel)), row),
        }
        for name, row in builds.items()
    ]
    done = subprocess.run(
        [sys.executable, str(HERE / "compiled_directly.py")],
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "TRITON_CACHE_DIR": str(reader.path.parent / "triton"),
            "PYTHONPATH": str(HERE),
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def _meta(code: list[str], row: model.KernelBuild) -> dict[str, object]:
    """What Inductor's autotuner gives to Triton, from its decorator in the kernel's text."""
    (text,) = (line for line in code if line.strip().startswith("triton_meta="))
    signature = ast.literal_eval(re.findall(r"'signature': (\{.*?\})", text)[0])
    constants = ast.literal_eval(re.findall(r"'constants': (\{.*?\})", text)[0])
    sizes = {name: row.options[name] for name in ("num_warps", "num_stages")}
    blocks = {name: value for name, value in row.options.items() if name not in sizes}
    return {
        "signature": signature,
        "constants": {**constants, **blocks},
        "divisible": [
            int(index) for index in re.findall(r"\((\d+),\): \[\['tt.divisibility', 16\]\]", text)
        ],
        "options": sizes,
    }


_LOC = re.compile(r"^\t\.loc\t(\d+) (\d+)")
_FILE = re.compile(r'^\t\.file\t(\d+) "([^"]*)"(?: "([^"]*)")?')
_OPERATION = re.compile(r"^\t(?:@!?%p\d+ )?([a-z][\w.:]*)", re.MULTILINE)


def operations(ptx: str) -> Iterator[tuple[int, str, tuple[str, int]]]:
    """(line of the text from 1, instruction, file and line that Triton's ``.loc`` in front of it
    names).
    """
    lines = ptx.split("\n")
    files = {
        found[1]: Path(found[3] or found[2]).name for line in lines if (found := _FILE.match(line))
    }
    place = ("", 0)
    for number, line in enumerate(lines, 1):
        if found := _LOC.match(line):
            place = files[found[1]], int(found[2])
        elif operation := _OPERATION.match(line):
            yield number, operation[1], place


def test_instructions_lead_to_the_lines_that_triton_names_when_it_compiles_the_users_file(
    session: SessionReader, built: dict[str, model.KernelBuild]
) -> None:
    direct = compiled_directly(session, built)
    written = {file.name: file.read_text().split("\n") for file in FILES}
    for name, row in built.items():
        assert row.state == "built", row.error
        ours, theirs = (
            list(operations(text_of_level(session, row, "ptx"))),
            list(operations(direct[name])),
        )
        assert [operation for _, operation, _ in ours] == [
            operation for _, operation, _ in theirs
        ], name
        ptx = level_document(session, row, "ptx")
        assert ptx is not None
        files = {
            document.title: document for document in documents(session) if document.kind == "source"
        }
        checked = 0
        for (number, _, _), (_, _, (file, line)) in zip(ours, theirs, strict=True):
            if file not in written or not line or written[file][line - 1 : line] in ([], [""]):
                continue  # to return belongs to the line behind the function in Triton 3.9
            lit = linked_with_levels(Selection(session, Place(ptx, number - 1)), [files[file]])[
                files[file]
            ]
            assert line - 1 in lit, (name, number, file, line)
            checked += 1
        assert checked > len(ours) / 2, name


@pytest.mark.parametrize("level", with_others(["ttgir", "sass"], ["ttir", "llir", "ptx"]))
def test_a_line_of_the_users_file_and_its_instructions_are_linked_both_ways(
    session: SessionReader, built: dict[str, model.KernelBuild], level: model.Level
) -> None:
    wanted = {
        "ttir": ("tt.store", "add_kernel", "tl.store(out_ptr + place, x + y"),
        "ttgir": ("tt.dot|warp_group_dot", "matmul_kernel", "sums = tl.dot(a, b, sums)"),
        "llir": ("ex2", "softmax_kernel", "numerator = tl.exp(shifted)"),
        "ptx": ("st.global", "layer_norm_kernel", "tl.store(rstd_ptr + row, rstd)"),
        "sass": ("FMNMX", "hard_swish_kernel", "return tl.minimum(tl.maximum(x, low), high)"),
    }
    operation, name, text = wanted[level]
    document = level_document(session, built[name], level)
    assert document is not None
    place = place_of(
        session, text, "kernels_elsewhere.py" if name == "hard_swish_kernel" else "own_kernels.py"
    )
    lit = linked_with_levels(Selection(session, place), [document])[document]
    code = lines_of(session, document)
    there = [line for line in lit if re.search(operation, code[line])]
    assert there, [code[line] for line in lit]
    for line in there:
        assert (
            place.line
            in linked_with_levels(Selection(session, Place(document, line)), [place.document])[
                place.document
            ]
        )


# what Triton refuses

REFUSED = '''import torch
import triton
import triton.language as tl


@triton.jit
def helper(x):
    y = x + 1
    return y.nothing


@triton.jit
def in_helper(x, out, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.store(out + place, helper(tl.load(x + place)))


@triton.jit
def in_kernel(x, out, BLOCK: tl.constexpr):
    """Text."""
    place = tl.arange(0, BLOCK - 1)
    tl.store(out + place, tl.load(x + place))


def calls(kernel):
    def run(x):
        out = torch.empty_like(x)
        kernel[(1,)](x, out, BLOCK=64)
        return out

    return run


for kernel in (in_helper, in_kernel):
    torch._dynamo.reset()
    torch.compile(calls(kernel))(torch.randn(64))
'''


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    with_others(
        [("in_helper", ["15", "9"], "has no attribute 'nothing'")],
        [("in_kernel", ["21"], "arange's range must be a power of 2")],
    ),
)
def test_a_compilers_message_names_the_line_of_the_users_file(
    for_gpu: ForGpu, refused: Callable[[], Path], name: str, lines: list[str], message: str
) -> None:
    ended = for_gpu(refused(), "h100", as_script=True)

    async def build() -> model.KernelBuild:
        with SessionReader(ended.session) as reader:
            (kernel,) = (
                kernel for kernel in reader.rows(model.Kernel) if kernel.name == f"{name}_0"
            )
        async with BuilderPool(find_gpu("h100"), builders=1) as builds:
            return await builds.build(ended.session, kernel.id)

    row = asyncio.run(build())
    assert row.state == "failed"
    assert re.findall(r"refused\.py:(\d+), at ", row.error) == lines
    assert message in row.error


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    file = tmp_path_factory.mktemp("refused") / "refused.py"
    file.write_text(REFUSED)
    return lambda: file
