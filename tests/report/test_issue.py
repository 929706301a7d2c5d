"""These tests check the draft of an issue: the ablation names the component, and the text has what
PyTorch's form asks for.
"""

from __future__ import annotations

import asyncio
import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer.cli import main
from fx_explorer.model import CaptureRequest
from fx_explorer.report import issue_ablation
from fx_explorer.report.issue_ablation import (
    AS_IT_IS,
    BACKENDS,
    WITHOUT,
    Ablation,
    Result,
    Tried,
    ablate,
)
from fx_explorer.report.issue_draft import DraftedIssue, Form, issue_text
from fx_explorer.report.issue_minified import Minified, minify, operations_of, without_folders
from fx_explorer.trials import TrialWorker, ignore_message
from tests.exhaustive import in_exhaustive_runs


def _ablation(*results: Result, without: Result = "passes") -> Ablation:
    """An ablation whose backends have these results."""
    as_it_is: Result = next((result for result in results if result != "passes"), "passes")
    tried = [Tried(WITHOUT, without), Tried(AS_IT_IS, as_it_is, "RuntimeError: bad")]
    for attempt, result in zip(BACKENDS, results, strict=True):
        tried.append(Tried(attempt.name, result, stage=attempt.stage))
    tried.append(Tried("dynamic=False", "passes"))
    return Ablation(tuple(tried), 'Traceback …\nRuntimeError: bad ``` "x"')


@pytest.mark.parametrize(
    ("ablation", "component"),
    [
        (_ablation("fails", "fails", "fails", "fails"), "Dynamo"),
        (_ablation("passes", "differs", "differs", "differs"), "AOTAutograd"),
        (_ablation("passes", "passes", "fails", "fails"), "decompositions or the partitioner"),
        (_ablation("passes", "passes", "passes", "timed out"), "Inductor"),
        (_ablation("passes", "passes", "passes", "passes"), ""),
        (_ablation("fails", "fails", "fails", "fails", without="fails"), ""),
    ],
)
def test_the_first_backend_that_does_not_pass_names_the_component(
    ablation: Ablation, component: str
) -> None:
    assert ablation.component == component
    assert ablation.is_reproduced == bool(component)


def test_the_text_has_the_parts_of_the_form() -> None:
    ablation = _ablation("passes", "passes", "passes", "fails")
    text = issue_text(
        DraftedIssue("model.py", "print('```')", ablation, "PyTorch version: 2.13.0", ["a.zip"])
    )
    for part in ("### 🐛 Describe the bug", "### Ablation", "### Error logs", "### Versions"):
        assert f"\n{part}\n" in text
    assert "adds Inductor (module: inductor). It passes with dynamic=False." in text
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
    monkeypatch.setattr(issue_ablation, "PARTS", ())
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
    monkeypatch.setattr(issue_ablation, "PARTS", ())
    (tmp_path / "failing.py").write_text(FAILING)
    request = CaptureRequest(target=str(tmp_path / "failing.py"), session="", as_script=True)
    worker = TrialWorker(python=warm_python, timeout_s=120)
    ablation = asyncio.run(ablate(request, worker, 300, ignore_message, is_script=True))
    results = [(tried.name, tried.result) for tried in ablation.tried]
    assert results == [
        (WITHOUT, "passes"),
        (AS_IT_IS, "fails"),
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
    monkeypatch.setattr(issue_ablation, "PARTS", ())
    (tmp_path / "differing.py").write_text(DIFFERING)
    request = CaptureRequest(
        target=str(tmp_path / "differing.py"), session="", as_script=True, backend="eager",
        settings={"compile.backend": "eager"},
    )  # fmt: skip
    worker = TrialWorker(python=warm_python, timeout_s=120)
    ablation = asyncio.run(ablate(request, worker, 300, ignore_message, is_script=True))
    assert [tried.result for tried in ablation.tried] == ["passes", "differs", "differs"]
    as_it_is = ablation.of(AS_IT_IS)
    assert as_it_is is not None
    assert as_it_is.message == (
        "prints “compiled [2.0, 2.0]”, without torch.compile “compiled [1.0, 1.0]”"
    )


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
    assert "is there already" in capsys.readouterr().err


def test_a_strangers_session_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Path(__file__).parents[1] / "data" / "screens" / "whole.fxs.gz"
    (tmp_path / "whole.fxs").write_bytes(gzip.decompress(whole.read_bytes()))
    folder = tmp_path / "draft"
    assert main(["issue", str(tmp_path / "whole.fxs"), "-o", str(folder)]) == 2
    assert "add --trust" in capsys.readouterr().err
    assert not folder.exists()
