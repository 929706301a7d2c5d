"""These tests check that help begins with examples that work, and that tables fit the terminal of a
person who reads.
"""

from __future__ import annotations

import argparse
import importlib
import io
import re
import shlex

import pytest
from rich.cells import cell_len

from fx_explorer import cli
from fx_explorer.command_line.help_text import HelpParser, emphasised, reflowed, split_examples
from fx_explorer.commands.keys import as_text
from fx_explorer.tui.commands import COMMANDS


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def help_of(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_the_help_of_a_command_says_what_it_does_then_examples_then_usage(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(name, capsys)
    places = [
        text.index(part)
        for part in (cli.COMMANDS[name][1:20], "examples:\n", "usage: fx-explorer", "--help")
    ]
    assert places == sorted(places)
    usage = re.search(r"^usage: .*(?:\n .*)*", text, re.MULTILINE)
    assert usage is not None
    assert usage[0].count("\n") == 0


@pytest.mark.parametrize("name", ["", *cli.COMMANDS])
def test_the_help_fits_a_terminal_of_80_columns_and_loses_no_word(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = HelpParser(
        "fx-explorer",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="One two three.",
    )
    if name:
        importlib.import_module(cli.module_of(name)).add_arguments(parser)
    else:
        parser = cli._top_parser()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    parser.print_help(out := Terminal())
    assert max(map(cell_len, out.getvalue().splitlines())) <= 80
    assert out.getvalue().split() == parser.format_help().split()


def test_paragraphs_are_joined_only_where_the_line_was_full() -> None:
    full = "word " * 25 + "word"
    assert reflowed(f"{full}\ngoes on.\nexit codes: 0\n\n{full}\n  indented") == (
        f"{full} goes on.\nexit codes: 0\n\n{full}\n  indented"
    )


def examples() -> list[tuple[str, str]]:
    """Return the command and words of every example in a help, without the explanations."""
    found = []
    for name in cli.COMMANDS:
        epilog = importlib.import_module(cli.module_of(name)).EPILOG
        for line in split_examples(epilog)[0].splitlines()[1:]:
            words = re.split(r" {2,}| \| ", line.strip())[0]
            found.append((name, words))
    return found


@pytest.mark.parametrize(("name", "line"), examples(), ids=lambda value: value[:60])
def test_every_example_is_a_command_line_that_can_be_read(name: str, line: str) -> None:
    words = shlex.split(line.replace("torchrun -m fx_explorer", "fx-explorer"))
    assert words[0] == "fx-explorer"
    command = words[1] if words[1] in cli.COMMANDS else "explore"
    own = words[2:] if words[1] in cli.COMMANDS else words[1:]
    parser = HelpParser("fx-explorer", exit_on_error=False)
    importlib.import_module(cli.module_of(command)).add_arguments(parser)
    parser.parse_args(own[: own.index("--")] if "--" in own else own)


def test_every_command_is_listed_under_what_it_is_for() -> None:
    assert sorted(name for names in cli.GROUPS.values() for name in names) == sorted(cli.COMMANDS)


def test_headings_are_bold_on_a_terminal_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    parser = HelpParser(
        "x",
        epilog="examples:\n  x 1    first\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for out, bold in ((Terminal(), True), (io.StringIO(), False)):
        parser.print_help(out)
        assert ("\x1b[1mexamples:\x1b[0m" in out.getvalue()) is bold
        assert ("\x1b[1musage:\x1b[0m" in out.getvalue()) is bold
    monkeypatch.setenv("NO_COLOR", "1")
    parser.print_help(out := Terminal())
    assert "\x1b" not in out.getvalue()


def test_only_headings_are_emphasised() -> None:
    assert emphasised("a sentence.\n  indented:\n") == "a sentence.\n  indented:\n"


def test_the_table_of_keys_fits_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fx_explorer.commands.keys.width_for", lambda out: 80)
    text = as_text(COMMANDS, {})
    assert max(map(len, text.splitlines())) <= 80
    assert all(command.id in text for command in COMMANDS)
