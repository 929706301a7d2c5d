"""These tests run ``fx-explorer bench`` on real programs: what it measures, its exit codes, and its
answers to bad input.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import cli
from fx_explorer.errors import UsageError
from fx_explorer.instruments.bench import bench_run
from fx_explorer.instruments.bench.bench_run import Bench, BenchProgress
from fx_explorer.instruments.bench.cells import bench_figures
from fx_explorer.instruments.bench.plan import typed_plan
from fx_explorer.model import BenchCell, BenchRound, BenchTask, CaptureRequest
from fx_explorer.session import SessionReader, SessionWriter
from tests.exhaustive import in_exhaustive_runs
from tests.worker.capturing import processes_with

pytestmark = pytest.mark.usefixtures("warm_workers")

PROGRAM = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(16, 16)

    def forward(self, x):
        return torch.relu(self.fc(x))

example_inputs = (torch.ones(4, 16),)

def broken(graph, inputs):
    return lambda *given: [one + 1 if one is not None and one.dtype.is_floating_point else one for one in graph(*given)]
"""


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as an interval takes, and short ones. Beside other tests no speed-up is ever known to
    a hundredth, and each bench made the most rounds there are.
    """
    make_few_rounds(monkeypatch)


def make_few_rounds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bench_run, "MAX_ROUNDS", bench_run.MIN_ROUNDS)
    patch.setattr(bench_run, "BenchTask", partial(BenchTask, round_s=0.02))


BUDGET = ("--budget", "100", "--threads", "1")
"""More seconds than a busy machine needs: the rounds of these programs end long before. With
several threads it is measured in each round how long they take to share an operation, which took
three quarters of the time; the bench that is saved has as many as torch takes.
"""

ONE = ("--backends", "aot_eager", *BUDGET)


def file_of(tmp_path: Path, text: str = PROGRAM) -> Path:
    file = tmp_path / "net.py"
    file.write_text(text)
    return file


def bench(*words: object) -> int:
    return cli.main(["bench", *map(str, words)])


def test_every_cell_is_measured_in_turns_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = tmp_path / "bench.fxs"
    assert (
        bench(
            file_of(tmp_path),
            "--backends",
            "eager,aot_eager",
            "--batch",
            "2,8",
            *BUDGET,
            "-o",
            session,
        )
        == 0
    )
    assert capsys.readouterr().out
    with SessionReader(session) as reader:
        cells = reader.rows(BenchCell)
        rounds = {
            cell.id: [row.number for row in reader.rows(BenchRound, cell=cell.id)] for cell in cells
        }
    assert [(cell.contender, cell.size) for cell in cells] == [
        ("uncompiled", "batch 2"),
        ("eager", "batch 2"),
        ("aot_eager", "batch 2"),
        ("uncompiled", "batch 8"),
        ("eager", "batch 8"),
        ("aot_eager", "batch 8"),
    ]
    assert {cell.state for cell in cells} == {"measured"}
    assert {cell.inputs for cell in cells[:3]} == {"(float32[2, 16])"}
    assert {cell.agreement for cell in cells if cell.is_compiled} == {"equal"}
    assert [cell.graphs for cell in cells] == [0, 1, 1] * 2
    assert all(cell.trains and cell.first_call_s > 0 and cell.peak_bytes > 0 for cell in cells)
    # Rounds are those of the same numbers in all cells of a size: they took turns.
    assert rounds[1] == rounds[2] == rounds[3] == list(range(1, len(rounds[1]) + 1))


def test_a_saved_bench_tells_the_same_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session, svg = tmp_path / "bench.fxs", tmp_path / "bench.svg"
    words = ("--backends", "aot_eager", *BUDGET[:2], "--no-train")
    assert bench(file_of(tmp_path), *words, "--format", "json", "-o", session) == 0
    first = json.loads(capsys.readouterr().out)
    bench(session, "--format", "json")
    assert json.loads(capsys.readouterr().out) == first
    assert bench(session, "--batch", "3") == 2
    assert "--batch works on targets" in capsys.readouterr().err
    bench(session, "--svg", svg)
    assert svg.read_text().startswith("<?xml")
    assert not first["cells"][0]["trains"]


RANDOM = PROGRAM.replace("torch.relu(self.fc(x))", "torch.nn.functional.dropout(self.fc(x))")


def test_chance_is_seeded_and_compared_where_the_same_numbers_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        bench(
            file_of(tmp_path, RANDOM), "--backends", "eager,aot_eager", *BUDGET, "--format", "json"
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert [cell["agreement"] for cell in told["cells"]] == ["", "equal", "equal"]


ASKS = PROGRAM.replace(
    "torch.relu(self.fc(x))",
    "torch.relu(self.fc(x)) * (2 if is_torchdynamo_compiling() else 1)",
).replace(
    "import torch\n",
    """import torch


