"""These tests install plug-ins that fail in every way: each is told once, by its name and with what
to do, and no command or app ends.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer import plugin_loading
from fx_explorer.analysis.graph_texts import forms_of, graph_text
from fx_explorer.command_line.given_files import open_session
from fx_explorer.commands.doctor import plugin_checks
from fx_explorer.errors import UsageError
from fx_explorer.findings.every_kind import findings
from fx_explorer.gpus import find_gpu, known_gpus
from fx_explorer.overview.every_plugin import load_all_plugins
from fx_explorer.report.sections import section_of
from fx_explorer.session import SessionReader
from fx_explorer.tui.config import load_config
from tests.plugins.conftest import ROOT, UsePlugins, write_package
from tests.sessions import Hand
from tests.tui.conftest import OpenApp

HEAD = """
from pathlib import Path
from fx_explorer.plugins import *
def view(table, **given):
    return View(**{"interface": 1, "title": "t", "shows": "s.", "table": table, **given})
def table(**given):
    return Table(**{"columns": [Column(title="a")], "rows": [], "answer": "", "empty": "e", **given})
def problem(find, **given):
    return ProblemKind(**{"interface": 1, "looked_for": "x", "find": find, **given})
def pane(write):
    return GraphPane(interface=1, title="as X", write=write)
def fail(*_):
    raise RuntimeError("it is out of order")
def leave(*_):
    raise SystemExit(7)
