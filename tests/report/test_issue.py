"""These tests check the draft of an issue: the ablation names the component, and the text has what
PyTorch's form asks for.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import fx_explorer
from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.commands.issue import versions_of
from fx_explorer.findings.without_compile import ProgramRun
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.model.protocol import OutcomeKind
from fx_explorer.report import issue_ablation, issue_variations
from fx_explorer.report.issue_ablation import (
    WITHOUT,
    Ablation,
    VariationOutcome,
    ablate,
)
from fx_explorer.report.issue_draft import DraftedIssue, Form, issue_text, labels_of
from fx_explorer.report.issue_minified import Minified, minify, operations_of, without_folders
from fx_explorer.report.issue_run import Eager, ProgramEnd, Result, end_of, judge
from fx_explorer.report.issue_variations import (
    AOT_AUTOGRAD,
    AS_IT_IS,
    BACKENDS,
    CASTS,
    DECOMPOSITIONS,
    DYNAMO,
    INDUCTOR,
    PARTS,
)
from fx_explorer.session import SessionWriter
from fx_explorer.trials import Recapture, TrialWorker, forking_worker, ignore_message
from tests.exhaustive import in_exhaustive_runs
from tests.sessions import Written

NO_PARTS = dict.fromkeys(PARTS, ())


def _ablation(*results: Result, without: Result = "passes") -> Ablation:
    """An ablation whose backends have these results."""
    as_it_is: Result = next((result for result in results if result != "passes"), "passes")
    tried = [
        VariationOutcome(WITHOUT, without),
        VariationOutcome(AS_IT_IS.name, as_it_is, "RuntimeError: bad"),
    ]
    for attempt, result in zip(BACKENDS, results, strict=True):
        message = "RuntimeError: bad" if result == "fails" else ""
        tried.append(VariationOutcome(attempt.name, result, message, stage=attempt.stage))
    tried.append(VariationOutcome("dynamic=False", "passes"))
    return Ablation(tuple(tried), 'Traceback …\nRuntimeError: bad ``` "x"')


@pytest.mark.parametrize(
    ("ablation", "component"),
    [
        (_ablation("fails", "fails", "fails", "fails"), DYNAMO),
        (_ablation("passes", "differs", "differs", "differs"), AOT_AUTOGRAD),
        (_ablation("passes", "passes", "fails", "fails"), DECOMPOSITIONS),
        (_ablation("passes", "passes", "passes", "timed out"), INDUCTOR),
        (_ablation("passes", "passes", "falls back", "falls back"), DECOMPOSITIONS),
        (_ablation("passes", "passes", "passes", "passes"), ""),
        (_ablation("fails", "fails", "fails", "fails", without="fails"), ""),
        (_ablation("differs", "differs", "differs", "differs", without="fails"), DYNAMO),
    ],
)
def test_the_first_backend_that_does_not_pass_names_the_component(
    ablation: Ablation, component: str
) -> None:
    assert ablation.component == component
    assert ablation.is_reproduced == bool(component)


def _end(
    kind: OutcomeKind, *printed: str, status: int = 0, raised: str = "", fell_back: str = ""
) -> ProgramEnd:
    ended = kind if kind == "finished" else f"{kind} {status} {raised}"
    return ProgramEnd(
        Outcome(kind, raised, status),
        ProgramRun(ended, printed),
        raised=raised,
        fell_back=fell_back,
    )


FINISHED = _end("finished", "x: tensor([1., 2.])")

EXITED = _end("exited", "same: True", status=1)

RAISED = _end("raised", raised="TypeError: no Parameter", status=1)


@pytest.mark.parametrize(
    ("eager", "end", "result", "message"),
    [
        (FINISHED, FINISHED, "passes", ""),
        (FINISHED, _end("finished", "x: tensor([1., 3.])"), "differs", "prints “x: tensor([1., 3"),
        (FINISHED, _end("raised", raised="AssertionError: assert a == b"), "fails", "assert a =="),
        (FINISHED, _end("killed", raised="SIGSEGV"), "fails", "SIGSEGV"),
        (FINISHED, _end("exited", status=1), "fails", "ends with exit status 1"),
        (FINISHED, _end("timed_out"), "timed out", ""),
        # The backend's error is swallowed: torch warns, and runs the graph in eager mode.
        (FINISHED, _end("finished", "x: tensor([1., 2.])", fell_back="nonzero"), "falls back", "n"),
        # A script that ends with 0 where it shows the fault, and with 1 where it does not.
        (EXITED, EXITED, "passes", ""),
        (EXITED, _end("exited", "same: False", status=0), "differs", "status 0, without torch.co"),
        (EXITED, _end("exited", "same: False", status=1), "differs", "prints “same: False”"),
        # What eager mode refuses, torch.compile lets through.
        (RAISED, FINISHED, "differs", "raises nothing, without torch.compile “TypeError"),
        (RAISED, RAISED, "fails", "TypeError"),
    ],
)
def test_a_run_is_judged_by_how_it_ends_and_what_it_prints(
    eager: ProgramEnd, end: ProgramEnd, result: Result, message: str
) -> None:
    judged, words = judge(end, Eager(eager, eager))
    assert judged == result
    assert message in words


CHECKED = "import torch\nassert a.dtype == b.dtype\n"

OWN_ASSERT = """Traceback (most recent call last):
  File "/p/checked.py", line 2, in <module>
    assert a.dtype == b.dtype