def is_torchdynamo_compiling():
    return torch.compiler.is_compiling()
""",
    1,
)


@in_exhaustive_runs
def test_a_program_that_asks_whether_it_is_compiled_is_told_to_take_another_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = file_of(tmp_path, ASKS)
    asks = next(i for i, line in enumerate(ASKS.splitlines(), 1) if "* (2 if" in line)
    words = (
        f"the program takes another branch while it is compiled: {file.name}:{asks} calls "
        "is_torchdynamo_compiling()"
    )
    assert bench(file, "--backends", "eager", *BUDGET, "--no-train") == 1
    told = capsys.readouterr().out
    assert "eager gives other results" in told
    assert words in told
    # What a backend does wrong is not laid to the path, although the program asks.
    assert bench(file, "--backends", f"{file}:broken", *BUDGET, "--no-train") == 1
    assert "takes another branch" not in capsys.readouterr().out


# bad input


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("missing.py",), "there is no file"),
        (("net.py", "--batch", "0"), "'0' is not a number from 1 on"),
        (("net.py", "--size", "x=4"), "is not NAME:DIM=N,N"),
        (("net.py", "--dynamic", "maybe"), "'maybe' is not one of none, true, false"),
        (
            ("net.py", "--modes", "max-autotune", "--option", "max_fusion_size=8"),
            "cannot be combined",
        ),
        (
            ("net.py", "--modes", "max-autotune", "--backends", "eager"),
            "--modes works with inductor",
        ),
        (
            ("net.py", "--batch", "2", "--batch", "4,4", "--size", "x:0=4", "--size", "x:0=8"),
            "the size x:0 is given twice",
        ),
        (("net.py", "--size", "y:0=4"), "there is no input 'y': the inputs are x"),
        (("script.py",), "Name the object: script.py:OBJECT"),
        (("script.py",), "fx-explorer capture script.py --build"),
        (
            ("net.py", "--backends", "eager,no_such_backend"),
            "there is no backend 'no_such_backend'",
        ),
        (("net.py", "--stance", "no_such_stance"), "no_such_stance"),
        (("net.py", "--batch", "7", "--size", "x:0=2"), "gets two sizes: 7 and 2"),
        (("bench.fxs",), "bench.fxs"),
    ],
)
def test_what_cannot_be_measured_ends_with_2_and_says_why(
    words: tuple[str, ...],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file_of(tmp_path)
    (tmp_path / "script.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)
    try:
        ended = bench(*words)
    except SystemExit as exit:
        ended = exit.code
    printed = capsys.readouterr()
    assert told in printed.err
    assert not printed.out
    assert ended == (5 if words == ("bench.fxs",) else 2)


HARMFUL = """
def stale(graph, inputs):
    kept = []
    def call(*given):
        kept.append(graph(*given))
        return kept[0]
    return call

def raising(graph, inputs):
    raise ValueError('no more graphs')

def dying(graph, inputs):
    import os, sys
    print('no more', flush=True)
    os._exit(7)

def large(graph, inputs):
    torch.empty(1 << 60)
    return graph
