import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import UnsupportedFakeTensorException

from fx_explorer.analysis.whole_session import compiled_graphs
from fx_explorer.capture.dynamo.fallbacks import completed
from fx_explorer.instruments.breaks.call_tree import distinct_fallbacks
from fx_explorer.instruments.breaks.grouped import carets, distinct_breaks
from fx_explorer.model import Compilation
from fx_explorer.torch_texts.reports import parse_break
from tests.capture.dynamo.break_patterns import numbers
from tests.capture.dynamo.reported import heard_breaks, line_of
from tests.capture.recorded import Compile, record

REPORTS = json.loads((Path(__file__).parents[2] / "data" / "graph_break_reports.json").read_text())[
    "reports"
]


@pytest.mark.parametrize("report", REPORTS)
def test_every_part_of_a_recorded_report_is_found(report: str) -> None:
    found = parse_break(report)
    assert f"at {found.file}:{found.line}\n" in report
    assert f"/gb/gb{found.registry_id.removeprefix('GB')}.html" in report
    assert found.reason in report.splitlines()
    assert len(found.hints) == report.count("Hint: ")
    assert found.explanation
    assert all(hint in " ".join(report.split()) for hint in (*found.hints, found.explanation))


@pytest.mark.parametrize("report", REPORTS)
def test_the_stack_ends_at_the_line_that_broke(report: str) -> None:
    found = parse_break(report)
    assert len(found.frames) == report.split("Traceback (most recent call last)")[0].count('File "')
    assert (found.frames[-1].file, found.frames[-1].line) == (found.file, found.line)
    assert found.frames[-1].code


def test_a_report_in_no_known_form_keeps_its_first_line() -> None:
    found = parse_break("Something else went wrong\nand more")
    assert found.reason == "Something else went wrong"
    assert (found.registry_id, found.file, found.line, found.hints) == ("", "", 0, ())


def test_the_reason_is_the_breaks_own_and_not_what_torch_did_about_it() -> None:
    report = next(
        text
        for text in REPORTS
        if "\nGraph Break Reason: Encountered graph break when attempting to trace" in text
    )
    start = report.index("Encountered graph break")
    about = "Encountered graph break that we cannot resume from. Graph break encountered:"
    other = report[:start] + about + report[report.index("\n", start) :]
    assert parse_break(other).reason == parse_break(report).reason


# what torch leaves to Python, with a record and without


def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x * factor


def test_a_backend_that_cannot_takes_its_break_at_the_line_of_torchs_record(tmp_path: Path) -> None:
    def cannot(module: torch.fx.GraphModule, inputs: object) -> object:
        raise UnsupportedFakeTensorException("this backend does not know sin")

    records: list[str] = []

    def program(compile_: Compile) -> None:
        with heard_breaks() as heard:
            torch.compile(scaled, backend=cannot)(torch.ones(3), 2)
        records.extend(heard)

    with record(tmp_path / "s.fxs", program, backend="eager") as session:
        found = distinct_breaks(session)
        assert {(one.file, one.line) for one in found} == {line_of(payload) for payload in records}
        assert "GB0219" in {one.registry_id for one in found}
        assert sum(one.cost.functions_in_python for one in found) == 1


def test_a_function_compiled_too_often_is_told_though_torch_writes_no_record(
    tmp_path: Path,
) -> None:
    def program(compile_: Compile) -> None:
        with (
            torch._dynamo.config.patch(recompile_limit=1, assume_static_by_default=True),
            heard_breaks() as heard,
        ):
            function = compile_(scaled)
            for size in (3, 4, 5):
                function(torch.ones(size), size)
        assert heard == []

    with record(tmp_path / "s.fxs", program, backend="eager", dynamic=False) as session:
        (one,) = distinct_fallbacks(session)
    assert (one.kind, one.registry_id, one.function) == ("limit", "GB0039", "scaled")
    assert one.line == scaled.__code__.co_firstlineno
    assert one.hints


def test_a_generator_is_skipped(tmp_path: Path) -> None:
    with record(
        tmp_path / "s.fxs", lambda compile_: list(compile_(numbers)(torch.ones(3))), backend="eager"
    ) as session:
        (one,) = distinct_fallbacks(session)
    assert (one.kind, one.function, one.reason) == (
        "skipped",
        "numbers",
        "Attempt to trace generator",
    )
    assert not one.has_nothing_to_compile


def test_an_error_that_torch_was_told_to_go_on_after_is_told(tmp_path: Path) -> None:
    def fails(module: torch.fx.GraphModule, inputs: object) -> object:
        raise ValueError("this backend is broken")

    def program(compile_: Compile) -> None:
        with torch._dynamo.config.patch(suppress_errors=True):
            torch.compile(scaled, backend=fails)(torch.ones(3), 2)

    with record(tmp_path / "s.fxs", program, backend="eager") as session:
        (one,) = distinct_fallbacks(session)
    assert one.kind == "failed"
    assert "this backend is broken" in one.reason


def test_what_a_report_lacks_comes_from_torchs_registry() -> None:
    entry = json.loads(
        (Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json").read_text()
    )["GB0025"][0]
    report = completed(parse_break("Call to `torch._dynamo.graph_break()`"))
    assert report.registry_id == "GB0025"
    assert report.hints == tuple(entry["Hints"])


def test_a_place_in_a_line_is_counted_in_characters() -> None:
    line = "    é, 漢 = x.item(), 1"
    column = line.index("x.item") + 1
    assert carets(line, column, column + 7) == " " * len("é, __ = ") + "^" * len("x.item()")
    assert carets("\tx.item()", 2, 0) == "^" * len("x.item()")
    assert carets(line, 0, 0) == ""


def test_a_break_in_code_without_a_file_has_its_line_and_no_carets(tmp_path: Path) -> None:
    names: dict[str, Any] = {"torch": torch}
    exec("def f(x):\n    torch._dynamo.graph_break()\n    return x + 1", names)
    with record(
        tmp_path / "s.fxs", lambda compile_: compile_(names["f"])(torch.ones(3)), backend="eager"
    ) as session:
        (one,) = distinct_breaks(session)
    assert (one.file, one.line, one.column, one.carets) == ("<string>", 2, 0, "")
    # 2.11 traces into torch._dynamo.graph_break itself
    assert [frame.function for frame in one.chain if frame.file == "<string>"] == ["f"]


class Cache(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, 5))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        y = x + 1
        self.kept[:, position] = y
        return self.kept * 2


def test_a_backends_error_is_at_the_operation_that_torch_names(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        with torch.no_grad():
            compile_(Cache())(torch.ones(2), torch.tensor(3))

    with record(tmp_path / "s.fxs", program, backend="inductor") as session:
        (graph_break,) = distinct_breaks(session)
        assert compiled_graphs(session) == 0
        (left,) = session.rows(Compilation, status="skipped")
    assert graph_break.line == Cache.forward.__code__.co_firstlineno + 2
    assert graph_break.code == "self.kept[:, position] = y"
    assert graph_break.reason == (
        "DataDependentOutputException: aten._local_scalar_dense.default, while executing setitem"
    )
    assert not graph_break.eager_rests  # nothing is compiled: it is no rest
    assert "needs the value of a tensor as a number" in graph_break.description
    assert "Use tlparse" not in left.error
    assert left.error.startswith("The backend raised aten._local_scalar_dense.default")