AssertionError
"""

CRASH = f'''Fatal Python error: Segmentation fault

Thread 0x00007f9e3bfff6c0 (most recent call first):
  File "{Path(fx_explorer.__file__).parent}/worker/progress.py", line 162 in _read_line

Current thread 0x00007f9e3ddbeb80 (most recent call first):
  File "/tmp/torchinductor/vx/cvx.py", line 74 in call
  File "{Path(fx_explorer.__file__).parent}/worker/job.py", line 82 in run
'''


@pytest.mark.parametrize(
    ("kind", "message", "text", "raised"),
    [
        (
            "AssertionError",
            "AssertionError",
            OWN_ASSERT,
            "AssertionError: assert a.dtype == b.dtype",
        ),
        ("AssertionError", "AssertionError: not equal", OWN_ASSERT, "AssertionError: not equal"),
        (
            "AssertionError",
            "AssertionError: Not close!\n\nGreatest absolute difference: 0.001 at index (1,)\nG",
            OWN_ASSERT,
            "AssertionError: Not close! Greatest absolute difference: 0.001 at index (1,)",
        ),
        (
            "BackendCompilerFailed",
            "BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: no view",
            "",
            "RuntimeError: no view",
        ),
    ],
)
def test_the_error_is_quoted_as_a_maintainer_looks_for_it(
    kind: str, message: str, text: str, raised: str, written: Written
) -> None:
    def write(writer: SessionWriter) -> None:
        writer.add(model.SourceFile(0, "/p/checked.py", writer.text(CHECKED), 2))
        writer.add(model.Failure(0, 0, "program", None, kind, message, writer.text(text)))

    assert end_of(written(write)).raised == raised


def test_the_stack_of_a_crash_has_no_frames_of_ours(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        crash = writer.text(CRASH)
        writer.add(model.Failure(0, 0, "program", None, "SIGSEGV", "ended by SIGSEGV", crash))

    assert end_of(written(write)).error == (
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007f9e3ddbeb80 (most recent call first):\n"
        '  File "/tmp/torchinductor/vx/cvx.py", line 74 in call\n'
    )


def test_a_backend_that_failed_without_ending_the_program_is_seen(written: Written) -> None:
    def write(writer: SessionWriter) -> None:
        for registry_id, explanation in (("GB0036", "dynamic"), ("GB0219", "The backend raised X")):
            text = writer.text(f"Traceback of {registry_id}")
            writer.add(
                model.GraphBreak(0, 1, registry_id, "", explanation, (), "", 0, "", text=text)
            )

    end = end_of(written(write))
    assert end.fell_back == "The backend raised X"
    assert end.error == "Traceback of GB0219"


def test_a_long_traceback_is_cut_at_a_line() -> None:
    error = "\n".join(f"  File frame {number:04}" for number in range(2000)) + "\nRuntimeError: x"
    ablation = replace(_ablation("fails", "fails", "fails", "fails"), error=error)
    text = issue_text(DraftedIssue("x.py", "x", ablation, "", []))
    shown = text.partition("### Error logs\n\n```\n")[2].partition("\n```")[0].splitlines()
    assert shown[-1] == "RuntimeError: x"
    left_out = int(
        shown[0].removeprefix("(").partition(" lines before it left out)")[0].replace(",", "")
    )
    assert shown[1] == f"  File frame {left_out:04}"
    assert len(shown) == 1 + 2001 - left_out


PYTHON = """#!/bin/sh
case "$2" in
  torch.*) echo "PyTorch version: 2.13.0" ;;
  vllm.*) echo "$0: Error while finding (ModuleNotFoundError: No module named 'vllm')" >&2; exit 1 ;;
  *) printf '\\nCopy-and-paste the text below in your GitHub issue and FILL OUT the two last points.\\n'
     echo "- transformers version: 5.23.0" ;;
