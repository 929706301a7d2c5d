"""These tests check ``fx_explorer.publish`` when nothing is recording, and the example of its page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import fx_explorer
from fx_explorer import publishing

DOCS = Path(__file__).parents[1] / "docs"


def never() -> str:
    raise AssertionError("called although nobody looks")


def test_nothing_is_called_while_nobody_looks() -> None:
    assert not fx_explorer.is_looked_at()
    fx_explorer.publish("program", never, links=never)  # type: ignore[arg-type]
    fx_explorer.publish_run("entry", (never() for _ in range(1)))  # type: ignore[misc]


def test_publishing_loads_neither_torch_nor_textual() -> None:
    loaded = "print({'torch', 'textual', 'rich'} & sys.modules.keys())"
    code = f"import sys; from fx_explorer import publish; publish('a', 'b'); {loaded}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "set()"


class Heard:
    def __init__(self) -> None:
        self.names: list[object] = []

    def stage(self, name: object, *_: object) -> None:
        self.names.append(name)

    def run(self, entry: object, *_: object) -> None:
        self.names.append(entry)


def test_a_listener_hears_what_is_published_inside_its_block() -> None:
    heard = Heard()
    with publishing.with_listener(heard):
        assert fx_explorer.is_looked_at()
        fx_explorer.publish("program", "text")
        fx_explorer.publish_run("entry", [])
    fx_explorer.publish("later", "text")
    assert heard.names == ["program", "entry"]


def test_every_argument_has_a_row_in_the_page() -> None:
    page = (DOCS / "extend" / "publish.md").read_text()
    named = publishing.publish.__code__.co_varnames[: publishing.publish.__code__.co_argcount + 3]
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) >= set(named)
