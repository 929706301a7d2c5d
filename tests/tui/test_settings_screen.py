"""These tests drive the dialog of the compiler's options by keys."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input

from fx_explorer.instruments.options.explained_options import ExplainedOption, read_settings, search
from fx_explorer.instruments.options.option_words import WORDS
from fx_explorer.instruments.options.trial import ComparedCode, OptionTrial
from fx_explorer.model import OptionInForce, Outcome, Setting
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.trials import Told
from fx_explorer.tui.dialogs.options import NOT_CHANGED, READ_ONLY, Chosen
from fx_explorer.tui.dialogs.settings_dialog import SettingsDialog
from fx_explorer.tui.theme import THEMES
from tests.figures import figures

POOLS = ('"none"', '"intermediates"', '"outputs"')

SETTINGS = [
    Setting(
        1,
        "compile",
        "backend",
        "str",
        '"inductor"',
        '"inductor"',
        "backend to be used",
        ('"eager"', '"inductor"'),
    ),
    Setting(
        2,
        "inductor",
        "max_fusion_size",
        "int",
        "64",
        "64",
        "how many nodes to allow into a single fusion",
    ),
    Setting(
        3,
        "inductor",
        "debug",
        "bool",
        "false",
        "false",
        "add some debug printouts",
        ("true", "false"),
    ),
    Setting(
        4,
        "inductor",
        "memory_pool",
        "Literal['none', 'intermediates', 'outputs']",
        POOLS[1],
        POOLS[1],
        "Memory.",
        POOLS,
    ),
    Setting(5, "inductor", "custom_partitioner_fn", "", "null", "null", "A function."),
    Setting(
        6,
        "inductor",
        "max_autotune_gemm_backends",
        "str",
        '"ATEN,TRITON"',
        '"ATEN,TRITON"',
        "comma separated\x1b[31m",
    ),
    Setting(7, "dynamo", "recompile_limit", "int", "8", "3", "fusion of words"),
    Setting(8, "functorch", "memory_budget", "float | None", "1.0", "1.0", ""),
]


IN_FORCE = [
    OptionInForce(0, "compile.backend", '"inductor"', "default", "f"),
    OptionInForce(0, "compile.backend", '"eager"', "program", "g", "train.py", 5),
    OptionInForce(0, "dynamo.recompile_limit", "3", "environment", variable="LIMIT"),
]

BEFORE = figures(
    graphs=5,
    graph_breaks=1,
    graph_break_hits=1,
    recompiles=2,
    guards=64,
    operations=8,
    kernels=8,
    compile_s=2.5,
)


def in_console(settings: list[Setting], rows: list[OptionInForce]) -> list[ExplainedOption]:
    return [
        ExplainedOption(
            "g",
            setting,
            WORDS[setting.full_name],
            tuple(row for row in rows if row.name == setting.full_name),
        )
        for setting in settings
        if setting.full_name in WORDS
    ]


class OneDialog(App[None]):
    def __init__(self, settings: list[Setting], chosen: Mapping[str, object], **more: Any) -> None:
        super().__init__()
        self.dialog = SettingsDialog(settings, chosen, **more)
        self.answers: list[Chosen | None] = []

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = "fx-dark"
        self.push_screen(self.dialog, self.answers.append)


class Hands:
    def __init__(self, app: OneDialog, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Into the line that has the focus, in place of what was there."""
        line = self.app.focused
        assert isinstance(line, Input)
        line.value = text
        await self.press()

    @property
    def screen(self) -> str:
        width, height = self.app.size
        return "\n".join(
            strip.text[:width].rstrip()
            for strip in self.app.screen._compositor.render_strips()[:height]
        )

    @property
    def options(self) -> list[str]:
        """The names of the list, top to bottom, without their group; headings and what can be done
        are left out.
        """
        shown = self.app.dialog._list
        lines = [shown.line_text(line).split()[0] for line in range(shown.line_count)]
        return [line.partition(".")[2] for line in lines if "." in line]


@contextlib.asynccontextmanager
async def opened(
    settings: list[Setting] = SETTINGS,
    size: tuple[int, int] = (120, 36),
    chosen: Mapping[str, object] | None = None,
    **more: Any,
) -> AsyncIterator[Hands]:
    app = OneDialog(settings, chosen or {}, **more)
    async with app.run_test(size=size) as pilot:
        hands = Hands(app, pilot)
        await hands.press()
        yield hands


