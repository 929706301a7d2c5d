"""These tests run programs whose names and messages are huge or misbehave: neither the recording
nor its client may stop.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from fx_explorer.client import Capture
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.bounds import MAX_FIELD, MAX_TRACEBACK, bounded, shortened
from fx_explorer.session.schema import TABLES, columns
from tests.exhaustive import in_exhaustive_runs
from tests.worker.capturing import capture

pytestmark = pytest.mark.usefixtures("warm_workers")

HUGE = """
import sys, warnings, torch
from torch import nn

LONG = 1 << 20

def tried(function, *inputs):
    try:
        torch.compile(function, backend="eager")(*inputs)
    except BaseException as error:
        print("caught", type(error).__name__[:20])

def raising(x):
    y = x.sin()
    raise ValueError("z" * (2 * LONG))

def breaking(x):
    y = x.sin()
    torch._dynamo.graph_break("b" * LONG)
    return y + 1

def warning(x):
    y = x.sin()
    warnings.warn("w" * LONG)
    return y + 1

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        setattr(self, "a" * LONG, nn.Parameter(torch.ones(3)))
    def forward(self, x):
        return getattr(self, "a" * LONG) + x

Named = type("N" * LONG, (nn.Module,), {"forward": lambda self, x: x.cos()})

class Odd(Exception):
    def __str__(self): return 7
class Raising(Exception):
    def __str__(self): raise SystemExit("from __str__")
class Controls(Exception):
    def __str__(self): return "\\x00 \\x1b[31m \\ud800 end"

def cyclic(x):
    one, other = KeyError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one
    raise one

def odd(x): raise Odd
def failing(x): raise Raising
def control(x): raise Controls

for function in (raising, breaking, warning, cyclic, odd, failing, control):
    tried(function, torch.ones(3))
tried(Net(), torch.ones(3))
tried(Named(), torch.ones(3))
print("through", flush=True)
raise type("E" * LONG, (ValueError,), {})("begin" + "z" * (3 * LONG) + "the end")
"""


async def test_names_and_messages_of_megabytes_are_recorded_in_part_and_stop_nothing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "huge.py"
    file.write_text(HUGE)
    ended = await capture(file, as_script=True, build=True, output=tmp_path / "s.fxs")
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("raised", 1)
    assert ended.printed()[-1] == "through"
    assert len(ended.outcome.message) < 4_500
    assert "characters are left out here" in ended.outcome.message
    assert [failure for failure in ended.failures if failure.where == "recorder"] == []
    assert len(ended.failures[-1].message) < 4_500
    assert max(map(len, ended.failure_texts)) <= MAX_TRACEBACK + 100
    assert "the end" in ended.failure_texts[-1][-100:], "both ends of what was cut are kept"
    with sqlite3.connect(tmp_path / "s.fxs") as db:
        for row_type, table in TABLES.items():
            for column in columns(row_type):
                (longest,) = db.execute(
                    f'SELECT max(length("{column.name}")) FROM {table}'
                ).fetchone()
                assert (longest or 0) <= 3 * MAX_FIELD, (
                    f"{table}.{column.name} holds {longest} characters"
                )
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert len(json.dumps(reader.all_meta())) < 10 * MAX_FIELD


@in_exhaustive_runs
async def test_an_exception_of_which_nothing_can_be_shown_is_the_programs_all_the_same(
    tmp_path: Path,
) -> None:
    file = tmp_path / "script.py"
    file.write_text("""
class Nameless(type):
    @property
    def __name__(cls): raise RuntimeError("no name")
class Odd(Exception, metaclass=Nameless):
    def __repr__(self): raise SystemExit(3)
    def __str__(self): raise KeyboardInterrupt
error = ValueError("first")
for i in range(20_000):
    following = ValueError(str(i))
    following.__cause__ = error
    error = following
raise Odd from error
""")
    ended = await capture(file, as_script=True)
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("raised", 1)
    assert ended.outcome.message.startswith("Odd: (its message cannot be shown")
    assert [failure.where for failure in ended.failures] == ["program"]


@pytest.mark.parametrize(
    "line",
    [b"x" * (3 << 20), b"[" * 100_000, b"null", b'{"kind": 3}', b"\xff\xfe", b'{"kind":"gate"'],
    ids=["long", "deep", "null", "kind", "bytes", "cut"],
)
async def test_whatever_comes_on_the_notice_pipe_it_is_drained_and_the_capture_ends(
    tmp_path: Path, line: bytes
) -> None:
    """A program can write there: the pipe is a descriptor of its process."""
    file = tmp_path / "script.py"
    file.write_text(f"""
import gc, os, stat
from fx_explorer.worker.progress import Channel
(channel,) = [one for one in gc.get_objects() if type(one) is Channel]
text = {line!r} + b"\\n"
while text:
    text = text[os.write(channel._notices.number, text):]
print("written")
""")
    ended = await capture(file, as_script=True)
    assert ended.outcome.kind == "finished"
    assert ended.printed() == ["written"]
    assert [row.text for row in ended.console if "could not be read" in row.text] != []


async def test_a_fault_of_ours_while_we_listen_ends_the_capture_and_keeps_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Capture, reader: asyncio.StreamReader) -> None:
        raise ZeroDivisionError("ours")

    file = tmp_path / "script.py"
    file.write_text("print('hello')\n")
    monkeypatch.setattr(Capture, "_read_notices", fail)
    capture = Capture(CaptureRequest(str(file), "", as_script=True), output=tmp_path / "s.fxs")
    await capture.start()
    assert [notice.kind async for notice in capture.notices()] == ["outcome"]
    outcome = await capture.wait()
    assert (outcome.kind, outcome.exit_code) == ("incomplete", 4)
    assert "ZeroDivisionError: ours" in outcome.message
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.meta("outcome")["kind"] == "incomplete"
    assert await capture.cancel() == outcome, "and it can be left"


def test_what_is_cut_keeps_both_ends_and_says_how_much_is_missing(tmp_path: Path) -> None:
    assert shortened("abc", 3) == "abc"
    text = "a" * 50 + "x" * 1000 + "b" * 50
    cut = shortened(text, 90)
    assert cut.startswith("a" * 50)
    assert cut.endswith("b" * 30)
    assert "(1,010 characters are left out here)" in cut
    deep = {"k" * (2 * MAX_FIELD): [("v" * (2 * MAX_FIELD),), 7, None]}
    (key, ((value,), seven, none)), *_ = bounded(deep).items()  # type: ignore[attr-defined]
    assert (len(key) < MAX_FIELD + 100, len(value) < MAX_FIELD + 100, seven, none) == (
        True,
        True,
        7,
        None,
    )
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("request", {"overlay": {"model.py": "x" * (2 * MAX_FIELD)}})
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert len(reader.meta("request")["overlay"]["model.py"]) == 2 * MAX_FIELD, (
            "a capture is repeated from it"
        )
