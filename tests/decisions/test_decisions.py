"""These tests check why kernels are said to be as they are: planted functions against expectations,
and models against the code that Inductor wrote.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer import model
from fx_explorer.analysis.documents import Place, document_of, text_of
from fx_explorer.answers.questions import ask
from fx_explorer.errors import UsageError
from fx_explorer.instruments.decisions.figures import Explained, explained_decisions
from fx_explorer.instruments.decisions.reasons import order
from fx_explorer.instruments.decisions.view import NOT_IN_LOG, decisions_table, explain
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.inspect import entries
from tests.capture.recorded import record
from tests.decisions.expected import CPU, GPU
from tests.exhaustive import in_exhaustive_runs

HERE = Path(__file__).parent
PLANTED = {"": HERE / "planted_cpu.py", "h100": HERE / "planted_gpu.py"}
EXPECTED = {"": CPU, "h100": GPU}


def planted(gpu: str, captured, reader) -> SessionReader:
    options = {"gpu": gpu} if gpu else {}
    return reader(captured(PLANTED[gpu], **options))


def of_function(session: SessionReader, gpu: str, name: str) -> list[Explained]:
    """Return the decisions about the kernels of a planted function."""
    lines = PLANTED[gpu].read_text().split("\n")
    first = next(i for i, line in enumerate(lines, 1) if line.startswith(f"def {name}("))
    last = next(i for i, line in enumerate(lines[first:], first) if line.startswith("def "))
    return [
        explained
        for explained in explained_decisions(session)
        if explained.line and first <= explained.line[1] <= last
    ]


CASES = [(gpu, name) for gpu, expected in EXPECTED.items() for name in expected]


@pytest.mark.parametrize(("gpu", "name"), CASES)
def test_planted_functions_are_explained_as_expected(gpu: str, name: str, captured, reader) -> None:
    session = planted(gpu, captured, reader)
    decided = {(e.decision.kind, e.decision.outcome) for e in of_function(session, gpu, name)}
    expected = EXPECTED[gpu][name]
    assert expected <= decided
    kinds = {kind for kind, _ in expected} - {"layout", "reduction"}
    assert not {(kind, why) for kind, why in decided - expected if kind in kinds}


def sentence(session: SessionReader, gpu: str, name: str, outcome: str) -> str:
    of_outcome = [e for e in of_function(session, gpu, name) if e.decision.outcome == outcome]
    return of_outcome[0].reason.text


def test_a_copy_names_the_value_its_bytes_and_who_asks(captured, reader) -> None:
    session = planted("", captured, reader)
    text = sentence(session, "", "convolved", "copied")
    assert text.startswith("image (200.7 kB) is copied by cpp_fused_convolution_0")
    assert "from contiguous to channels_last: aten.convolution asks for it" in text


def test_a_copy_has_the_line_of_its_value_and_names_every_asker(tmp_path: Path) -> None:
    convolution = torch.nn.Conv2d(8, 16, 3, padding=1).to(memory_format=torch.channels_last)
    norm, linear = torch.nn.BatchNorm2d(16), torch.nn.Linear(16, 16)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = norm(convolution(x)).relu()
        z = y.flatten(2).transpose(1, 2).contiguous()
        return (linear(z) + z).sum()

    def program(compile_it: Callable[[Any], Any]) -> None:
        compile_it(step)(torch.randn(2, 8, 16, 16)).backward()

    first = step.__code__.co_firstlineno
    with record(tmp_path / "s.fxs", program) as session:
        copies = [e for e in explained_decisions(session) if e.decision.outcome == "copied"]
        texts = {e.reason.text.partition(" (")[0]: e for e in copies}
        given, transposed = texts["x"], texts["The result of aten.permute"]
    assert given.reason.text.endswith("; aten.convolution also needs it.")
    assert (
        "passed to the backward in this order; aten.addmm also needs it" in transposed.reason.text
    )
    assert transposed.line is not None
    assert transposed.line[1] == first + 2


def test_a_loop_of_symbolic_size_has_the_numbers_that_inductor_assumes(tmp_path: Path) -> None:
    def program(compile_it: Callable[[Any], Any]) -> None:
        x = torch.ones(5, 8)
        torch._dynamo.mark_dynamic(x, 0)
        compile_it(torch.sin)(x)

    session = record(tmp_path / "s.fxs", program)
    (text,) = [
        each.reason.text for each in explained_decisions(session) if each.decision.kind == "vectors"
    ]
    session.close()
    assert text.endswith("16 elements at a time, the last 8 of 40 together, masked.")


def test_a_reduction_has_its_numbers(captured, reader) -> None:
    session = planted("h100", captured, reader)
    text = sentence(session, "h100", "summed", "split")
    assert "1 result of 1,048,576 elements" in text
    assert "132 multiprocessors" in text


def test_a_type_without_template_is_named_with_those_that_have_one(captured, reader) -> None:
    session = planted("h100", captured, reader)
    text = sentence(session, "h100", "multiplied_integers", "dtype")
    assert text.endswith("does not support int32, only float16, bfloat16, float32.")


def test_a_library_call_is_explained_on_its_line_and_its_node(captured, reader) -> None:
    session = planted("", captured, reader)
    (kernel,) = session.rows(model.Kernel, name="torch.ops.aten.linalg_qr.default")
    place = Place(document_of(session, "artifact", kernel.output_code), kernel.first_line - 1)
    on_line = [entry.text for entry in entries(session, place) if entry.label == "why so"]
    assert on_line[0].startswith("Inductor has no lowering for aten.linalg_qr")
    row = next(e for e in explained_decisions(session) if e.kernel.id == kernel.id)
    node = session.get(model.Node, row.decision.node)
    graph = document_of(session, "graph", node.graph)
    on_node = entries(session, Place(graph, node.position))
    assert on_line[0] in [entry.text for entry in on_node]


def test_the_table_says_where_it_was_decided(captured, reader) -> None:
    session = planted("", captured, reader)
    row = next(e for e in explained_decisions(session) if e.decision.outcome == "lowering gives up")
    assert re.search(r"sort_stable \(torch/_inductor/lowering.py:\d+\)", "\n".join(explain(row)))
    table = decisions_table(session)
    assert "5 library calls" in table.answer
    assert "3 copies" in table.answer


def test_ask_why_answers_about_one_kernel(captured, reader) -> None:
    session = planted("", captured, reader)
    answer = ask(session, "why", "bessel", None)  # type: ignore[arg-type]
    assert {row["about"] for row in answer.rows} == {"vectors", "threads"}
    assert "bessel_j0 has no vector form" in answer.text
    of_kernel = ask(session, "kernel", "bessel", None)  # type: ignore[arg-type]
    assert [row["about"] for row in of_kernel.rows[0]["why"]] == ["vectors", "threads"]
    with pytest.raises(UsageError, match="no decision about a kernel, node or line called"):
        ask(session, "why", "nowhere", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "strides", "words"),
    [
        ("2, 3, 4, 5", "60, 20, 5, 1", "contiguous"),
        ("2, 3, 4, 5", "60, 1, 15, 3", "channels_last"),
        ("4, 5", "1, 4", "transposed"),
        ("4, 5", "10, 2", "strides (10, 2)"),
        ("4, 5", "", ""),
        ("4, 5", "1", "strides (1)"),
    ],
)
def test_strides_in_words(sizes: str, strides: str, words: str) -> None:
    assert order(sizes, strides) == words


def test_the_limits_of_persistent_reductions_are_torchs() -> None:
    source = (Path(torch.__file__).parent / "_inductor" / "choices.py").read_text()
    assert "ReductionHint.INNER: 1024,\n        }.get(features.get_reduction_hint(), 64)" in source


# Second source: the code that Inductor wrote.


def contradictions(session: SessionReader) -> Iterator[str]:
    """Yield where a decision is not what the generated code shows."""
    by_kernel: dict[int, list[model.KernelDecision]] = defaultdict(list)
    for explained in explained_decisions(session):
        by_kernel[explained.kernel.id].append(explained.decision)
    for kernel in session.rows(model.Kernel):
        decisions = by_kernel[kernel.id]
        outcomes = {decision.outcome for decision in decisions}
        kinds = {decision.kind for decision in decisions}
        if kernel.language == "extern":
            shown = {"library call": not kernel.runs}
            said = {"library call": "library call" in kinds}
        else:
            code = text_of(session, document_of(session, "artifact", kernel.artifact))
            if kernel.language == "cpp":
                shown, said = _of_cpp(code), _said_of_cpp(outcomes)
            else:
                shown, said = _of_triton(code), _said_of_triton(kinds, outcomes)
        if shown != said:
            yield f"{kernel.name}: the code shows {shown}, the session says {said}"
    for decision in session.rows(model.KernelDecision, kind="layout"):
        strides = decision.texts["to"]
        kernel = session.get(model.Kernel, session.get(model.KernelCall, decision.call).kernel)
        code = text_of(session, document_of(session, "artifact", kernel.output_code))
        if f"({strides})" not in code:
            yield f"{kernel.name}: no tensor has the strides ({strides})"


Facts = dict[str, bool]


def _of_cpp(code: str) -> Facts:
    return {"vectors": "at::vec" in code, "threads": "#pragma omp for" in code}


def _said_of_cpp(outcomes: set[str]) -> Facts:
    vectors = [why for why in outcomes if why.startswith("vectorized") or why == "one by one"]
    return {"vectors": bool(vectors), "threads": "parallel" in outcomes}


def _of_triton(code: str) -> Facts:
    return {
        "persistent": "triton_heuristics.persistent_reduction(" in code,
        "loop": "triton_heuristics.reduction(" in code,
        "tiles": bool(re.search(r"size_hints=\{'y'", code)),
    }


def _said_of_triton(kinds: set[str], outcomes: set[str]) -> Facts:
    return {
        "persistent": "persistent" in outcomes,
        "loop": "loop" in outcomes,
        "tiles": "tiles" in kinds,
    }


@pytest.mark.parametrize("gpu", ["", "h100"])
def test_planted_decisions_are_those_of_the_code(gpu: str, captured, reader) -> None:
    assert not list(contradictions(planted(gpu, captured, reader)))


MODELS = ("gpt2", "bert", "t5", "vit", "resnet", "convnextv2")


@in_exhaustive_runs
@pytest.mark.parametrize("gpu", ["", "h100"])
@pytest.mark.parametrize("name", MODELS)
def test_decisions_of_models_are_those_of_the_code(
    name: str, gpu: str, captured_model, reader
) -> None:
    options = {"gpu": gpu} if gpu else {}
    session = reader(captured_model(name, **options))
    assert session.count(model.KernelDecision) > 20
    assert not list(contradictions(session))


def test_a_log_says_that_it_has_no_decisions(written) -> None:
    session = written(lambda writer: writer.set_meta("target", {"kind": "log", "spec": "t.log"}))
    table = decisions_table(session)
    assert not table.rows
    assert table.empty == NOT_IN_LOG


def test_library_calls_stand_first(captured, reader) -> None:
    """They are what most readers come for."""
    session = planted("", captured, reader)
    kinds = [row.cells[0] for row in decisions_table(session).rows]
    of_calls = kinds.count("library call")
    assert 0 < of_calls < len(kinds)
    assert kinds[:of_calls] == ["library call"] * of_calls
