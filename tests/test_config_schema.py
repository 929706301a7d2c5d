"""These tests check the JSON Schema of the configuration file: it accepts what the app accepts, and
has every setting and command.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fx_explorer.command_line.check_table import read_table
from fx_explorer.commands import keys
from fx_explorer.outside_file import read_toml
from fx_explorer.tui.commands import COMMANDS
from fx_explorer.tui.config import SETTINGS, parse_config
from tests.conftest import ROOT

FILE = ROOT / "docs" / "reference" / "config-schema.json"
CHECK_FILE = FILE.with_name("check-schema.json")
CHECK_PAGE = ROOT / "docs" / "share" / "check.md"
PAGE = ROOT / "docs" / "reference" / "config.md"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text())
    jsonschema.Draft202012Validator.check_schema(content)
    return content


def test_it_is_up_to_date(tmp_path: Path) -> None:
    written, of_check = tmp_path / "schema.json", tmp_path / "check.json"
    subprocess.run(
        [sys.executable, "docs/write_config_schema.py", str(written), str(of_check)],
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    assert FILE.read_text() == written.read_text(), "run: python docs/write_config_schema.py"
    assert CHECK_FILE.read_text() == of_check.read_text(), "run: python docs/write_config_schema.py"


def test_the_table_of_a_check_that_the_page_shows_is_accepted(tmp_path: Path) -> None:
    (shown,) = re.findall(
        r"```toml\n(\[tool\.fx-explorer\.check\].*?)```", CHECK_PAGE.read_text(), re.DOTALL
    )
    file = tmp_path / "pyproject.toml"
    file.write_text(shown)
    entries = read_table(file)
    assert len(entries) > 1
    validator = jsonschema.Draft202012Validator(json.loads(CHECK_FILE.read_text()))
    table = read_toml(file)["tool"]["fx-explorer"]["check"]
    assert list(validator.iter_errors(table)) == []
    assert not validator.is_valid({"net": {"target": "m.py", "max-kernel": 1}})
    assert not validator.is_valid({"net": {"max-kernels": 1}})


def test_every_setting_and_command_is_in_it(schema: dict[str, Any]) -> None:
    assert set(schema["properties"]) == set(SETTINGS)
    known = schema["properties"]["keys"]["properties"]
    assert set(known) == {command.id for command in COMMANDS}
    assert all(entry["description"] for entry in known.values())


def documented() -> list[str]:
    """Return the files that the page and ``keys --help`` show."""
    shown = re.findall(r"```toml\n(theme.*?)```", PAGE.read_text(), re.DOTALL)
    indented = re.findall(r"^    .*$|^$", keys.EPILOG.split("nothing):")[-1], re.MULTILINE)
    return [*shown, "\n".join(line.strip() for line in indented)]


ACCEPTED = [
    "",
    'theme = "auto"',
    "mark_kernels = true\n[keys]",
    '[keys]\n"pane.zoom" = ["z z", "Z"]',
    "[history]\nkeep = false\nsessions = 3\nmegabytes = 10",
    *documented(),
]
REFUSED = [
    'theme = "blue"',
    "theme = 0",
    'theme = ""',
    'theme = ["dark"]',
    "after_fix = true",
    'mark_kernels = "no"',
    "mark_kernels = 0",
    "keys = 3",
    'colour = "red"',
    "history = false",
    "[history]\nkeep = 1",
    "[history]\nsessions = 0",
    "[history]\nmegabytes = 1.5",
    "[history]\nmegabytes = true",
    "[history]\ndays = 3",
    '[keys]\n"pane.zoom" = ""',
    '[keys]\n"pane.zoom" = []',
    '[keys]\n"pane.zoom" = [1]',
    '[keys]\n"pane.zooom" = "Z"',
]


@pytest.mark.parametrize("text", [*ACCEPTED, *REFUSED])
def test_it_accepts_what_the_app_accepts(text: str, schema: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    entries = read_toml(file)
    problems = parse_config(entries, "config.toml").problems
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(entries))
    assert bool(problems) == bool(errors) == (text in REFUSED), (problems, errors)


def test_the_documented_files_have_every_setting(tmp_path: Path) -> None:
    page, help_text = documented()
    assert all(name in page for name in SETTINGS)
    assert "[keys]" in help_text
