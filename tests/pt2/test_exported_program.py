"""These tests use an ``ExportedProgram`` as a target: the user is asked, the worker loads it, and
it is captured with its inputs; or it is refused in a sentence.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest
from fx_explorer.program.exported_program import find_any_target
from fx_explorer.program.place import locate
from fx_explorer.session import SessionReader

pytestmark = pytest.mark.usefixtures("warm_workers")

Change = Callable[[str, bytes], bytes | None]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu() * scale


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return torch.export.export(Net(), (torch.randn(3, 8),), {"scale": torch.tensor(2.0)})


@pytest.fixture(scope="module")
def saved(program: torch.export.ExportedProgram, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    torch.export.save(program, path)
    return path


def changed(saved: Path, path: Path, change: Change) -> Path:
    """Return a copy of the file with its members changed; None leaves a member out."""
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(path, "w") as target:
        for one in source.infolist():
            content = change(one.filename, source.read(one))
            if content is not None:
                target.writestr(one.filename, content)
    return path


def captured(file: Path, session: Path, *options: str) -> int:
    return main(
        [
            "capture",
            str(file),
            "--trust",
            "-o",
            str(session),
            "--backend",
            "eager",
            "--force",
            *options,
        ]
    )


def test_it_is_captured_with_the_inputs_that_it_was_exported_with(
    saved: Path, program: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    """The second source is the program's own graph: the same operators, in torch's names."""
    session = tmp_path / "net.fxs"
    assert captured(saved, session) == 0
    with SessionReader(session) as reader:
        (graph,) = reader.rows(model.Graph, stage="dynamo", parent=0)
        seen = Counter(node.target for node in reader.nodes(graph) if node.op == "call_function")
        assert reader.meta("target")["name"] == "net.pt2:net"
    wanted = Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")
    assert seen == wanted


def test_inputs_may_be_given(saved: Path, tmp_path: Path) -> None:
    session = tmp_path / "net.fxs"
    inputs = "{'x': torch.ones(3, 8), 'scale': torch.tensor(1.0)}"
    assert captured(saved, session, "--inputs", inputs) == 0


def test_without_trust_it_is_not_loaded(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (
        ["capture", str(saved), "-o", str(tmp_path / "s.fxs")],
        ["report", str(saved)],
        [str(saved)],
    ):
        assert main(command) == 2
        told = capsys.readouterr().err
        assert (
            "is an ExportedProgram. Loading an ExportedProgram can run code from its author" in told
        )
        assert "add --trust" in told
    assert not (tmp_path / "s.fxs").exists()


def test_the_worker_loads_nothing_that_nobody_agreed_to(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the program was loaded")

    monkeypatch.setattr("torch.export.load", never)
    request = CaptureRequest(str(saved), "")
    with pytest.raises(TargetError, match="loaded only with your consent"):
        find_any_target(locate(request), request, lambda said: None)


def test_one_without_inputs_says_what_it_takes(
    program: torch.export.ExportedProgram, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bare.pt2"
    before, program._example_inputs = program._example_inputs, None
    try:
        torch.export.save(program, file)
    finally:
        program._example_inputs = before
    assert captured(file, tmp_path / "s.fxs") == 2
    told = capsys.readouterr().err
    assert "has no example inputs. Give them with --inputs" in told
    assert "x: f32[3, 8], scale: f32[]" in told


def newer(name: str, content: bytes) -> bytes:
    if not name.endswith("models/model.json"):
        return content
    written: dict[str, Any] = json.loads(content)
    return json.dumps(
        {**written, "schema_version": {"major": 99, "minor": 1}, "torch_version": "9.1"}
    ).encode()


def test_one_of_a_newer_torch_names_both(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = changed(saved, tmp_path / "newer.pt2", newer)
    assert captured(file, tmp_path / "s.fxs") == 5
    told = capsys.readouterr().err
    assert (
        f"torch {torch.__version__} cannot load newer.pt2, which was saved by torch 9.1 (schema 99.1)"
        in told
    )
    assert "--python" in told
    assert "Traceback" not in told


def without_model(name: str, content: bytes) -> bytes:
    return b"{}" if name.endswith("models/model.json") else content


def test_one_that_is_damaged_is_not_said_to_be_of_another_torch(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        captured(changed(saved, tmp_path / "damaged.pt2", without_model), tmp_path / "s.fxs") == 5
    )
    told = capsys.readouterr().err
    assert "The file seems to be damaged" in told
    assert "--python" not in told


def test_an_operator_that_is_not_registered_is_named(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = changed(
        saved,
        tmp_path / "op.pt2",
        lambda name, content: content.replace(b"aten.relu", b"aten.nope"),
    )
    assert captured(file, tmp_path / "s.fxs") == 5
    told = capsys.readouterr().err
    assert "torch.ops.aten.nope.default" in told
    assert "operators that a library or program registers" in told


def flipped(saved: Path, path: Path) -> Path:
    """Return a copy with one byte of the graph's text changed, so that its checksum is wrong."""
    content = bytearray(saved.read_bytes())
    content[content.index(b'"graph_module"') + 3] ^= 1
    path.write_bytes(bytes(content))
    return path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("truncated", "its table of contents is missing"),
        ("empty", "is an empty file, neither"),
        ("text", "is text, neither"),
        ("checkpoint", "is a model checkpoint"),
        ("torchscript", "is a TorchScript archive"),
        (
            "archive",
            "is a zip archive, neither an ExportedProgram nor an AOTInductor package",
        ),
        ("flipped", "Bad CRC-32"),
        ("no_json", "is not JSON"),
        ("twice", "two files with the same name"),
        ("outside", "names a file outside itself"),
        ("bomb", "inflates more than 100 times"),
        ("huge", "bytes; at most"),
    ],
)
@pytest.mark.filterwarnings(
    "ignore:Duplicate name:UserWarning", "ignore:.*torch.jit.*:DeprecationWarning"
)
def test_what_is_no_program_is_named_with_exit_code_5(
    name: str,
    said: str,
    saved: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "file.pt2"
    if name == "truncated":
        file.write_bytes(saved.read_bytes()[:3000])
    elif name in ("empty", "text"):
        file.write_bytes(b"" if name == "empty" else b"no program")
    elif name == "checkpoint":
        torch.save({"weight": torch.ones(2)}, file)
    elif name == "flipped":
        flipped(saved, file)
    elif name == "no_json":
        changed(
            saved,
            file,
            lambda member, content: b"{" if member.endswith("models/model.json") else content,
        )
    else:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("m/archive_format", "pt2")
            for member, content in {
                "torchscript": {"m/code/__torch__.py": "", "m/data.pkl": ""},
                "archive": {"m/readme.txt": "hello"},
                "twice": {"m/models/model.json": "{}"},
                "outside": {"m/../../etc/model.json": "{}"},
                "bomb": {"m/models/model.json": "0" * 5_000_000},
                "huge": {"m/models/model.json": "[" + "1, " * 40_000 + "1]"},
            }[name].items():
                archive.writestr(member, content)
            if name == "twice":
                archive.writestr("m/models/model.json", "[]")
    if name == "huge":
        monkeypatch.setattr("fx_explorer.session.untrusted.packed.MOST_TEXT", 100_000)
    assert captured(file, tmp_path / "s.fxs") == 5
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
    assert not (tmp_path / "s.fxs").exists()
