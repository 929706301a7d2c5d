"""These tests check the JSON report: its content, that it keeps its contract, and the command's
exit codes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fx_explorer import cli, model
from fx_explorer.client.history import History
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader, SessionWriter
from tests.exhaustive import one_of
from tests.sessions import Written, write_training_step

Report = Callable[[Path], dict[str, Any]]
Captured = Callable[..., Path]

SAMPLES = Path(__file__).parents[2] / "sample_models"


def test_the_schema_is_a_schema(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


def test_every_field_of_a_report_is_described(
    tmp_path: Path, schema: dict[str, Any], report: Report
) -> None:
    made = report(write_training_step(tmp_path / "s.fxs").path)
    assert set(made) == set(schema["properties"]) == set(schema["required"])
    for section in ("compilations", "saved_tensors"):
        assert set(made[section][0]) == set(schema["properties"][section]["items"]["properties"])


def test_of_many_decisions_the_first_are_listed_and_all_counted(
    written: Written, schema: dict[str, Any]
) -> None:
    def write(writer: SessionWriter) -> None:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1))
        file = writer.add(model.SourceFile(0, "/p/m.py", writer.text("pass\n"), 1))
        for number in range(150):
            name = f"G['SEEN'][{number}]"
            writer.add(model.SideEffect(0, compilation, name, "list", (), file, 1))

    effects = json_report(written(write))["side_effects"]
    assert isinstance(effects, dict)
    assert (effects["count"], len(effects["rows"])) == (150, 100)
    jsonschema.validate(effects, schema["properties"]["side_effects"])


def test_a_training_step_by_hand(tmp_path: Path, report: Report) -> None:
    made = report(write_training_step(tmp_path / "s.fxs").path)
    assert made["schema"] == "fx-explorer/report/1"
    assert made["totals"] == {
        "compilations": 1,
        "graphs": 1,
        "graph_breaks": 0,
        "graph_break_hits": 0,
        "recompiles": 0,
        "kernels": 3,
        "compile_s": 2.0,
        "skipped_records": 0,
    }
    (compilation,) = made["compilations"]
    assert compilation["id"] == "0/0"
    assert compilation["seconds"] == {"dynamo": 1.0, "schedule": 0.5, "output_code": 0.5}
    assert compilation["graphs"][0] == {
        "stage": "dynamo",
        "direction": None,
        "name": None,
        "nodes": 5,
        "ops": {"linear": 2, "gelu": 1},
        "annotated_nodes": 0,
    }
    assert compilation["kernels"][1] == {
        "name": "kernel",
        "language": "cpp",
        "direction": "forward",
        "nodes": ["gelu"],
        "dynamo_nodes": [],
        "sources": [{"file": "/p/mlp.py", "line": 7}],
        "written_at": None,
        "configs": [],
        "launches": [],
        "estimate": None,
        "line": {"file": "/p/mlp.py", "line": 7},
        "modules": [],
        "calls": 1,
        "bytes": None,
        "seconds": None,
        "seconds_are": None,
        "version": {"number": 1, "of": 1, "function": "MLP.forward"},
    }
    assert made["links"]["forward"]["to_kernel"] == 3
    assert made["saved_tensors"][0]["shape"] == [4, 8]


def test_an_empty_session_has_a_report(tmp_path: Path, report: Report) -> None:
    SessionWriter(tmp_path / "s.fxs").close()
    made = report(tmp_path / "s.fxs")
    assert made["compilations"] == []
    assert made["outcome"] is None
    assert made["environment"] == {"gpu": None, "gpu_present": None}


def test_text_that_is_no_unicode_survives(tmp_path: Path) -> None:
    """A file name may hold bytes that are no UTF-8; Python hands them on as lone surrogates."""
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(model.ConsoleLine(0, "stdout", "x"))
        writer.set_meta("target", {"name": "m\udcff.py\x1b[31m"})
    for output in ([], ["-o", str(tmp_path / "r.json")]):
        ended = run_report(str(tmp_path / "s.fxs"), *output)
        assert ended.returncode == 0, ended.stderr
        text = (tmp_path / "r.json").read_text() if output else ended.stdout
        assert json.loads(text)["target"]["name"] == "m\udcff.py\x1b[31m"
        assert "\x1b" not in text


COUNTED = [
    path.stem for path in sorted(SAMPLES.glob("*.py")) if not path.stem.startswith("precompile")
]
"""The samples that torch counts: it does not count what is captured ahead (tests/test_samples.py).
"""


@pytest.mark.parametrize("sample", one_of(3, COUNTED))
def test_the_report_of_a_sample_keeps_its_contract(
    captured: Captured, report: Report, sample: str
) -> None:
    session = captured(sample)
    made = report(session)
    assert made["outcome"]["kind"] == "finished"
    assert made["failures"] == []
    assert made["totals"]["skipped_records"] == 0
    with SessionReader(session) as reader:
        counters = reader.meta("counters")
        output_code = "\n".join(
            reader.text(a.text) for a in reader.rows(model.Artifact, kind="output_code")
        )
    assert made["totals"]["graphs"] == counters["stats"]["unique_graphs"]
    assert made["totals"]["compilations"] == counters["frames"]["total"]
    assert made["totals"]["graph_break_hits"] == sum(
        counters.get("graph_break", {}).values()
    ) + sum(counters.get("unimplemented", {}).values())
    kernels = [kernel for compilation in made["compilations"] for kernel in compilation["kernels"]]
    generated = [kernel for kernel in kernels if kernel["language"] != "extern"]
    assert len(generated) == len(re.findall(r"^\w+ = async_compile\.", output_code, re.MULTILINE))
    called = re.findall(r"\bextern_kernels\.(\w+)\(", output_code)
    assert sorted(called) == sorted(
        k["name"].partition(".")[2] for k in kernels if k["name"].startswith("extern_kernels.")
    )


def test_regions_of_the_sample_are_named_and_reach_kernels(
    captured: Captured, report: Report
) -> None:
    """Second source: the names in the sample's own annotate() calls."""
    annotated = set(re.findall(r'"inductor_region": "(\w+)"', (SAMPLES / "regions.py").read_text()))
    found = report(captured("regions"))["regions"]
    assert annotated
    assert {region["name"] for region in found} == annotated
    assert all(region["compiled"] for region in found)


