"""These tests check files that are not plain sessions: which are refused when opened, and which
values are allowed.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.errors import NotASessionError
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.opening import check_meta
from tests.conftest import ROOT
from tests.session.fuzzing import ESCAPE, RECURSIVE, SCHEMAS
from tests.sessions import write_training_step

REFUSED = [sql for sql in SCHEMAS if not sql.startswith(("ALTER", "CREATE TABLE other"))]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_training_step(tmp_path_factory.mktemp("good") / "s.fxs").path


def damaged(good: Path, folder: Path, *statements: str) -> Path:
    path = Path(shutil.copy(good, folder / "s.fxs"))
    with sqlite3.connect(path) as db:
        for sql in statements:
            db.execute(sql)
    db.close()
    return path


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_plain_table_is_refused(sql: str, good: Path, tmp_path: Path) -> None:
    try:
        path = damaged(good, tmp_path, sql)
    except sqlite3.OperationalError as error:
        pytest.skip(f"this SQLite cannot make it: {error}")
    with pytest.raises(NotASessionError, match="a session has only plain tables"):
        SessionReader(path)


def test_a_view_without_an_end_is_not_read(good: Path, tmp_path: Path) -> None:
    path = damaged(good, tmp_path, "DROP TABLE metric", f"CREATE VIEW metric AS {RECURSIVE} FROM r")
    with pytest.raises(NotASessionError, match="view metric"):
        SessionReader(path)


def test_a_file_whose_tables_are_no_text_is_refused(good: Path, tmp_path: Path) -> None:
    """SQLite quotes them in its message, which Python cannot decode."""
    sql = "UPDATE sqlite_master SET sql=CAST(x'435245415445ff' AS TEXT) WHERE name='node'"
    path = damaged(good, tmp_path, "PRAGMA writable_schema=ON", sql)
    with pytest.raises(NotASessionError, match="not an fx-explorer session"):
        SessionReader(path)


VALUES = {
    "UPDATE compilation SET line='x'": "compilation: line is 'x', not a whole number",
    "UPDATE compilation SET line=9223372036854775807": "compilation: line cannot be 9223372036854775807",
    "UPDATE compilation SET status='none'": "compilation: status cannot be 'none'",
    "UPDATE compilation SET duration_s=9e999": "compilation: duration_s is inf, not a number",
    "UPDATE compilation SET in_use=7": "compilation: in_use is 7, not 0 or 1",
    "UPDATE compilation SET restart_reasons='[1]'": r"restart_reasons is \[1\], not a list of texts",
    "UPDATE compilation SET restart_reasons='{'": "restart_reasons is not JSON",
    "UPDATE compilation SET name=x'00'": "name is b.*x00.*, not text",
    "UPDATE compilation SET name=NULL": "name is None, not text",
}


@pytest.mark.parametrize("sql", VALUES)
def test_a_value_that_cannot_be_is_named(sql: str, good: Path, tmp_path: Path) -> None:
    with SessionReader(damaged(good, tmp_path, sql)) as reader:
        for _ in range(2):
            with pytest.raises(NotASessionError, match=VALUES[sql]):
                reader.rows(model.Compilation)


def test_deep_json_and_a_wrong_ending_are_the_one_error(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in (
        "[" * 100_000,
        '{"a":' * 70 + "1" + "}" * 70,
        '{"kind": "finished", "more": 1}',
        f'"{ESCAPE}"',
        "[1]",
    ):
        path = Path(shutil.copy(good, tmp_path / "s.fxs"))
        with sqlite3.connect(path) as db:
            db.execute("UPDATE meta SET value=? WHERE key='outcome'", (value,))
        db.close()
        for words in (["report"], ["check", "--max-graph-breaks", "0"]):
            assert main([words[0], str(path), *words[1:]]) == 5
            said = capsys.readouterr()
            assert said.out == ""
            assert said.err.startswith("fx-explorer: ")
            assert said.err.count("\n") == 1
            assert "\x1b" not in said.err


MEMORY = """
import re, sys
from pathlib import Path
from fx_explorer.cli import main
code = main(["report", sys.argv[1]])
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
assert peak < 600_000, peak
sys.exit(code)
"""
"""Linux gives a new process the ``ru_maxrss`` of the process that began it, here pytest's own peak.
VmHWM is its own.
"""


def test_a_text_that_inflates_without_end_takes_no_memory(good: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(good, tmp_path / "s.fxs"))
    packer = zlib.compressobj(9)
    first, another = (
        packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    bomb = first + 2999 * another + packer.flush()  # 3 GB, which nothing has to compress
    with sqlite3.connect(path) as db:
        db.execute("UPDATE text SET body=?", (bomb,))
    db.close()
    with (
        SessionReader(path) as reader,
        pytest.raises(NotASessionError, match="inflate to more than"),
    ):
        reader.text(1)
    if not Path("/proc/self/status").exists():
        return
    ended = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=False
    )
    assert ended.returncode in (0, 5), ended.stderr


def test_a_snapshot_of_what_cannot_be_read_tells_the_reason(good: Path, tmp_path: Path) -> None:
    """The end of a transaction that SQLite has ended by itself is no error of its own."""
    path = Path(shutil.copy(good, tmp_path / "s.fxs"))
    with SessionReader(path) as reader:
        with pytest.raises(NotASessionError, match=r"cannot read .*nothing"):
            _ask_for_nothing(reader)
        assert reader.count(model.Compilation) == 1


def test_a_snapshot_inside_another_does_not_end_it(good: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(good, tmp_path / "s.fxs"))
    with SessionReader(path) as reader:
        with reader.snapshot():
            with reader.snapshot():
                assert reader.count(model.Compilation) == 1
            assert reader._db.in_transaction
        assert not reader._db.in_transaction


def _ask_for_nothing(reader: SessionReader) -> None:
    with reader.snapshot():
        reader._db.rollback()
        reader.query("SELECT * FROM nothing")


def test_every_entry_of_meta_that_is_read_by_name_is_checked() -> None:
    sources = [file.read_text() for file in (ROOT / "fx_explorer").rglob("*.py")]
    keys = {key for source in sources for key in re.findall(r"\.meta\(\"(\w+)\"", source)}
    assert len(keys) > 10
    unchecked = {key for key in keys if not _is_refused(key)}
    assert unchecked == {"schema_version"}, "which SessionReader checks when it opens"


def _is_refused(key: str) -> bool:
    """Return whether a value that belongs nowhere is refused."""
    try:
        check_meta(key, -1.5e300)
    except ValueError:
        return True
    return False