def test_search_takes_words_of_name_and_help_and_puts_changed_options_first() -> None:
    names = [setting.name for setting in search(SETTINGS, "fusion")]
    assert names == ["recompile_limit", "max_fusion_size"]
    assert [setting.name for setting in search(SETTINGS, "MAX size")] == ["max_fusion_size"]
    assert search(SETTINGS, "")[0].name == "recompile_limit"
    assert search(SETTINGS, "", {"functorch.memory_budget"})[0].name == "memory_budget"
    assert [setting.name for setting in search(SETTINGS, "memory")] == [
        "memory_pool",
        "memory_budget",
    ]
    assert search(SETTINGS, "debug nowhere") == []
    assert len(search(SETTINGS, "")) == len(SETTINGS)


def test_rows_of_a_session_that_no_writer_of_ours_made_are_left_out(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with SessionWriter(tmp_path / "one.fxs") as writer:
        writer.add_all(
            [
                *SETTINGS,
                Setting(0, "inductor", "a", "int | (", "1", "1", ""),
                Setting(0, "inductor", "b", "int", "", "1", ""),
            ]
        )
    with SessionReader(tmp_path / "one.fxs") as reader:
        assert read_settings(reader) == SETTINGS


async def test_two_options_are_found_changed_and_handed_over() -> None:
    async with opened() as hands:
        await hands.type("max_fusion")
        assert hands.options == ["max_fusion_size"]
        assert "how many nodes to allow into a single fusion" in hands.screen
        await hands.press("enter")
        await hands.type("8")
        assert "✓ 8 · takes a whole number" in hands.screen
        await hands.press("enter")
        assert "inductor.max_fusion_size = 8" in hands.screen
        await hands.type("back")
        await hands.press("enter", "up", "enter")
        assert "inductor.max_fusion_size = 8" in hands.screen
        assert 'compile.backend = "eager"' in hands.screen
        await hands.press("enter")
        assert hands.app.answers == [{"inductor.max_fusion_size": 8, "compile.backend": "eager"}]


async def test_the_cursor_stays_on_an_option_that_was_looked_at_and_left_as_it_is() -> None:
    async with opened() as hands:
        await hands.type("memory pool")
        await hands.press("enter", "enter")
        assert hands.app.dialog.edited is None
        assert hands.app.dialog._under_cursor == SETTINGS[3]
        assert "▸inductor.memory_pool" in hands.screen


async def test_a_wrong_value_is_said_while_it_is_typed_and_not_taken() -> None:
    async with opened() as hands:
        await hands.type("max_fusion")
        await hands.press("enter")
        await hands.type("lots")
        assert 'inductor.max_fusion_size takes a whole number, not the text "lots"' in hands.screen
        await hands.press("enter")
        assert hands.app.dialog.edited is not None
        await hands.press("escape")
        assert "The value you typed for inductor.max_fusion_size is not valid" in hands.screen
        assert "n discard it · esc back" in hands.screen
        await hands.press("y")  # nothing can be kept
        await hands.press("n", "escape")
        assert hands.app.answers == [{}]


async def test_escape_asks_what_becomes_of_a_value_that_was_typed_and_not_taken() -> None:
    async with opened() as hands:
        await hands.type("max_fusion")
        await hands.press("enter")
        await hands.type("8")
        await hands.press("escape")
        assert "Keep the value you typed for inductor.max_fusion_size?" in hands.screen
        assert "y yes · n no · esc back" in hands.screen
        await hands.press("escape")
        assert hands.app.dialog.edited is not None
        assert hands.app.dialog._value.value == "8"
        await hands.press("escape", "y")
        assert hands.app.dialog.edited is None
        assert "inductor.max_fusion_size = 8" in hands.screen


async def test_escape_asks_nothing_where_the_value_is_as_it_was() -> None:
    async with opened() as hands:
        await hands.type("max_fusion")
        await hands.press("enter", "escape")
        assert hands.app.dialog.edited is None
        await hands.press("escape")
        assert hands.app.answers == [{}]


@pytest.mark.parametrize(("key", "answer"), [("y", {"inductor.max_fusion_size": 8}), ("n", {})])
async def test_escape_asks_what_becomes_of_values_that_were_taken_and_not_used(
    key: str, answer: Chosen
) -> None:
    async with opened() as hands:
        await hands.type("max_fusion")
        await hands.press("enter")
        await hands.type("8")
        await hands.press("enter", "escape")
        assert "Use what was changed?" in hands.screen
        assert "y yes · n no" in hands.screen
        await hands.press(key)
        assert hands.app.answers == [answer]


async def test_values_are_written_as_python_has_them() -> None:
    async with opened() as hands:
        await hands.type("debug")
        assert "Allowed: True, False" in hands.screen
        await hands.press("enter")
        assert hands.app.dialog._value.value == "False"
        await hands.type("True")
        await hands.press("enter")
        assert "inductor.debug = True" in hands.screen
        await hands.type("memory_budget")
        await hands.press("enter")
        await hands.type("1e-3")
        assert "✓ 0.001 · takes a number or None" in hands.screen
        await hands.type("[1")
        assert (
            "✗ functorch.memory_budget takes a number or None; Python cannot parse this"
            in hands.screen
        )


async def test_allowed_values_are_listed_and_gone_through_by_key() -> None:
    async with opened() as hands:
        await hands.type("pool")
        assert 'Allowed: "none", "intermediates", "outputs"' in hands.screen
        await hands.press("enter", "down", "down")
        assert "none" in hands.app.dialog._value.value
        await hands.press("enter", "enter")
        assert hands.app.answers == [{"inductor.memory_pool": "none"}]


async def test_a_value_put_back_is_no_change() -> None:
    async with opened(chosen={"inductor.max_fusion_size": 8}) as hands:
        assert hands.options[0] == "max_fusion_size"
        await hands.press("down", "enter")
        await hands.type("64")
        await hands.press("enter")
        assert hands.options[0] == "backend"
        await hands.press("escape")
        assert hands.app.answers == [{}]


async def test_an_option_that_holds_an_object_says_so_and_does_not_open() -> None:
    async with opened() as hands:
        await hands.type("partitioner")
        assert "It cannot be set from here, only in your own program." in hands.screen
        await hands.press("enter")
        assert hands.app.dialog.edited is None


async def test_enter_right_after_typing_takes_what_was_typed() -> None:
    async with opened() as hands:
        await hands.pilot.press("d", "e", "b", "u", "g", "enter")
        assert hands.app.dialog.edited is not None
        assert hands.app.dialog.edited.name == "debug"


async def test_words_of_a_session_cannot_steer_the_terminal() -> None:
    async with opened() as hands:
        await hands.type("gemm")
        assert "comma separated␛[31m" in hands.screen


async def test_a_session_without_options_says_why() -> None:
    async with opened([]) as hands:
        assert "This session has no list of options" in hands.screen
        await hands.press("enter", "escape")
        assert hands.app.answers == [{}]


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (30, 10)])
async def test_it_can_be_used_on_a_small_terminal(size: tuple[int, int]) -> None:
    async with opened(size=size) as hands:
        await hands.type("max_fusion")
        await hands.press("enter")
        await hands.type("8")
        await hands.press("enter", "enter")
        assert hands.app.answers == [{"inductor.max_fusion_size": 8}]


