"""These tests check that text in a command line that looks like a secret is in no session. Second
source: the bytes of the file, every text inflated.
"""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.client import Capture
from fx_explorer.errors import UsageError
from fx_explorer.model import CaptureRequest
from fx_explorer.model.secret_arguments import LEFT_OUT, is_secret_name, without_secrets
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.ownership import whole_request


@pytest.mark.parametrize(
    "words",
    [
        ["--token", "S3CR3T"],
        ["--hf-token=S3CR3T"],
        ["--password", "S3CR3T with spaces"],
        ["--apiKey", "S3CR3T"],
        ["wandb.api_key=S3CR3T"],
        ["env", "HF_TOKEN=S3CR3T", "python"],
        ["sh", "-c", "python train.py --token 'S3CR3T and more' --lr 1"],
        ["python", "-c", "import os; os.environ['OPENAI_API_KEY'] = 'S3CR3T'"],
        ["--config", '{"client_secret": "S3CR3T"}'],
        ["postgres://me:S3CR3T@host/db"],
        ["https://host/x?access_token=S3CR3T&y=1"],
        ["-H", "Authorization: Bearer S3CR3T"],
        ["hf_S3CR3TS3CR3TS3CR3T"],
        ["ghp_S3CR3TS3CR3TS3CR3T"],
        ["sk-S3CR3TS3CR3TS3CR3T"],
        ["--db-passwd", "S3CR3T", "--epochs", "3"],
    ],
    ids=" ".join,
)
def test_a_value_that_looks_like_a_secret_is_left_out_and_its_name_told(words: list[str]) -> None:
    safe = without_secrets(words)
    assert "S3CR3T" not in " ".join(safe.words)
    assert LEFT_OUT in " ".join(safe.words)
    assert len(safe.words) == len(words)
    assert len(safe.names) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--max-tokens", "5", "--eos-token", "</s>", "--num_tokens=3"],
        ["--tokenizer", "gpt2", "--key", "x", "--lr", "1e-3"],
        ["--use-auth-token", "--token-count", "7", "--secret-santa", "no"],
        ["-m", "pip", "--version", "a=b", "keys=3", "https://host/a?b=c"],
    ],
    ids=" ".join,
)
def test_what_looks_like_none_is_kept(words: list[str]) -> None:
    assert without_secrets(words).words == tuple(words)


def test_an_argument_of_any_length_is_looked_through_in_linear_time() -> None:
    for piece in ("a", "-", "sk-", "eyJa.", "://a:", "token=", "token='", " ", "A1"):
        without_secrets([piece * 10_000])
        is_secret_name(piece * 10_000)


PROGRAM = """
import subprocess, sys, torch
def f(x):
    return x.sin()
torch.compile(f, backend="eager")(torch.ones(3))
if "--child-token" not in sys.argv:
    for options in ([], ["-I"]):
        subprocess.run([sys.executable, *options, __file__, "--child-token", "CHILD_S3CR3T"], check=True)
"""


@pytest.mark.usefixtures("warm_workers")
async def test_a_session_holds_no_secret_of_a_command_line_and_says_what_it_lacks(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    arguments = ("--token", "OWN_S3CR3T", "--lr", "0.1")
    request = CaptureRequest(str(script), "", as_script=True, arguments=arguments)
    capture = Capture(request, output=tmp_path / "s.fxs")
    await capture.start()
    outcome = await capture.wait()
    assert outcome.kind == "finished", outcome.message
    assert stat.S_IMODE((tmp_path / "s.fxs").stat().st_mode) == 0o600
    with SessionReader(tmp_path / "s.fxs") as reader:
        texts = "\n".join(every_text(tmp_path / "s.fxs", reader))
        assert "OWN_S3CR3T" not in texts
        assert texts.count("CHILD_S3CR3T") == PROGRAM.count("CHILD_S3CR3T"), "in the source alone"
        children = list(reader.rows(model.ChildProcess))
        assert [LEFT_OUT in child.command for child in children] == [True, True]
        assert sum(bool(child.unseen) for child in children) == 1
        told = [fact.text for fact in overview(reader) if "secret" in fact.text]
        assert told == [
            "Left out of this session, because it looks like a secret: the value of --token."
        ]
        kept = reader.request()
    assert kept is not None
    assert kept.arguments == ("--token", LEFT_OUT, "--lr", "0.1")
    assert whole_request(kept).arguments == arguments, "whoever captured it can run it again"
    with pytest.raises(UsageError, match="leaves out arguments that look like secrets"):
        whole_request(CaptureRequest(kept.target, "another.fxs", arguments=kept.arguments))


def every_text(session: Path, reader: SessionReader) -> list[str]:
    """Every column of every row, and every text inflated."""
    texts = []
    with sqlite3.connect(session) as file:
        tables = [
            name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for table in tables:
            for row in file.execute(f'SELECT * FROM "{table}"'):
                texts += [value for value in row if isinstance(value, str)]
        texts += [reader.text(number) for (number,) in file.execute("SELECT id FROM text")]
    file.close()
    return texts


KEY = "hf_" + "a1B2" * 6


def test_keys_are_left_out_of_what_the_program_prints_and_checks(tmp_path: Path) -> None:
    path = tmp_path / "keys.fxs"
    with SessionWriter(path) as writer:
        writer.add(model.ConsoleLine(0, "stdout", f"logged in with {KEY}"))
        writer.add(model.Failure(0, 0, "program", None, "ValueError", f"bad token {KEY}"))
        writer.text(f"TOKEN = '{KEY}'")
        writer.add(model.ConsoleLine(0, "stdout", "hf_transfer is on"))
    assert KEY.encode() not in path.read_bytes()
    with SessionReader(path) as reader:
        lines = [row.text for row in reader.rows(model.ConsoleLine)]
        assert lines == ["logged in with <left-out>", "hf_transfer is on"]
        assert reader.text(1) == "TOKEN = '<left-out>'"