esac
"""


@pytest.mark.parametrize(
    ("form", "versions"),
    [
        ("pytorch", "PyTorch version: 2.13.0"),
        ("transformers", "- transformers version: 5.23.0"),
        (
            "vllm",
            "vllm is not installed for {python}, so python -m vllm.collect_env does not run. The "
            "rest is from python -m torch.utils.collect_env.\n"
            "PyTorch version: 2.13.0",
        ),
    ],
)
def test_versions_are_those_of_the_project_or_say_why_not(
    form: Form, versions: str, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o700)
    assert versions_of(str(python), form) == versions.format(python=python)


def test_a_difference_in_rounding_is_called_that() -> None:
    ablation = _ablation("passes", "passes", "passes", "differs")
    rounding = "Inductor rounds float16 and bfloat16 less often"
    assert rounding not in issue_text(DraftedIssue("x.py", "x", ablation, "", []))
    ablation = replace(ablation, tried=(*ablation.tried, VariationOutcome(CASTS, "passes")))
    assert rounding in issue_text(DraftedIssue("x.py", "x", ablation, "", []))


def test_a_program_that_was_not_run_compiled_is_not_called_the_same() -> None:
    names = [AS_IT_IS.name, *(backend.name for backend in BACKENDS)]
    left_out = [VariationOutcome(name, "not tried", "--budget is used up") for name in names]
    ablation = Ablation((VariationOutcome(WITHOUT, "passes"), *left_out), is_script=True)
    text = issue_text(DraftedIssue("x.py", "x", ablation, "", []))
    assert "whether it differs is not known" in text
    assert "no difference to report" not in text
    assert "<!-- Title: torch.compile -->" in text
    assert text.count("| not tried | `--budget is used up` |") == len(left_out)


def test_a_message_is_written_once() -> None:
    text = issue_text(
        DraftedIssue("x.py", "x", _ablation("passes", "fails", "fails", "fails"), "", [])
    )
    assert text.count("`RuntimeError: bad`") == 1


def test_a_fault_without_inductor_is_not_tried_with_inductors_settings() -> None:
    for component in (DYNAMO, AOT_AUTOGRAD):
        settings = [name for part in PARTS[component] for name in part.settings]
        assert settings
        assert not [name for name in settings if name.startswith("inductor.")]


def test_a_backend_that_fails_in_another_way_is_not_the_component() -> None:
    killed = "the program was ended by SIGSEGV (a segmentation fault) in call"
    tried = (
        VariationOutcome(WITHOUT, "passes"),
        VariationOutcome(AS_IT_IS.name, "fails", killed),
        VariationOutcome(
            'backend="aot_eager"', "fails", "RuntimeError: expand", stage=AOT_AUTOGRAD
        ),
        VariationOutcome(
            'backend="inductor"', "fails", f"{killed} of another file", stage=INDUCTOR
        ),
    )
    ablation = Ablation(tried, is_crash=True)
    assert ablation.component == INDUCTOR
    text = issue_text(DraftedIssue("x.py", "x", ablation, "", []))
    assert '`backend="aot_eager"` fails in another way: `RuntimeError: expand`' in text
    assert "<!-- Title: [Inductor] the program was ended by SIGSEGV -->" in text
    without_inductor = Ablation(tried[:3])
    assert without_inductor.component == AOT_AUTOGRAD, "better than none"
    assert without_inductor.other_fault is None


@pytest.mark.parametrize(
    ("message", "error", "is_crash", "labels"),
    [
        ("AssertionError: assert a == b", "", False, ["module: correctness (silent)"]),
        ("the process was killed", "", True, ["module: crash"]),
        (
            "RuntimeError",
            "RuntimeError: functionalization met",
            False,
            ["module: functionalization"],
        ),
        ("RuntimeError", '  File "functional_utils.py", in run_functionalized', False, []),
        ("E", "GuardOnDataDependentSymNode: u0 > 1", False, ["module: dynamic shapes"]),
    ],
)
def test_labels_follow_from_the_component_and_the_error(
    message: str, error: str, is_crash: bool, labels: list[str]
) -> None:
    tried = (
        VariationOutcome(WITHOUT, "passes"),
        VariationOutcome(AS_IT_IS.name, "fails", message),
        VariationOutcome('backend="aot_eager"', "fails", message, stage=AOT_AUTOGRAD),
    )
    ablation = Ablation(tried, error, is_crash=is_crash)
    assert labels_of(ablation) == ["module: aotdispatch", *labels]


def test_the_text_has_the_parts_of_the_form() -> None:
    ablation = _ablation("passes", "passes", "passes", "fails")
    text = issue_text(
        DraftedIssue("model.py", "print('```')", ablation, "PyTorch version: 2.13.0", ["a.zip"])
    )
    for part in ("### 🐛 Describe the bug", "### Ablation", "### Error logs", "### Versions"):
        assert f"\n{part}\n" in text
    assert "The first such backend adds Inductor. It passes with dynamic=False." in text
    assert "Labels that fit: `module: inductor` and `module: dynamic shapes`." in text
    fences = re.findall(r"^(`{3,})", text, re.M)
    assert fences[0] == fences[1] == "````", "the program has a fence of three"
    assert len(fences) % 2 == 0
    assert "<!-- Title: [Inductor] RuntimeError: bad -->" in text


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        ("vllm", ["Your current environment", "🐛 Describe the bug", "Ablation"]),
        ("transformers", ["System Info", "Information", "Reproduction", "Expected behavior"]),
    ],
)
def test_the_text_follows_the_form_of_the_project(form: Form, parts: list[str]) -> None:
    ablation = _ablation("passes", "passes", "passes", "fails")
    minified = Minified(MINIFIED, operations=2, operations_before=9)
    issue = DraftedIssue("model.py", "print(1)", ablation, "VERSIONS", ["a.zip"], minified)
    text = issue_text(issue, form)
    sections = re.findall(r"^### (.+)$", text, re.M)
    assert [part for part in parts if part not in sections] == []
    assert "torch's minifier left 2 operations of 9" in text
    assert text.count("VERSIONS") == text.count("RuntimeError: bad ```") == 1
    assert "Attached: a.zip." in text


MINIFIED = """
import os
os.environ['TORCH_COMPILE_DEBUG_DIR'] = '/tmp/somewhere'
import torch