def test_kernel_sources_are_the_lines_that_name_the_operation(
    captured: Captured, report: Report
) -> None:
    """Second source: Inductor names a fused kernel after its operations, and the sample names them
    too.
    """
    source = (SAMPLES / "mlp.py").read_text().splitlines()
    kernels = [
        k
        for c in report(captured("mlp"))["compilations"]
        for k in c["kernels"]
        if "_gelu_" in k["name"]
    ]
    assert kernels
    for kernel in kernels:
        assert any("gelu" in source[place["line"] - 1] for place in kernel["sources"])


# the command


def run_report(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fx_explorer", "report", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_session_is_reported_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand = write_training_step(tmp_path / "s.fxs")
    assert cli.main(["report", str(hand.path), "--format", "json"]) == 0
    with SessionReader(hand.path) as reader:
        assert json.loads(capsys.readouterr().out) == json_report(reader)


def test_a_session_under_another_name_is_known_by_its_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand = write_training_step(tmp_path / "session.backup")
    assert cli.main(["report", str(hand.path)]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["graphs"] == 1


def test_a_report_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hand = write_training_step(tmp_path / "s.fxs")
    assert cli.main(["report", str(hand.path), "-o", str(tmp_path / "r.json")]) == 0
    assert json.loads((tmp_path / "r.json").read_text())["totals"]["graphs"] == 1
    assert capsys.readouterr().out == ""


def test_a_place_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand = write_training_step(tmp_path / "s.fxs")
    assert cli.main(["report", str(hand.path), "-o", str(tmp_path / "no" / "r.json")]) == 2
    assert "cannot write the report" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "exit_code", "said"),
    [
        (
            "train.log",
            b"epoch 1, loss 0.5\n",
            2,
            "is a log, but not a TORCH_TRACE log",
        ),
        ("broken.fxs", b"nothing of the kind", 5, "is not an fx-explorer session"),
        ("missing.fxs", None, 5, "no session file at"),
    ],
)
def test_what_cannot_be_reported_on_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    exit_code: int,
    said: str,
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert cli.main(["report", str(tmp_path / name)]) == exit_code
    error = capsys.readouterr().err
    assert error.startswith("fx-explorer: ")
    assert said in error


def test_a_directory_of_logs_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "one of the TORCH_TRACE logs in this directory" in capsys.readouterr().err


def test_a_target_is_captured_first_and_its_failure_kept(
    tmp_path: Path, schema: dict[str, Any], warm_python: str
) -> None:
    """The report is data on stdout whatever happens; the exit code says that the program raised."""
    target = tmp_path / "raises.py"
    target.write_text(
        "import torch\n"
        "def double(x):\n    return x * 2\n"
        "def model(x):\n    x = double(x)\n    raise ValueError('on purpose')\n"
        "example_inputs = (torch.ones(2),)\n"
    )
    ended = run_report(str(target), "--backend", "eager", "--python", warm_python)
    assert ended.returncode == 3, ended.stderr
    made = json.loads(ended.stdout)
    jsonschema.validate(made, schema)
    assert made["outcome"]["kind"] == "raised"
    assert "on purpose" in ended.stderr
    kept = re.search(r"kept as history:(\d+) \(fx-explorer history\)$", ended.stderr, re.MULTILINE)
    assert kept
    with SessionReader(History().find(int(kept[1])).session) as reader:
        assert reader.meta("outcome")["kind"] == "raised"


def test_a_target_that_is_not_there_leaves_no_report(tmp_path: Path) -> None:
    ended = run_report(str(tmp_path / "missing.py"))
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "missing.py" in ended.stderr
