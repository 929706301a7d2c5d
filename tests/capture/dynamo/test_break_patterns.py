"""These tests check that graph breaks are complete: their lines are those of torch's own records of
the run, on patterns, samples and ExportDB.
"""

from __future__ import annotations

import copy
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._export.db.examples import all_examples

from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.session import SessionReader
from tests.capture.dynamo import break_patterns
from tests.capture.dynamo.break_patterns import PATTERNS
from tests.capture.dynamo.reported import Line, heard_breaks, line_of, read_breaks
from tests.capture.recorded import failures, record
from tests.exhaustive import in_exhaustive_runs, one_of, with_others

ROOT = Path(__file__).parents[3]
SAMPLES = sorted((ROOT / "sample_models").glob("*.py"))
SCRIPTS = ("script", "recompiles", "precompile", "precompile_by_hand")
REGISTRY = json.loads(
    (Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json").read_text()
)
INPUTS = (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, -3.0]))

Compile = Callable[[Any], Any]


@dataclass(frozen=True)
class Run:
    session: SessionReader
    records: list[str]

    @property
    def lines(self) -> set[Line]:
        return {line_of(payload) for payload in self.records}


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str, Callable[[Compile], object]], Run]]:
    """``run(name, program)``: recorded by us and heard by torch's own logger at once; each name is
    run once.
    """
    folder = tmp_path_factory.mktemp("breaks")
    runs: dict[str, Run] = {}

    def run_once(name: str, program: Callable[[Compile], object]) -> Run:
        if name not in runs:
            records: list[str] = []

            def heard(compile_: Compile) -> None:
                with heard_breaks() as payloads:
                    program(compile_)
                records.extend(payloads)

            session = record(folder / f"{name}.fxs", heard, backend="eager")
            runs[name] = Run(session, records)
        return runs[name]

    yield run_once
    for one in runs.values():
        one.session.close()


def break_lines(session: SessionReader) -> set[Line]:
    """Return the lines of breaks: those of the innermost frame, which may be in a library that the
    user's line calls.
    """
    return {(one.chain[-1].file, one.chain[-1].line) for one in distinct_breaks(session)}


def pattern(name: str) -> Callable[[Compile], object]:
    return lambda compile_: compile_(PATTERNS[name])(*(x.clone() for x in INPUTS))


Runs = Callable[[str, Callable[[Compile], object]], Run]


@pytest.mark.parametrize("name", one_of(2, PATTERNS))
def test_the_lines_of_a_pattern_are_those_of_torchs_records(name: str, run: Runs) -> None:
    done = run(name, pattern(name))
    assert done.lines
    assert break_lines(done.session) == done.lines
    assert failures(done.session) == []


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_breaks_for_the_registrys_reason_it_is_named_by(name: str, run: Runs) -> None:
    wanted = f"GB{name[2:6]}"
    if wanted not in REGISTRY:
        pytest.skip("this release of torch has another id for it")
    assert wanted in {one.registry_id for one in distinct_breaks(run(name, pattern(name)).session)}


def test_the_patterns_are_of_more_than_twenty_kinds() -> None:
    assert len({name[:6] for name in PATTERNS}) >= 20


def found_in(name: str, run: Runs) -> list[DistinctBreak]:
    return distinct_breaks(run(name, pattern(name)).session)


@pytest.mark.parametrize("name", PATTERNS)
def test_carets_stand_under_code_of_the_line_that_breaks(name: str, run: Runs) -> None:
    source = Path(break_patterns.__file__).read_text().splitlines()
    for one in found_in(name, run):
        assert one.code == source[one.line - 1].strip()
        marked = "".join(c for c, mark in zip(one.code, one.carets, strict=False) if mark == "^")
        assert marked
        assert one.carets.strip("^ ") == ""
        assert one.code.index(marked) == one.carets.index("^")
        assert source[one.line - 1][one.column - 1 :].startswith(marked)


@pytest.mark.parametrize(
    ("name", "marked"),
    [
        ("gb0170_branch_on_data", "x.sum() > 0"),
        ("gb0170_and_on_data", "x.sum() > 100"),
        ("gb0124_int", "int(x.sum())"),
        ("gb0036_mask", "x[x > 0]"),
        ("gb0109_tolist", "x.tolist()"),
    ],
)
def test_carets_mark_the_expression_that_breaks(name: str, marked: str, run: Runs) -> None:
    (one,) = found_in(name, run)
    assert one.code[one.carets.index("^") : len(one.carets)] == marked