class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()

    def forward(self, arg0_1):
        mul = torch.ops.aten.mul.Tensor(arg0_1, 2);  arg0_1 = None
        add = torch.ops.aten.add.Tensor(mul, 1);  mul = None
        return (add,)

run_repro(mod, load_args, command='run', save_dir='/tmp/somewhere', tracing_mode='real')
"""


def test_what_torchs_minifier_made_is_counted_and_can_be_sent() -> None:
    assert operations_of(MINIFIED) == 2
    sent = without_folders(MINIFIED, "symbolic")
    assert "/tmp" not in sent
    assert "save_dir=None, tracing_mode='symbolic'" in sent
    assert operations_of(sent) == 2


@pytest.mark.parametrize(
    ("ablation", "why"),
    [
        (_ablation("fails", "fails", "fails", "fails"), "Dynamo fails before there is a graph"),
        (_ablation("passes", "passes", "passes", "passes"), "does the same with and without"),
    ],
)
def test_where_there_is_no_graph_to_make_smaller_it_is_said(
    ablation: Ablation, why: str, tmp_path: Path
) -> None:
    request = CaptureRequest(target="model.py", session="")
    minified = asyncio.run(minify(request, TrialWorker(), ablation, tmp_path, 0, ignore_message))
    assert not minified.program
    assert why in minified.sentence


def test_a_file_that_torchs_minifier_would_write_over_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "repro.py").write_text("print('mine')")
    ablation = _ablation("passes", "passes", "passes", "fails")
    request = CaptureRequest(target="repro.py", session="")
    minified = asyncio.run(minify(request, TrialWorker(), ablation, tmp_path, 9, ignore_message))
    assert "start it in another folder" in minified.sentence
    assert (tmp_path / "repro.py").read_text() == "print('mine')"


# From pytorch#190765.
FLIPPED = """
import torch

def shuffle(x):
    other = x.sin().cos() * 2
    return torch.flip(torch.repeat_interleave(torch.flatten(x + 1.0), 2), [0]), other