async def test_a_double_click_opens_an_option() -> None:
    async with opened() as hands:
        await hands.pilot.double_click(hands.app.dialog._list, offset=(20, 2))
        await hands.press()
        assert hands.app.dialog.edited is not None


# the console


async def test_options_stand_in_groups_with_their_values_in_force_and_who_set_them() -> None:
    async with opened(size=(160, 40), options=in_console(SETTINGS, IN_FORCE)) as hands:
        assert "── arguments of torch.compile" in hands.screen
        assert hands.options[:2] == ["backend", "recompile_limit"]
        assert '"inductor", "eager"' in hands.screen
        assert 'In force: "inductor": the default for f' in hands.screen
        assert 'In force: "eager": set at train.py:5 for g' in hands.screen
        assert "runs Dynamo's graph with PyTorch's operators" in hands.screen
        await hands.press("down", "down")
        assert "In force: 3: set by the environment variable LIMIT" in hands.screen
        assert "Maximum number of versions of one function" in hands.screen


async def test_one_key_tries_the_next_value_and_shows_what_changed() -> None:
    tried: list[Mapping[str, object]] = []

    async def try_options(settings: Mapping[str, object], tell: Told) -> OptionTrial:
        tried.append(settings)
        after = figures(graphs=3, guards=48, free_sizes=4, operations=8, kernels=8, compile_s=2.5)
        return OptionTrial(settings, Outcome("finished"), BEFORE, after, 7.0)

    kept: list[OptionTrial] = []
    options = in_console(SETTINGS, IN_FORCE[:1])
    async with opened(options=options, try_options=try_options, trials=kept) as hands:
        await hands.press("ctrl+r")
        assert tried == [{"compile.backend": "eager"}]
        assert (
            "recompiles                            2 → 0          −2 (−100 %), better"
            in hands.screen
        )
        assert (
            "as before: functions in eager mode, operations captured, kernels, compiling took"
            in hands.screen
        )
        await hands.press("escape", "n")
        assert hands.app.answers == [{}]
    assert [trial.settings for trial in kept] == [{"compile.backend": "eager"}]
    async with opened(
        options=options, try_options=try_options, trials=kept, chosen={"compile.backend": "eager"}
    ) as hands:
        assert "recompiles                            2 → 0" in hands.screen


