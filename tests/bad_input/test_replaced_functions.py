"""These tests run programs that replace or break Python's own functions: they are recorded all the
same where possible, and otherwise the reason is shown. Each of these programs ends with 0 without
us.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.worker.capturing import capture

pytestmark = pytest.mark.usefixtures("warm_workers")

PROGRAM = """
import torch
def no(*_, **__): raise RuntimeError("replaced")
{before}
@torch.compile(backend="eager")
def f(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y + 1
f(torch.ones(3))
{after}
"""

HARMLESS = {
    "meanwhile": """
import gc, logging, os, signal, sqlite3, sys, tempfile, threading
gone = tempfile.mkdtemp(); os.chdir(gone); os.rmdir(gone)
os.getcwd = no; os.getpid = lambda: 1; os.fork = None; os._exit = no
sqlite3.connect = no; signal.signal = None; threading.excepthook = no
sys.stdout = None; sys.excepthook = None; sys.modules["__main__"] = 7
logging.disable(logging.CRITICAL); gc.disable(); os.environ.clear()
for name in ("json", "traceback", "linecache", "contextlib", "pathlib", "sqlite3"): sys.modules.pop(name)
""",
}

AT_THE_END = {
    "builtins": "import builtins\nfor name in ('open', 'print', 'isinstance', 'getattr'): setattr(builtins, name, no)\n",
    "more builtins": "import builtins\nbuiltins.len = no; builtins.dict = list; builtins.str = None; Exception = KeyError\n",
    "modules": "import json, os, time, traceback, zlib, sys\njson.dumps = os.path.exists = os.write = time.time = no\n"
    "traceback.format_exception = zlib.compress = no\nsys.meta_path.clear(); sys.setrecursionlimit(60)\n",
}


@pytest.mark.parametrize("when", [*HARMLESS, *AT_THE_END])
async def test_what_needs_nothing_of_it_is_recorded_in_full(when: str, tmp_path: Path) -> None:
    target = tmp_path / "target.py"
    target.write_text(PROGRAM.format(before=HARMLESS.get(when, ""), after=AT_THE_END.get(when, "")))
    ended = await capture(target, as_script=True)
    assert (ended.outcome.kind, ended.outcome.message) == ("finished", "")
    assert ended.compilations == 2
    assert ended.failures == []


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("json.loads", "import json\njson.loads = no"),
        ("zlib.compress", "import zlib\nzlib.compress = no"),
    ],
)
async def test_what_cannot_be_recorded_is_told_with_the_name_that_was_replaced(
    name: str, before: str, tmp_path: Path
) -> None:
    target = tmp_path / "target.py"
    target.write_text(PROGRAM.format(before=before, after=""))
    ended = await capture(target, as_script=True)
    assert ended.outcome.kind == "finished"
    told = [failure.message for failure in ended.failures]
    assert told
    assert [
        one
        for one in told
        if f"The program has replaced or removed {name}, which fx-explorer also needs" not in one
    ] == []


async def test_a_source_nested_too_deep_is_the_programs_own_error(tmp_path: Path) -> None:
    target = tmp_path / "target.py"
    target.write_text("x = 1" + "+1" * 100_000 + "\n")
    ended = await capture(target)
    assert ended.outcome.kind == "raised"
    assert ended.outcome.message.startswith(("RecursionError", "MemoryError", "SyntaxError"))
    assert not any("fx_explorer" in text for text in ended.failure_texts)


async def test_an_ascii_locale_and_strict_warnings_keep_nothing_from_being_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONWARNINGS": "error",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    target = tmp_path / "target.py"
    target.write_text(PROGRAM.format(before="", after="print('größe')"), encoding="utf-8")
    real = Path(sys.prefix) / "bin" / "python3"  # the locale is chosen when Python starts
    ended = await capture(target, as_script=True, python=str(real))
    assert ended.compilations == 2
    assert ended.outcome.kind == "raised", "print cannot encode this, without us neither"
    assert "UnicodeEncodeError" in ended.outcome.message
    assert any("PYTHONUTF8=1" in notice.text for notice in ended.notices)
    assert [failure.where for failure in ended.failures] == ["program"]
