"""These tests check that texts that are alike are stored as differences, and are read back
unchanged, whatever happened between.
"""

import contextlib
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from fx_explorer.errors import NotASessionError
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session import elsewhere as packing
from fx_explorer.session.elsewhere import LARGEST_ALIKE, MOST_BASES, SHORT

SOURCE = Path(packing.__file__).read_text()


def code(number: int) -> str:
    return SOURCE.replace("Packed", f"__compiled_fn_{number}")


def bytes_of(path: Path, *, base: bool) -> int:
    with closing(sqlite3.connect(path)) as db:
        condition = "base" if base else "NOT base"
        return int(
            db.execute(
                f"SELECT coalesce(sum(length(body)), 0) FROM text WHERE {condition}"
            ).fetchone()[0]
        )


def test_versions_of_one_text_take_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        ids = [writer.text(code(number), like="output_code") for number in range(50)]
    with SessionReader(path) as reader:
        assert [reader.text(i) for i in ids] == [code(number) for number in range(50)]
        assert reader.query("SELECT count(*) FROM text WHERE base") == [(49,)]
    assert bytes_of(path, base=True) / 49 < bytes_of(path, base=False) / 10


@pytest.mark.parametrize(
    "other",
    [
        "x" * 3000,
        "\n".join(map(str, range(900))),
        "1" * (LARGEST_ALIKE + 1),
        "\ud800 not UTF-8",
        "",
    ],
)
def test_a_text_that_is_not_like_the_others_of_its_kind_is_packed_alone(
    tmp_path: Path, other: str
) -> None:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        ids = [writer.text(text, like="ir") for text in (code(1), other, code(2), other + "!")]
    with SessionReader(path) as reader:
        assert [reader.text(i) for i in ids] == [code(1), other, code(2), other + "!"]
        assert reader.query("SELECT count(*) FROM text WHERE id=? AND base", (ids[1],)) == [(0,)]


@pytest.mark.parametrize("size", [1, 200, SHORT, SHORT + 1])
def test_short_texts_take_no_more_than_in_a_large_window(tmp_path: Path, size: int) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        text = writer.text(SOURCE[:size])
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert reader.text(text) == SOURCE[:size]
        taken = reader.query("SELECT length(body) FROM text WHERE id=?", (text,))[0][0]
        assert taken <= 1.01 * len(zlib.compress(SOURCE[:size].encode(), packing.LEVEL))


def test_what_was_rolled_back_is_no_base(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        with contextlib.suppress(RuntimeError), writer.transaction():
            writer.text(code(1), like="ir")
            raise RuntimeError
        kept = writer.text(code(2), like="ir")
    with SessionReader(path) as reader:
        assert reader.text(kept) == code(2)


def test_of_many_kinds_the_latest_have_a_base(tmp_path: Path) -> None:
    """What the user's process holds of them is bounded."""
    with SessionWriter(tmp_path / "s.fxs") as writer:
        for number in range(3 * MOST_BASES):
            writer.text(code(number), like=f"kind {number}")
        assert len(writer._alike._bases) == MOST_BASES


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE text SET base=id WHERE id=2",
        "UPDATE text SET base=3 WHERE id=2",
        "UPDATE text SET base=77 WHERE id=2",
        "UPDATE text SET base='x' WHERE id=2",
        "UPDATE text SET base=0 WHERE id=2",
        "UPDATE text SET base=x'00' WHERE id=2",
        "DELETE FROM text WHERE id=1",
        "UPDATE text SET body=x'00' WHERE id=1",
    ],
)
def test_a_base_that_cannot_be_one_is_told(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        for number in (1, 2, 3):
            writer.text(code(number), like="ir")
    with closing(sqlite3.connect(path)) as db:
        db.execute(damage)
        db.commit()
    with SessionReader(path) as reader, pytest.raises(NotASessionError, match="damaged"):
        reader.text(2)