def test_the_chain_leads_from_the_called_function_to_the_break(run: Runs) -> None:
    (one,) = found_in("gb0025_two_calls_down", run)
    assert [frame.function for frame in one.chain] == ["gb0025_two_calls_down", "middle", "inner"]
    assert [frame.code for frame in one.chain] == [
        "return middle(x) + y  # breaks in inner()",
        "return inner(x + 1) * 2",
        "torch._dynamo.graph_break()  # GB0025, two calls down",
    ]
    assert one.count == 3  # inlined twice, then on its own


@pytest.mark.parametrize("name", PATTERNS)
def test_resume_functions_are_those_torch_counted(name: str, run: Runs) -> None:
    session = run(name, pattern(name)).session
    made = [name for one in distinct_breaks(session) for name in one.resume_functions]
    assert set(made) == set(session.meta("counters").get("resumes", {}))


@pytest.mark.parametrize("name", PATTERNS)
def test_the_graphs_that_breaks_add_are_those_torch_counted_beyond_one(
    name: str, run: Runs
) -> None:
    """Each pattern is one function, called once."""
    session = run(name, pattern(name)).session
    counted = session.meta("counters").get("stats", {}).get("unique_graphs", 0)
    assert sum(one.cost.extra_graphs for one in distinct_breaks(session)) == max(0, counted - 1)


# ExportDB


EXPORT_CASES = list(all_examples())
"""torch's own cases of what it can and cannot capture, of which every second one is in the sample."""


@pytest.mark.parametrize("name", with_others(EXPORT_CASES[::2], EXPORT_CASES[1::2]))
def test_the_lines_of_an_export_case_are_those_of_torchs_records(name: str, run: Runs) -> None:
    case = all_examples()[name]
    arguments, options = copy.deepcopy((case.example_args, case.example_kwargs))
    done = run(name, lambda compile_: compile_(copy.deepcopy(case.model))(*arguments, **options))
    assert break_lines(done.session) == done.lines


# samples


def run_sample(path: Path, compile_: Compile) -> None:
    if path.stem in SCRIPTS:
        runpy.run_path(str(path), run_name="__main__")
        return
    found = runpy.run_path(str(path))
    if "fx_explorer_target" in found:
        function, arguments, options = found["fx_explorer_target"]()
    else:
        function = (
            found["get_model"]() if "get_model" in found else found.get("model") or found["MLP"]()
        )
        inputs = (
            found["example_inputs"]()
            if callable(found["example_inputs"])
            else found["example_inputs"]
        )
        arguments, options = (
            ((), inputs)
            if isinstance(inputs, dict)
            else (inputs if isinstance(inputs, tuple) else (inputs,), {})
        )
    compile_(function)(*arguments, **options)


@pytest.mark.parametrize("path", one_of(4, SAMPLES), ids=lambda path: path.stem)
def test_the_lines_of_a_sample_are_those_of_torchs_records(
    path: Path, run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(path)])
    done = run(path.stem, lambda compile_: run_sample(path, compile_))
    assert break_lines(done.session) == done.lines


@in_exhaustive_runs
def test_a_capture_has_the_lines_of_the_log_torch_wrote_beside_it(
    tmp_path: Path, capture_environment: dict[str, str]
) -> None:
    session = tmp_path / "s.fxs"
    command = [
        sys.executable,
        "-m",
        "fx_explorer",
        "capture",
        str(ROOT / "sample_models" / "graph_breaks.py"),
    ]
    environment = {**capture_environment, "TORCH_TRACE": str(tmp_path / "trace")}
    os.makedirs(tmp_path / "trace")
    subprocess.run(
        [*command, "--backend", "eager", "-o", str(session)],
        env=environment,
        timeout=120,
        check=True,
    )
    read = {line_of(payload) for payload in read_breaks(tmp_path / "trace")}
    assert len(read) == 5
    with SessionReader(session) as reader:
        assert break_lines(reader) == read