"""


@dataclass
class Ended:
    """Ended has the exit code and the output of a bench, and its cells by the name of the
    backend.
    """

    exit_code: int
    text: str
    cells: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def harmed(tmp_path_factory: pytest.TempPathFactory, warm_python: str) -> Ended:
    """Run a bench of all the backends that fail, followed by a backend that works."""
    folder = tmp_path_factory.mktemp("harmed")
    file = file_of(folder, PROGRAM.replace("torch.ones(4, 16)", "torch.randn(4, 16)") + HARMFUL)
    names = ("broken", "stale", "raising", "dying", "large")
    backends = ",".join([*(f"{file}:{name}" for name in names), "aot_eager"])
    session, said, told = folder / "bench.fxs", io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        make_few_rounds(patch)
        with contextlib.redirect_stdout(said):
            words = ("--backends", backends, *BUDGET, "--no-train", "--python", warm_python)
            exit_code = bench(file, *words, "-o", session)
    with contextlib.redirect_stdout(told):
        bench(session, "--format", "json")
    cells = json.loads(told.getvalue())["cells"]
    return Ended(
        exit_code, said.getvalue(), dict(zip(("uncompiled", *names, "good"), cells, strict=True))
    )


def test_what_fails_is_told_and_the_others_go_on(harmed: Ended) -> None:
    assert harmed.exit_code == 1
    assert {name: cell["state"] for name, cell in harmed.cells.items()} == {
        "uncompiled": "measured",
        "broken": "measured",
        "stale": "measured",
        "raising": "failed",
        "dying": "failed",
        "large": "out_of_memory",
        "good": "measured",
    }
    assert "no more graphs" in harmed.cells["raising"]["message"]
    assert harmed.cells["good"]["speed_up"]


def test_a_backend_that_gives_other_results_is_found_out(harmed: Ended) -> None:
    assert re.search(
        r"gives other results: output 0 differs by up to 1 at \[\d+, \d+\]; "
        r"its error against a more exact run is 1\.0e\+00",
        harmed.text,
    )


def test_a_contender_that_gives_its_first_answer_again_is_found_out(harmed: Ended) -> None:
    assert "gives other results: output 0, with other values, differs" in harmed.text


def test_a_process_that_dies_is_told_with_its_last_words(harmed: Ended) -> None:
    assert harmed.cells["dying"]["message"] == "its process died (exit status 7); no more"


INSIDE = """
import torch

def refusing(graph, inputs):
    raise ValueError("compiled after all")

inner = torch.compile(lambda x: torch.relu(x), backend=refusing)

def model(x):
    return inner(x) + 1