"""

AT_LOADING = {
    "an import that raises": ("views", "import nothing_like_this", "No module named"),
    "an import that exits": ("sections", "raise SystemExit(3)", "SystemExit: 3"),
    "an object of another kind": ("views", "BAD = 7", ("is int, but must be "
                                                      "fx_explorer.plugins.View")),
    "an older interface": ("views", "BAD = view(fail, interface=0)", "it needs version 0 of the plug-in interface"),
    "a newer interface": ("problems", "BAD = problem(fail, interface=2)", "this fx-explorer has version 1"),
    "no title": ("views", "BAD = view(fail, title=None)", "title cannot be None"),
    "no function": ("problems", "BAD = problem('find')", "find cannot be 'find'"),
    "an unknown need": ("problems", "BAD = problem(fail, needs='luck')", "needs cannot be 'luck'"),
    "a file that is not there": ("gpus", "BAD = GpuFile(interface=1, file=Path('/no/gpu.toml'))", "there is no GPU file"),
    "an object that is not there": ("panes", "GOOD = 1", "has no attribute 'BAD'"),
    "code that is no Python": ("readers", "BAD = (", "SyntaxError"),
}  # fmt: skip
"""What is wrong → group, code, and what the message says."""


def broken(folder: Path, group: str, code: str) -> Path:
    return write_package(folder, "some-broken", f"{HEAD}\n{code}\n", {group: "BAD"})


@pytest.fixture
def told() -> list[plugin_loading.PluginFault]:
    return []


@pytest.fixture(autouse=True)
def collect(told: list[plugin_loading.PluginFault], monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    with plugin_loading.telling_faults(told.append):
        yield
    sys.modules.pop("some_broken", None)


@pytest.mark.parametrize("wrong", AT_LOADING)
def test_what_cannot_be_loaded_is_told_once_with_its_name(
    tmp_path: Path, use_plugins: UsePlugins, told: list[plugin_loading.PluginFault], wrong: str
) -> None:
    group, code, message = AT_LOADING[wrong]
    use_plugins(broken(tmp_path, group, code))
    load_all_plugins()
    load_all_plugins()
    (fault,) = told
    assert message in fault.reason
    assert fault.sentence.startswith(f"the {plugin_loading.NOUNS[group]} bad (some-broken 1.0) is ")  # type: ignore[index]
    assert "pip uninstall some-broken" in fault.sentence
    assert "fx-explorer --no-plugins" in fault.sentence


TABLES = {
    "it raises": ("fail", "RuntimeError: it is out of order"),
    "it exits": ("leave", "SystemExit"),
    "it recurses": ("lambda r: f(r) if (f := BAD.table) else 0", "RecursionError"),
    "no table": (
        "lambda _: [1, 2]",
        ("it returned [1, 2], which is not a fx_explorer.plugins.Table"),
    ),
    "no column": ("lambda _: table(columns=['a'])", "a column cannot be 'a'"),
    "no row": ("lambda _: table(rows=[('a',)])", "a row cannot be ('a',)"),
    "too few cells": ("lambda _: table(rows=[Row(cells=())])", "must be one text for each column"),
    "a number": ("lambda _: table(rows=[Row(cells=(1,))])", "a text cannot be 1"),
    "no answer": ("lambda _: table(answer=None)", "a text cannot be None"),
    "no number": ("lambda _: table(rows=[Row(cells=('a',), numbers={'a': 'x'})])", "ValueError"),
    "endless rows": ("lambda _: table(rows=range(10**9))", "more than 100,000 rows"),
}


@pytest.mark.parametrize("wrong", TABLES)
def test_a_view_that_fails_says_so_in_place_of_rows(
    tmp_path: Path,
    use_plugins: UsePlugins,
    told: list[plugin_loading.PluginFault],
    hand: Hand,
    wrong: str,
) -> None:
    code, message = TABLES[wrong]
    use_plugins(broken(tmp_path, "views", f"BAD = view({code})"))
    with SessionReader(hand.path) as reader:
        for _ in range(2):
            section = section_of(reader, "bad")
            assert not section.rows
            assert message in section.answer
            assert section.answer.startswith("The view bad (some-broken 1.0) is not used: ")
    assert len(told) == 1


PROBLEMS = {
    "it raises": ("fail", "RuntimeError"),
    "it raises late": ("lambda _: (1 / n for n in (1, 0))", "it returned 1.0, which is not a"),
    "nothing to go through": ("lambda _: None", "TypeError"),
    "another urgency": ("lambda _: [Problem(text='t', urgency='now')]", "urgency cannot be 'now'"),
    "one text": ("lambda _: [Problem(text='t', urgency='slow', evidence='e')]", "write a tuple"),
    "no text": ("lambda _: [Problem(text=3, urgency='slow')]", "cannot be 3"),
    "endless": ("lambda _: iter(lambda: Problem(text='t', urgency='slow'), 0)", "1,000 problems"),
}


@pytest.mark.parametrize("wrong", PROBLEMS)
def test_a_kind_of_problem_that_fails_leaves_the_others(
    tmp_path: Path,
    use_plugins: UsePlugins,
    told: list[plugin_loading.PluginFault],
    hand: Hand,
    wrong: str,
) -> None:
    code, message = PROBLEMS[wrong]
    with SessionReader(hand.path) as reader:
        without = findings(reader)
    use_plugins(broken(tmp_path, "problems", f"BAD = problem({code})"))
    with SessionReader(hand.path) as reader:
        assert findings(reader) == without
    (fault,) = told
    assert message in fault.reason


PANES = {
    "it raises": ("fail", "RuntimeError"),
    "no text": ("lambda r, g: 'digraph'", "not an fx_explorer.plugins.PaneText"),
    "two lines in one": ("lambda r, g: PaneText(lines=('a\\nb',))", "a line cannot be"),
    "a line that is not there": (
        "lambda r, g: PaneText(lines=('a',), node_of_line={5: g.first_node})",
        "node_of_line has line 5",
    ),
    "a node of another graph": (
        "lambda r, g: PaneText(lines=('a',), node_of_line={0: 10**6})",
        "with node 1000000",
    ),
}


@pytest.mark.parametrize("wrong", PANES)
def test_a_pane_that_fails_says_so_in_place_of_the_text(
    tmp_path: Path,
    use_plugins: UsePlugins,
    told: list[plugin_loading.PluginFault],
    hand: Hand,
    wrong: str,
) -> None:
    code, message = PANES[wrong]
    use_plugins(broken(tmp_path, "panes", f"BAD = pane({code})"))
    with SessionReader(hand.path) as reader:
        (form,) = set(forms_of("joint")) - {"code", "table"}
        text = graph_text(reader, form, hand.graphs["joint"].id)
        assert message in text.text
        assert not text.node_of_line
    assert len(told) == 1


READERS = {
    "it raises": ("lambda f, b: True", "fail"),
    "its test raises": ("fail", "fail"),
    "a row that no reader takes": (
        "lambda f, b: True",
        "lambda f, w: w.add(model.Compilation(0, 5, 'x', 0, None, '', 0))",
    ),
    "an answer that is no truth": ("lambda f, b: 'perhaps'", "fail"),
}


@pytest.mark.parametrize("wrong", READERS)
def test_a_reader_that_fails_leaves_the_file_what_it_is(
    tmp_path: Path,
    use_plugins: UsePlugins,
    told: list[plugin_loading.PluginFault],
    wrong: str,
) -> None:
    recognizes, read = READERS[wrong]
    code = f"BAD = FileReader(interface=1, words='w', recognizes={recognizes}, read={read})"
    use_plugins(broken(tmp_path, "readers", code))
    file = tmp_path / "some.txt"
    file.write_text("some text\n")
    with pytest.raises(UsageError, match="it looks like text"):
        with open_session(str(file)):
            pass
    assert len(told) == (wrong != "an answer that is no truth")


def test_a_gpu_of_the_same_name_is_ours(
    tmp_path: Path, use_plugins: UsePlugins, told: list[plugin_loading.PluginFault]
) -> None:
    ours = find_gpu("h100")
    code = "H100 = GpuFile(interface=1, file=Path('/no/gpu.toml'))"
    use_plugins(write_package(tmp_path, "some-broken", HEAD + code, {"gpus": "H100"}))
    assert find_gpu("h100") == ours
    assert "h100" in known_gpus()
    assert [fault.reason for fault in told] == ["there is another GPU of this name"]


def test_a_view_cannot_take_the_place_of_ours(
    tmp_path: Path, use_plugins: UsePlugins, told: list[plugin_loading.PluginFault], hand: Hand
) -> None:
    with SessionReader(hand.path) as reader:
        ours = section_of(reader, "kernels")
    code = "KERNELS = view(fail)"
    use_plugins(write_package(tmp_path, "some-broken", HEAD + code, {"views": "KERNELS"}))
    with SessionReader(hand.path) as reader:
        assert section_of(reader, "kernels").rows == ours.rows
    load_all_plugins()
    assert [fault.reason for fault in told] == ["there is another view of this name"]


def run(folder: Path, *words: str, **given: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))), **given}
    command = [sys.executable, "-m", "fx_explorer", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def all_broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package for each way to fail at loading, and one that prints."""
    folder = tmp_path_factory.mktemp("broken")
    for at, (group, code, _) in enumerate(AT_LOADING.values()):
        write_package(folder, f"broken-{at}", f"{HEAD}\n{code}\n", {group: "BAD"})
    talking = "print('hello')\nGOOD = view(lambda _: print('hello') or table())"
    write_package(folder, "talking", HEAD + talking, {"views": "GOOD"})
    return folder