async def test_a_trial_says_what_its_worker_does_and_for_how_long() -> None:
    ending: asyncio.Future[OptionTrial] = asyncio.get_running_loop().create_future()

    async def try_options(settings: Mapping[str, object], tell: Told) -> OptionTrial:
        tell("unchanged · Inductor is fusing [0/0]")
        return await ending

    options = in_console(SETTINGS, IN_FORCE[:1])
    async with opened(options=options, try_options=try_options) as hands:
        await hands.press("ctrl+r")
        assert re.search(r"trying · \d+ s · unchanged · Inductor is fusing", hands.screen)
        ending.set_result(OptionTrial({}, Outcome("finished"), BEFORE, BEFORE, 7.0))


async def test_after_a_trial_enter_opens_the_comparison_of_its_code() -> None:
    opened_trials: list[OptionTrial] = []
    code = ComparedCode(Path("before.fxs"), Path("after.fxs"), {"code": 3, "same": 5})

    async def try_options(settings: Mapping[str, object], tell: Told) -> OptionTrial:
        return OptionTrial(settings, Outcome("finished"), BEFORE, BEFORE, 7.0, code)

    async def show_trial(trial: OptionTrial) -> None:
        opened_trials.append(trial)

    options = in_console(SETTINGS, IN_FORCE[:1])
    async with opened(options=options, try_options=try_options, show_trial=show_trial) as hands:
        await hands.press("ctrl+r")
        assert "the code differs in 3 kernels" in hands.screen
        assert "⏎ show the code that differs" in hands.screen
        await hands.press("enter")
        assert [trial.code for trial in opened_trials] == [code]
        assert hands.app.answers == []


async def test_what_is_unchanged_is_not_tried_and_it_says_so() -> None:
    async def try_options(settings: Mapping[str, object], tell: Told) -> OptionTrial:
        raise AssertionError("nothing was changed")

    async with opened(options=in_console(SETTINGS, IN_FORCE), try_options=try_options) as hands:
        await hands.type("max_fusion")
        await hands.press("ctrl+r")
        await hands.press("enter", "ctrl+r")
        notes = [note.message for note in hands.app._notifications]
        assert notes == 2 * [NOT_CHANGED.format(name="inductor.max_fusion_size")]


async def test_escape_stops_a_trial_and_leaves_the_dialog_open() -> None:
    was_stopped: list[bool] = []

    async def try_options(settings: Mapping[str, object], tell: Told) -> OptionTrial:
        try:
            await asyncio.Event().wait()
        finally:
            was_stopped.append(True)
        raise AssertionError("it waits for ever")

    async with opened(options=in_console(SETTINGS, []), try_options=try_options) as hands:
        await hands.press("ctrl+r")
        assert "Capturing again, in a separate process" in hands.screen
        assert "0 s · capturing again with" in hands.screen
        await hands.press("escape")
        assert was_stopped == []
        await hands.press("y")
        assert was_stopped == [True]
        assert hands.app.answers == []
        assert "⏎ try 1 change " in hands.screen


async def test_the_stance_can_be_tried_but_not_used_for_what_follows() -> None:
    stance = Setting(
        9, "compiler", "stance", "str", '"default"', '"default"', "", ('"default"', '"force_eager"')
    )

    async def try_options(settings: Mapping[str, object], tell: Told) -> OptionTrial:
        return OptionTrial(
            settings, Outcome("finished", "compiled nothing: the stance"), BEFORE, BEFORE, 1.0
        )

    chosen = {"compiler.stance": "force_eager"}
    async with opened(
        [stance], chosen=chosen, options=in_console([stance], []), try_options=try_options
    ) as hands:
        assert "⏎ continue with" not in hands.screen
        await hands.press("enter")
        assert "finished: compiled nothing: the stance" in hands.screen
        assert hands.app.answers == []


async def test_where_nothing_can_be_changed_it_says_so() -> None:
    async with opened(options=in_console(SETTINGS, IN_FORCE), follows=False) as hands:
        await hands.press("enter")
        assert hands.app.dialog.edited is None
        await hands.press("ctrl+r")
        assert [note.message for note in hands.app._notifications] == [READ_ONLY, READ_ONLY]


async def test_values_from_a_session_cannot_steer_the_terminal() -> None:
    rows = [OptionInForce(0, "compile.backend", '"\x1b[31m"', "program", "\x1b[2J", "\x1b]0;x", 1)]
    async with opened(options=in_console(SETTINGS, rows)) as hands:
        assert "\x1b" not in hands.screen