example_inputs = (torch.randn(4, 16),)
"""


def test_what_the_program_itself_compiles_is_not_compiled_in_the_uncompiled_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program's own backend raises: only uncompiled, and in one graph with another backend, it
    is not asked.
    """
    assert bench(file_of(tmp_path, INSIDE), "--backends", "eager", *BUDGET, "--format", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [cell["state"] for cell in told["cells"]] == ["measured", "measured"]


def test_a_program_that_raises_uncompiled_too_ends_with_3_and_its_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = file_of(
        tmp_path, PROGRAM.replace("return torch.relu", "raise KeyError('lost'); return torch.relu")
    )
    assert bench(file) == 3
    printed = capsys.readouterr()
    assert "uncompiled failed: KeyError: 'lost'" in printed.out
    assert "Traceback (most recent call last)" in printed.err
    assert f'File "{file}", line 10, in forward' in printed.err
    assert "fx_explorer" not in printed.err.replace(str(tmp_path), "").replace("fx-explorer", "")


FIXED = PROGRAM.replace("self.fc(x)", "self.fc(x).view(4, 16)")


def test_a_batch_that_cannot_be_changed_leaves_the_other_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(file_of(tmp_path, FIXED), "--batch", "3,4", *ONE, "--format", "json") == 1
    told = json.loads(capsys.readouterr().out)
    states = {(cell["contender"], cell["sizes"]["batch"]): cell["state"] for cell in told["cells"]}
    assert states[("uncompiled", 3)] == "failed"
    assert states[("aot_eager", 3)] == "not_measured"
    assert states[("uncompiled", 4)] == "measured"
    assert "shape" in told["cells"][0]["message"]
    assert "the program fails in eager mode at this size" in told["cells"][1]["message"]


NEVER_ENDS = (
    PROGRAM + "\ndef endless(graph, inputs):\n    import time\n    while True: time.sleep(1)\n"
)


def test_what_never_ends_is_stopped_after_the_timeout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = file_of(tmp_path, NEVER_ENDS)
    words = (
        "--backends",
        f"{file}:endless,aot_eager",
        "--timeout",
        "10",
        *BUDGET,
        "--no-train",
        "--format",
        "json",
    )
    assert bench(file, *words) == 1
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [cell["state"] for cell in cells] == ["measured", "timed_out", "measured"]
    assert cells[1]["message"] == "it took longer than 10 s (--timeout)"


@in_exhaustive_runs
def test_a_budget_that_is_spent_by_getting_ready_still_measures_each_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        bench(
            file_of(tmp_path),
            "--backends",
            "aot_eager",
            "--batch",
            "2,4",
            "--budget",
            "0.01",
            "--threads",
            "1",
            "--format",
            "json",
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert {cell["state"] for cell in told["cells"]} == {"measured"}
    assert all(cell["rounds"] for cell in told["cells"])


# stopped


def test_ctrl_c_tells_what_was_measured_and_leaves_no_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Bench._telling

    def telling(self: Bench, place: str) -> Any:
        tell = shown(self, place)

        def tell_and_stop(doing: str, number: int = 0) -> None:
            tell(doing, number)
            if number == 8:
                os.kill(os.getpid(), signal.SIGINT)

        return tell_and_stop

    monkeypatch.setattr(Bench, "_telling", telling)
    monkeypatch.setattr(bench_run, "MAX_ROUNDS", 30)  # or it might end before it is stopped
    monkeypatch.setenv("STOPPED_BENCH", "1")
    session = tmp_path / "bench.fxs"
    assert bench(file_of(tmp_path), "--backends", "aot_eager", "-o", session) == 130
    assert "aot_eager" in capsys.readouterr().out
    with SessionReader(session) as reader:
        assert reader.meta("outcome")["kind"] == "cancelled"
        figures = bench_figures(reader)
    assert figures is not None
    assert all(
        one.rounds + one.left_out >= 7 and one.interval for one in figures.cells
    )  # CI disturbs rounds
    assert processes_with("STOPPED_BENCH") == []


async def test_whoever_cancels_it_ends_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOPPED_BENCH", "1")
    plan = typed_plan("--backends aot_eager", CaptureRequest(str(file_of(tmp_path)), ""))
    measuring = asyncio.Event()

    def tell(progress: BenchProgress) -> None:
        if progress.doing == "measuring":
            measuring.set()

    with SessionWriter(tmp_path / "s.fxs") as writer:
        running = asyncio.create_task(Bench(plan, writer, sys.executable, tell).run())
        await measuring.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert processes_with("STOPPED_BENCH") == []


# plans


def test_combinations_are_contenders_each_once_and_modes_are_inductors() -> None:
    plan = typed_plan(
        "--backends eager,inductor --modes default,max-autotune --dynamic none,true --batch 1,2 --size x:1=8,16",
        CaptureRequest("net.py", ""),
    )
    assert [contender.name for contender in plan.contenders()] == [
        "uncompiled",
        "eager",
        "eager dynamic=True",
        "inductor",
        "inductor dynamic=True",
        "inductor max-autotune",
        "inductor max-autotune dynamic=True",
    ]
    sizes = [", ".join(map(str, combination)) for combination in plan.combinations()]
    assert sizes == ["batch 1, x:1 8", "batch 1, x:1 16", "batch 2, x:1 8", "batch 2, x:1 16"]


@pytest.mark.parametrize("typed", ["--no-such", "'open", "--batch"])
def test_what_is_typed_and_is_no_option_is_refused_without_ending_the_app(typed: str) -> None:
    with pytest.raises(UsageError):
        typed_plan(typed, CaptureRequest("net.py", ""))
