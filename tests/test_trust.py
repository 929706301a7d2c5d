"""These tests check a session that this user did not capture on this machine: some actions of the
command line need the user's consent.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.ownership import is_own_session, remember_session
from tests.analysis.kernel_ir.built_sessions import write_kernel
from tests.analysis.kernel_ir.samples import sample

PROGRAM = "def f(x):\n    print(x)\n    return x\n"


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """Return a session from a stranger whose program, inputs and kernel would leave a file behind."""
    touch = f"open({str(tmp_path / 'ran')!r}, 'w').close()"
    path = tmp_path / "stranger.fxs"
    write_kernel(path, sample("h100_softmax"), source=f"{touch}\n", built=False, own=False)
    file = tmp_path / "m.py"
    file.write_text(PROGRAM)
    with SessionReader(path) as reader:
        gpu = model.Gpu.from_json(reader.meta("request")["gpu"])
    with SessionWriter(path) as writer:
        source = writer.add(model.SourceFile(0, str(file), writer.text(PROGRAM), 3, is_user=True))
        frames = (model.Frame(str(file), 2, "f", "print(x)"),)
        stack = writer.add_stack(model.Stack(0, frames), {str(file): source})
        writer.add(
            model.GraphBreak(
                0, 1, "GB0059", "print", "print", (), str(file), 2, "print(x)", stack, chain=stack
            )
        )
        request = model.CaptureRequest(f"{file}:f", "", inputs=f"[{touch}]", gpu=gpu)
        writer.set_meta("request", dataclasses.asdict(request))
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    return path


COMMANDS = (
    ("kernel", "NAME"),
    ("kernel", "NAME", "--level", "ptx"),
    ("kernel", "NAME", "--passes"),
    ("kernel", "NAME", "--bench"),
    ("report", "--kernels", "all"),
    ("fix", "--try"),
    ("fix", "--apply", "1"),
    ("diagnose", "--try"),
    ("study", "-o", "page.html"),
    ("options", "--try", "compile.dynamic=True"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_nothing_of_a_strangers_session_is_run_unasked(
    words: tuple[str, ...],
    stranger: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_process(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr("asyncio.create_subprocess_exec", no_process)
    command, *others = words
    others = [
        sample("h100_softmax").fields["kernel"] if word == "NAME" else word for word in others
    ]
    assert main([command, str(stranger), *others]) == 2
    said = capsys.readouterr().err
    assert "was not captured by you on this machine" in said
    assert "--trust" in said
    assert "This compiles" in said or "This runs" in said
    assert not (stranger.parent / "ran").exists()


def test_what_only_reads_needs_no_trust(stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["kernel"],
        ["report"],
        ["check", "--max-graph-breaks", "9"],
        ["fix"],
        ["fix", "--diff", "1"],
        ["options"],
    ):
        assert main([words[0], str(stranger), *words[1:]]) in (0, 1), capsys.readouterr().err
    assert not (stranger.parent / "ran").exists()


def test_a_session_that_this_process_captures_is_ones_own(stranger: Path) -> None:
    assert not is_own_session(stranger)
    remember_session(stranger)
    assert is_own_session(stranger)


def test_a_captured_session_is_ones_own(captured: object) -> None:
    assert is_own_session(captured("mlp"))  # type: ignore[operator]