print(torch.compile(shuffle, dynamic=True)(torch.arange(4.0).view(2, 2))[0].tolist())
"""


@in_exhaustive_runs
def test_the_draft_has_torchs_log_and_the_smallest_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(issue_variations, "PARTS", NO_PARTS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flipped.py").write_text(FLIPPED)
    draft = tmp_path / "draft"
    command = ["issue", str(tmp_path / "flipped.py"), "-o", str(draft), "--minify"]
    assert main([*command, "--budget", "3000"]) == 0
    printed = capsys.readouterr().out
    assert "adds Inductor" in printed
    assert "torch's minifier left" in printed
    assert list((draft / "torch_trace").glob("*.log"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draft", "flipped.py"]
    ran = subprocess.run([sys.executable, "minified.py"], cwd=draft, capture_output=True, text=True)
    assert "AccuracyError" in ran.stderr


FAILING = """
import torch

@torch.library.custom_op("mine::op", mutates_args=())
def op(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@op.register_fake
def _(x):
    raise RuntimeError("no shape of mine")

print(torch.compile(lambda x: op(x) + 1, fullgraph=True)(torch.ones(2)).tolist())
"""


def test_a_program_that_fails_compiled_is_taken_apart(
    tmp_path: Path, warm_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issue_ablation, "BACKENDS", BACKENDS[:2])
    monkeypatch.setattr(issue_variations, "PARTS", NO_PARTS)
    (tmp_path / "failing.py").write_text(FAILING)
    request = CaptureRequest(target=str(tmp_path / "failing.py"), session="", as_script=True)
    worker = TrialWorker(python=warm_python, timeout_s=120)
    ablation = asyncio.run(ablate(request, worker, 300, ignore_message, is_script=True))
    results = [(tried.name, tried.result) for tried in ablation.tried]
    assert results == [
        (WITHOUT, "passes"),
        (AS_IT_IS.name, "fails"),
        ('backend="eager"', "fails"),
        ('backend="aot_eager"', "fails"),
    ]
    assert ablation.component == "Dynamo"
    assert "no shape of mine" in ablation.error


DIFFERING = """
import time
import torch

def f(x):
    return x + 1 if torch.compiler.is_compiling() else x

print("compiled", torch.compile(f)(torch.ones(2)).tolist())
print("compiled at", time.time())
"""


def test_a_script_that_prints_another_result_differs_and_a_time_is_none(
    tmp_path: Path, warm_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issue_ablation, "BACKENDS", BACKENDS[:1])
    monkeypatch.setattr(issue_variations, "PARTS", NO_PARTS)
    (tmp_path / "differing.py").write_text(DIFFERING)
    request = CaptureRequest(
        target=str(tmp_path / "differing.py"), session="", as_script=True, backend="eager",
        settings={"compile.backend": "eager"},
    )  # fmt: skip
    worker = TrialWorker(python=warm_python, timeout_s=120)
    ablation = asyncio.run(ablate(request, worker, 300, ignore_message, is_script=True))
    assert [tried.result for tried in ablation.tried] == ["passes", "differs", "differs"]
    as_it_is = ablation.as_it_is
    assert as_it_is is not None
    assert as_it_is.message == (
        "prints “compiled [2.0, 2.0]”, without torch.compile “compiled [1.0, 1.0]”"
    )


def _ablate_pretended(
    program: Callable[[CaptureRequest], ProgramEnd], monkeypatch: pytest.MonkeyPatch
) -> tuple[Ablation, list[CaptureRequest]]:
    """Ablate with a function in place of the process of each run; return its requests, too."""
    requests: list[CaptureRequest] = []

    async def pretend(
        request: CaptureRequest, worker: object, look: object, **options: object
    ) -> Recapture[ProgramEnd]:
        requests.append(request)
        end = program(request)
        return Recapture(end.outcome, end, 0.1)

    monkeypatch.setattr(issue_ablation, "recapture", pretend)
    request = CaptureRequest(target="x.py", session="", as_script=True)
    ablation = asyncio.run(ablate(request, TrialWorker(), 60, ignore_message, is_script=True))
    return ablation, requests


def test_random_numbers_that_are_printed_get_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = itertools.count(1)

    def program(request: CaptureRequest) -> ProgramEnd:
        number = 1000.5 if request.seed is not None else 1.5 * next(drawn)
        is_wrong = request.settings.get("compile.backend") == "inductor"
        is_wrong |= not request.without_compile and "compile.backend" not in request.settings
        return _end("finished", f"x: {-number if is_wrong else number}")

    ablation, requests = _ablate_pretended(program, monkeypatch)
    assert ablation.is_seeded
    assert ablation.component == INDUCTOR
    assert all(request.seed is not None for request in requests[2:])
    assert all(request.settings["inductor.fallback_random"] for request in requests[2:])
    assert ablation.of("inductor.fallback_random = True") is None, "it is True in every run"


# The kind of pytorch#193279: eager mode prints zeros each time, and the wrong gradient is random.
def test_random_numbers_that_only_the_compiled_program_prints_get_a_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = itertools.count(1)

    def program(request: CaptureRequest) -> ProgramEnd:
        if request.without_compile:
            return _end("finished", "gradient: 0.0")
        number = 1000.5 if request.seed is not None else 1.5 * next(drawn)
        return _end("finished", f"gradient: {number}")

    ablation, requests = _ablate_pretended(program, monkeypatch)
    assert ablation.is_seeded
    assert ablation.component == DYNAMO
    names = [tried.name for tried in ablation.tried]
    assert len(names) == len(set(names)), "nothing stands there twice"
    # Two runs in eager mode and two as it is show that the numbers are random.
    assert [request.seed is not None for request in requests[:4]] == [False] * 4
    assert all(request.seed is not None for request in requests[4:])


def test_what_differs_with_a_seed_too_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = itertools.count(1)
    ablation, requests = _ablate_pretended(
        lambda request: _end("finished", f"process {100 * next(printed)}"), monkeypatch
    )
    assert not ablation.is_seeded
    assert not ablation.is_reproduced
    assert [request.seed for request in requests[4:]] == [None] * len(requests[4:])


def test_only_parts_that_the_fault_may_be_of_are_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ablation, _ = _ablate_pretended(
        lambda request: FINISHED if request.without_compile else RAISED, monkeypatch
    )
    assert ablation.component == DYNAMO
    backends = {backend.name for backend in BACKENDS}
    names = [tried.name for tried in ablation.tried if tried.name not in backends]
    assert names == [WITHOUT, AS_IT_IS.name, "dynamic=True", "dynamic=False"]


# The kind of pytorch#187027: what it prints is drawn at random, and wrong with torch.compile.
RANDOM = """
import torch

def f(x):
    return x + 1 if torch.compiler.is_compiling() else x

x = torch.randn(3)
print(f(x).tolist())
print(torch.compile(f)(x).tolist())
"""


@in_exhaustive_runs
def test_a_script_that_prints_what_it_draws_at_random_gets_a_seed_in_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issue_ablation, "BACKENDS", BACKENDS[:1])
    monkeypatch.setattr(issue_variations, "PARTS", NO_PARTS)
    (tmp_path / "random_.py").write_text(RANDOM)
    request = CaptureRequest(
        target=str(tmp_path / "random_.py"), session="", as_script=True, backend="eager",
        settings={"compile.backend": "eager"},
    )  # fmt: skip
    worker = forking_worker(sys.executable, 120)  # its forks draw different numbers
    ablation = asyncio.run(ablate(request, worker, 300, ignore_message, is_script=True))
    assert [tried.result for tried in ablation.tried] == ["passes", "differs", "differs"]
    assert ablation.is_seeded
    assert ablation.component == DYNAMO


def test_what_there_was_no_time_for_is_said(
    tmp_path: Path, warm_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fine.py").write_text("import torch\nprint(1)\n")
    request = CaptureRequest(target=str(tmp_path / "fine.py"), session="", as_script=True)
    worker = TrialWorker(python=warm_python, timeout_s=120)
    ablation = asyncio.run(ablate(request, worker, 0.0, ignore_message, is_script=True))
    assert ablation.not_tried == len(ablation.tried) - 1
    assert not ablation.is_reproduced


def test_a_folder_that_is_there_is_not_written_into(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["issue", "model.py", "-o", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err


def test_a_strangers_session_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Path(__file__).parents[1] / "data" / "screens" / "whole.fxs.gz"
    (tmp_path / "whole.fxs").write_bytes(gzip.decompress(whole.read_bytes()))
    folder = tmp_path / "draft"
    assert main(["issue", str(tmp_path / "whole.fxs"), "-o", str(folder)]) == 2
    assert "add --trust" in capsys.readouterr().err
    assert not folder.exists()