def test_a_command_answers_beside_them_all_and_tells_each_once(
    all_broken: Path, hand: Hand
) -> None:
    ended = run(all_broken, "report", str(hand.path))
    report = json.loads(ended.stdout)
    assert ended.returncode == 0
    assert [table["name"] for table in report["plugins"]] == ["good"]
    messages = " ".join(ended.stderr.replace("hello\n", "").split())
    told = re.findall(r"plug-in: (?:the )?\S.*?\((broken-\d+) 1\.0\) is not used", messages)
    asked = [f"broken-{at}" for at, (group, _, _) in enumerate(AT_LOADING.values())
             if group in ("views", "sections", "problems")]  # fmt: skip
    assert sorted(told) == sorted(asked), "a report asks for these kinds, and loads no other"


def test_doctor_tells_each_with_what_to_do(all_broken: Path, use_plugins: UsePlugins) -> None:
    use_plugins(all_broken)
    checks = list(plugin_checks())
    assert len(checks) == len(AT_LOADING) + 1
    warned = [check for check in checks if check.state == "warning"]
    assert len(warned) == len(AT_LOADING)
    assert all("pip uninstall broken-" in check.advice for check in warned)


SETTINGS = {
    "": 12,
    "[plugins]\nuse = false\n": 0,
    "[plugins]\nuse = true\nleft_out = ['Broken_1', 'broken.2']\n": 10,
    "[plugins]\nuse = 7\n": 0,
    "[plugins]\nleft_out = 'broken-1'\n": 0,
    "[plugins]\nuses = true\n": 0,
    "plugins = 3\n": 0,
    "plugins = ": 0,
}
"""Configuration file → how many of the installed plug-ins are used."""


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_switch_plugins_off(
    all_broken: Path,
    use_plugins: UsePlugins,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: str,
) -> None:
    config = tmp_path / "fx-explorer" / "config.toml"
    config.parent.mkdir()
    config.write_text(settings)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    use_plugins(all_broken)
    assert len(plugin_loading.installed_plugins()) == SETTINGS[settings]
    is_mistake = SETTINGS[settings] == 0 and "use = false" not in settings
    assert bool(load_config(config).problems) == is_mistake
    if SETTINGS[settings] == 0:
        (check,) = plugin_checks()
        assert check.found.startswith("not used: ")


def test_the_option_switches_plugins_off(all_broken: Path, hand: Hand) -> None:
    ended = run(
        all_broken,
        "--no-plugins",
        "report",
        str(hand.path),
        "--section",
        "overview",
        "--format",
        "text",
    )
    assert ended.returncode == 0
    assert not ended.stderr


async def test_the_app_tells_it_once_and_continues(
    tmp_path: Path, use_plugins: UsePlugins, hand: Hand, open_app: OpenApp
) -> None:
    code = f"{HEAD}\nBAD = view(fail)\nODD = problem(leave)\n"
    use_plugins(write_package(tmp_path, "some-broken", code, {"views": "BAD", "problems": "ODD"}))
    async with open_app(hand.path) as driver:
        await driver.until(lambda: "a plug-in fails" in driver.screen)
        await driver.press("v", "x")
        assert driver.explorer.view == "bad"
        assert "it is out of order" in driver.screen
        await driver.press("1")
        assert driver.explorer.view == "overview"


async def test_the_app_says_why_there_is_no_view(
    use_plugins: UsePlugins, tmp_path: Path, hand: Hand, open_app: OpenApp
) -> None:
    use_plugins(tmp_path)
    async with open_app(hand.path) as driver:
        await driver.press("v", "x")
        assert "No installed plug-in adds a view" in driver.screen
        plugin_loading.use_no_plugins("--no-plugins")
        await driver.press("v", "x")
        assert "No plug-in is used: --no-plugins." in driver.screen
