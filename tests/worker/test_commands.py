"""These tests run ``capture`` and ``run`` as a user types them: what goes to stdout, what to
stderr, and the exit code.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer.command_line.capture_options import request_from
from fx_explorer.command_line.narration import CaptureNarration
from fx_explorer.commands import capture, run
from fx_explorer.commands.capture import default_output
from fx_explorer.errors import UsageError
from fx_explorer.model import CaptureRequest, Notice
from fx_explorer.session import SessionReader

ROOT = Path(__file__).parents[2]
FX_EXPLORER = [sys.executable, "-m", "fx_explorer"]


def fx_explorer(*words: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*FX_EXPLORER, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        timeout=120,
    )


def request_of(*words: str) -> CaptureRequest:
    parser = argparse.ArgumentParser()
    capture.add_arguments(parser)
    return request_from(parser.parse_args(words))


def test_run_passes_output_through_byte_by_byte_and_ends_with_the_scripts_code(
    tmp_path: Path,
) -> None:
    (tmp_path / "job.py").write_text(
        "import os, sys\nos.write(1, b'\\xff\\x1b[1mbold\\n')\nprint('oops', file=sys.stderr)\nsys.exit(int(sys.argv[1]))\n"
    )
    ended = fx_explorer("run", "job.py", "-o", "kept.fxs", "--", "42", cwd=tmp_path)
    assert ended.returncode == 42
    assert ended.stdout == b"\xff\x1b[1mbold\n"
    assert ended.stderr.startswith(b"oops\n")
    assert b"session: kept.fxs" in ended.stderr


def test_capture_keeps_stdout_for_data_and_shows_the_traceback_of_the_program(
    tmp_path: Path,
) -> None:
    (tmp_path / "bad.py").write_text("print('\\x1b]0;evil\\x07')\nraise ValueError('mine')\n")
    ended = fx_explorer("capture", "bad.py", cwd=tmp_path)
    assert ended.returncode == 3
    assert ended.stdout == b""
    narration = ended.stderr.decode()
    assert "␛]0;evil" in narration
    assert "\x1b" not in narration
    assert "raise ValueError('mine')" in narration
    assert "session: bad.fxs" in narration
    with SessionReader(tmp_path / "bad.fxs") as reader:
        assert reader.meta("outcome")["kind"] == "raised"


def test_a_missing_target_is_bad_usage_and_leaves_nothing(tmp_path: Path) -> None:
    ended = fx_explorer("capture", "absent.py", cwd=tmp_path)
    assert ended.returncode == 2
    assert b"there is no file absent.py" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_capture_that_is_terminated_ends_with_143_and_keeps_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import sys, time\nsys.stdout.write('slow\\n')\nsys.stdout.flush()\ntime.sleep(1000)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*FX_EXPLORER, "run", "slow.py"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=-1,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"slow\n"
        process.send_signal(signal.SIGTERM)
        _, narration = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"ended by SIGTERM from outside while running slow.py" in narration
    assert (tmp_path / "slow.fxs").exists()


def test_options_become_the_request() -> None:
    assert request_of("m.py") == CaptureRequest("m.py", "")
    words = [
        "m.py:Net",
        "--call",
        "Net(3)",
        "--inputs",
        "1",
        "--no-train",
        "--backend",
        "eager",
        "--dynamic",
        "--build",
    ]
    words += [
        "--option",
        "max_fusion_size=8",
        "--option",
        "cpp.threads=1",
        "--option",
        "trace.enabled=true",
        "--option",
        "set={1}",
        "--use-caches",
    ]
    assert request_of(*words, "--device", "cuda") == CaptureRequest(
        "m.py:Net",
        "",
        call="Net(3)",
        inputs="1",
        train=False,
        backend="eager",
        dynamic=True,
        options={"max_fusion_size": 8, "cpp.threads": 1, "trace.enabled": True, "set": "{1}"},
        build=True,
        use_caches=True,
        device="cuda",
    )


def test_run_builds_by_default_unless_the_gpu_is_not_there_and_is_always_a_script() -> None:
    def request_of_words(*words: str) -> CaptureRequest:
        parser = argparse.ArgumentParser()
        run.add_arguments(parser)
        return run.request_of_run(parser.parse_args(words))

    assert request_of_words("s.py") == CaptureRequest("s.py", "", as_script=True, build=True)
    assert not request_of_words("s.py", "--gpu", "h100").build
    assert not request_of_words("s.py", "--no-build").build


@pytest.mark.parametrize(
    "words", [["--option", "x"], ["--timeout", "0"], ["--timeout", "soon"], ["--option", "=1"]]
)
def test_options_that_make_no_sense_are_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        request_of("m.py", *words)
    assert words[-1] in capsys.readouterr().err


def test_mode_and_option_exclude_each_other_as_in_torch() -> None:
    with pytest.raises(UsageError, match="--mode and --option"):
        request_of("m.py", "--mode", "max-autotune", "--option", "a=1")


@pytest.mark.parametrize(
    ("target", "output"),
    [
        ("dir/mlp.py", "mlp.fxs"),
        ("dir/mlp.py:MLP", "mlp.fxs"),
        ("pkg.mod:obj", "mod.fxs"),
        ("pkg.mod", "mod.fxs"),
        ("odd", "odd.fxs"),
    ],
)
def test_the_session_is_named_after_the_target(target: str, output: str) -> None:
    assert default_output(target) == output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_live_line_that_the_programs_output_does_not_mix_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    progress = CaptureNarration(out, pass_through=False)
    assert progress.show_live(lambda: "importing torch")
    progress.program_output("stdout", b"printed\n\x1b[2Jpart")
    progress.end()
    shown = out.getvalue()
    assert "importing torch" in shown
    assert "\r\x1b[K  | printed\n" in shown
    assert shown.endswith("\r\x1b[K  | ␛[2Jpart\n")


def test_without_a_terminal_there_are_plain_lines_only() -> None:
    out = io.StringIO()
    progress = CaptureNarration(out, pass_through=False)
    progress.show(Notice("worker", text="importing torch"))
    progress.show(Notice("artifact", stage="post_grad", compilation="0/0"))
    progress.show(Notice("note", text="graph break \x1b[0m"))
    progress.end()
    assert out.getvalue() == "fx-explorer: importing torch\nfx-explorer: note: graph break ␛[0m\n"
