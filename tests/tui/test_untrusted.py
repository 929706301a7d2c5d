"""These tests check that text from outside is shown, never sent to the terminal, and that broken
sessions are explained.
"""

from __future__ import annotations

from pathlib import Path

from fx_explorer import model
from fx_explorer.session import SessionWriter
from tests.tui.conftest import OpenApp

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m‮"


def write_hostile(path: Path) -> None:
    """Escape sequences wherever a string of the user's can stand."""
    with SessionWriter(path) as writer:
        writer.set_meta("target", {"name": f"{EVIL}.py", "train": True})
        writer.set_meta("environment", {"torch": f"2.13{EVIL}", "device": "cpu"})
        writer.set_meta("outcome", model.Outcome("raised", f"ValueError: {EVIL}", 3).to_json())
        file = writer.add(model.SourceFile(0, f"/p/{EVIL}.py", writer.text(f"x = '{EVIL}'\n"), 1))
        compilation = writer.add(
            model.Compilation(
                0, "0/0", 0, 0, f"f{EVIL}", f"/p/{EVIL}.py", 1, status="failed", error=EVIL
            )
        )
        node = model.Node(
            0,
            0,
            0,
            f"mul{EVIL}",
            "call_function",
            f"aten{EVIL}",
            EVIL,
            ("2",),
            "f32",
            module=EVIL,
            file=file,
            line=1,
        )
        writer.add_graph(model.Graph(0, compilation, "dynamo", "", call_count=1), [node], [])
        writer.add(
            model.GraphBreak(
                0, compilation, "GB0001", EVIL, EVIL, (EVIL,), f"/p/{EVIL}.py", 1, EVIL
            )
        )
        writer.add(model.Guard(0, compilation, 0, EVIL, EVIL, EVIL, EVIL))
        writer.add(model.ConsoleLine(0, "stdout", EVIL))
        writer.add(model.Failure(0, compilation, "program", None, EVIL, EVIL, writer.text(EVIL)))
        writer.add(model.Kernel(0, compilation, "forward", 0, EVIL, "extern"))


async def test_escape_sequences_are_shown_and_not_sent_in_any_view(
    open_app: OpenApp, tmp_path: Path
) -> None:
    write_hostile(tmp_path / "evil.fxs")
    async with open_app(tmp_path / "evil.fxs", size=(200, 50)) as driver:
        for keys in (
            [],
            ["2"],
            ["i"],
            ["escape", "f", "m"],
            ["escape", "d"],
            ["escape"],
            *(["3456789"[i]] for i in range(7)),
        ):
            await driver.press(*keys)
            for character in ("\x1b", "\x07", "\x9b", "\u202e"):
                assert character not in driver.screen, f"{character!r} is sent after {keys}"
        assert "␛" in driver.screen or "␛" in driver.header


async def test_a_session_that_breaks_while_it_is_shown_is_explained(
    open_app: OpenApp, tmp_path: Path
) -> None:
    path = tmp_path / "s.fxs"
    write_hostile(path)
    async with open_app(path) as driver:
        driver.explorer.reader._db.execute("PRAGMA query_only=OFF")
        driver.explorer.reader._query = _broken
        await driver.press("3")
        assert any("cannot read" in note.message for note in driver.app._notifications)


def _broken(*_: object) -> list[object]:
    from fx_explorer.errors import NotASessionError

    raise NotASessionError("cannot read s.fxs: database disk image is malformed")
