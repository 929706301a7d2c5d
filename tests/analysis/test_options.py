"""These tests compare the words of the console with torch's, and with what is read from a session."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
import torch._inductor

from fx_explorer.analysis.whole_session import session_figures
from fx_explorer.capture.option_catalogue import list_settings
from fx_explorer.cli import main
from fx_explorer.instruments.options.explained_options import (
    ExplainedOption,
    all_options,
    explained,
    explained_options,
    next_value,
    order_of,
    origins,
    read_settings,
    search,
)
from fx_explorer.instruments.options.option_words import GROUPS, WORDS
from fx_explorer.instruments.options.report import compile_option
from fx_explorer.instruments.options.trial import (
    Baseline,
    ComparedCode,
    OptionTrial,
    baseline_of,
    changed_request,
    compared,
    describe_ended,
    figures_of,
)
from fx_explorer.model import CONSOLE, STANCE, CaptureRequest, OptionInForce, Outcome, Setting
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.dialogs.options import entries
from tests.exhaustive import in_exhaustive_runs
from tests.figures import figures

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "reference" / "report-schema.json").read_text()
)


@pytest.fixture(scope="module")
def known() -> dict[str, Setting]:
    return {setting.full_name: setting for setting in list_settings()}


def test_every_option_of_the_console_is_explained_once() -> None:
    assert tuple(WORDS) != ()
    assert set(WORDS) == set(CONSOLE)
    assert sum(map(len, GROUPS.values())) == len(CONSOLE)


@pytest.mark.parametrize("name", CONSOLE)
def test_every_value_that_is_explained_is_one_that_torch_takes(
    known: dict[str, Setting], name: str
) -> None:
    """A newer torch may lack an option; one it has takes the values that we have words for."""
    if name in known:
        choices = known[name].choices
        assert [value for value in WORDS[name].values if choices and value not in choices] == []
        assert WORDS[name].does.endswith(".")


def test_every_mode_and_every_stance_of_torch_is_explained(known: dict[str, Setting]) -> None:
    assert {json.dumps(mode) for mode in torch._inductor.list_mode_options()} <= set(
        WORDS["compile.mode"].values
    )
    assert set(known[STANCE].choices) == set(WORDS[STANCE].values)


def test_an_option_outside_the_console_has_torch_s_first_sentence(
    known: dict[str, Setting],
) -> None:
    assert explained(known["inductor.debug"]).does == "add some debug printouts"
    names = [setting.full_name for setting in order_of(known.values())]
    explained_here = [name for name in WORDS if name in known]
    assert names[: len(explained_here)] == explained_here


def console(rows: list[OptionInForce], tmp_path: Path) -> dict[str, ExplainedOption]:
    with SessionWriter(tmp_path / "one.fxs") as writer:
        writer.add_all(setting for setting in list_settings() if setting.full_name in CONSOLE)
        writer.add_all(rows)
    with SessionReader(tmp_path / "one.fxs") as reader:
        return {option.name: option for option in explained_options(reader)}


def test_values_are_told_with_who_set_them(tmp_path: Path) -> None:
    rows = [
        OptionInForce(
            0, "compile.mode", '"max-autotune"', "program", "f", str(tmp_path / "train.py"), 5
        ),
        OptionInForce(0, "compile.mode", "null", "default", "g"),
        OptionInForce(0, "compile.mode", "null", "default", "h"),
        OptionInForce(0, "compile.fullgraph", "true", "fx-explorer", "f"),
        OptionInForce(0, "dynamo.automatic_dynamic_shapes", "false", "program"),
        OptionInForce(0, "dynamo.recompile_limit", "not JSON", "program"),
    ]
    found = console(rows, tmp_path)
    told = ['"max-autotune": set at train.py:5 for f', "None: the default for g and h"]
    assert origins(found["compile.mode"], tmp_path) == told
    assert (found["compile.mode"].set_by, found["compile.mode"].values) == (
        "program",
        ('"max-autotune"', "null"),
    )
    assert origins(found["compile.fullgraph"]) == ["True: an option of fx-explorer"]
    assert origins(found["dynamo.automatic_dynamic_shapes"]) == [
        "False: set by the program, or by its argument dynamic"
    ]
    assert (
        found["dynamo.recompile_limit"].in_force,
        found["dynamo.recompile_limit"].is_changed,
    ) == ((), False)


def test_the_next_value_is_one_there_are_words_for(tmp_path: Path) -> None:
    found = console([], tmp_path)
    assert next_value(found["compile.dynamic"], None) is True
    assert next_value(found["compile.fullgraph"], False) is True
    assert next_value(found["compile.backend"], "inductor") == "eager"
    assert next_value(found[STANCE], "aot_eager_then_compile") == "default"
    assert next_value(found["dynamo.recompile_limit"], 8) == 8


def test_every_option_of_a_report_is_as_the_schema_has_it(tmp_path: Path) -> None:
    rows = [OptionInForce(0, "compile.options", '{"a": 1}', "program", "f", "a.py", 5)]
    told = [compile_option(one) for one in console(rows, tmp_path).values()]
    jsonschema.validate(told, SCHEMA["properties"]["compile_options"])
    assert next(one for one in told if one["name"] == "compile.options")["in_force"] == [
        {
            "value": {"a": 1},
            "set_by": "program",
            "function": "f",
            "file": "a.py",
            "line": 5,
            "variable": None,
        }
    ]


def test_two_captures_side_by_side_say_what_differs() -> None:
    before = figures(
        graphs=5,
        graph_break_hits=2,
        recompiles=2,
        guards=64,
        operations=8,
        kernels=8,
        compile_s=2.5,
    )
    after = figures(
        graphs=3,
        graph_break_hits=2,
        guards=48,
        free_sizes=4,
        operations=4,
        kernels=6,
        compile_s=2.5,
    )
    differing = {one.what: (one.left, one.right) for one in compared(before, after) if one.differs}
    assert differing == {
        "graphs": ("5", "3"),
        "recompiles": ("2", "0"),
        "guards": ("64", "48"),
        "dynamic sizes": ("0", "4"),
        "operations captured": ("8", "4"),
        "kernels": ("8", "6"),
    }


def test_nothing_is_better_in_a_program_that_did_not_come_to_its_end() -> None:
    before, after = figures(graph_breaks=4, compile_s=19.5), figures(graph_breaks=0, compile_s=1.8)
    # One compile time each says nothing; the breaks that are gone do.
    for kind, better in (("finished", 1), ("exited", 1), ("raised", 0)):
        trial = OptionTrial({}, Outcome(kind), before, after, 1.0)  # type: ignore[arg-type]
        told = [one.change for one in figures_of(trial) if one.differs]
        assert len(told) == 2
        assert sum("better" in change for change in told) == better


def test_the_option_that_people_look_for_comes_before_others_with_the_same_words() -> None:
    explained = next(name for name in WORDS if name.startswith("functorch.") and "budget" in name)
    group, _, name = explained.partition(".")
    alike = [
        Setting(0, group, other, "int", "0", "0", "")
        for other in (f"{name.split('_')[1]}_first", f"{name}_solver", name)
    ]  # type: ignore[arg-type]
    words = name.split("_")[1]
    assert search(alike, words)[0].full_name == explained
    in_full = search(alike, alike[0].full_name)
    assert in_full[0] == alike[0]


def test_a_capture_that_has_not_ended_is_no_measure(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "one.fxs") as writer:
        with SessionReader(tmp_path / "one.fxs") as reader:
            assert baseline_of(reader) is None
        writer.set_meta("outcome", Outcome("finished").to_json())
    with SessionReader(tmp_path / "one.fxs") as reader:
        assert baseline_of(reader) == Baseline(session_figures(reader), reader.path)


def test_a_trial_says_whether_the_code_changed_even_when_every_count_is_as_before() -> None:
    before, after = Path("before.fxs"), Path("after.fxs")
    code = ComparedCode(before, after, {"same": 4, "code": 3, "only right": 1})
    assert code.words == "the code differs in 3 kernels, 1 kernel only with the change"
    assert code.differs
    sizes = ComparedCode(before, after, {"sizes": 2})
    assert sizes.words == "only sizes differ in 2 kernels"
    same = ComparedCode(before, after, {"same": 8})
    assert same.words == "the code is the same in 8 kernels"
    assert not same.differs


def test_a_trial_goes_straight_through_and_adds_to_what_was_asked_for() -> None:
    asked = CaptureRequest(
        "a.py",
        "x.fxs",
        pause="dynamo",
        stay=True,
        settings={"dynamo.verbose": True, "compile.mode": "lite"},
    )
    tried = changed_request(asked, {"compile.mode": None})
    assert (tried.pause, tried.stay, tried.session) == ("", False, "")
    assert tried.settings == {"dynamo.verbose": True, "compile.mode": None}


# the command


PROGRAM = """
import torch

@torch.compile(backend="eager", dynamic=False)
def f(x):
    return x.sin()

for size in (2, 3, 4):
    f(torch.ones(size))
"""


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["options", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_without_a_target_it_explains_without_torch(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    assert code == 0
    assert all(name in out for name in CONSOLE)
    listed: list[dict[str, Any]] = json.loads(run(capsys, "--format", "json")[1])
    assert [one["name"] for one in listed] == list(WORDS)


@pytest.mark.parametrize("name", ["compile.mode", "mode"])
def test_one_option_is_explained_without_a_target(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, out, _ = run(capsys, "--name", name)
    assert (code, [line for line in out.splitlines() if line.startswith("  c")]) == (
        0,
        ["  compile.mode"],
    )
    assert [
        one["name"] for one in json.loads(run(capsys, "--name", name, "--format", "json")[1])
    ] == ["compile.mode"]


def test_without_a_target_a_name_that_is_not_known_and_a_trial_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, error = run(capsys, "--name", "compile.mod")
    assert code == 2
    assert "did you mean compile.mode" in error
    assert run(capsys, "--try", "compile.mode=lite")[0] == 2


def session_of(settings: list[Setting], path: Path) -> str:
    with SessionWriter(path) as writer:
        writer.add_all(settings)
    return str(path)


def test_every_option_that_the_app_lists_is_told_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = list_settings()
    session = session_of(settings, tmp_path / "all.fxs")
    with SessionReader(session) as reader:
        rows = entries(read_settings(reader), "", ())
        names = {row.full_name for row in rows if isinstance(row, Setting)}
        assert names == {one.name for one in all_options(reader)}
        assert names == {setting.full_name for setting in settings}
    for setting in settings[:: len(settings) // 20]:
        code, out, _ = run(capsys, session, "--name", setting.full_name)
        assert (code, out.splitlines()[0]) == (0, setting.full_name)
        (told,) = json.loads(
            run(capsys, session, "--name", setting.full_name, "--format", "json")[1]
        )
        assert told["at_start"] == json.loads(setting.value)
    out = run(capsys, session, "--name", "inductor.debug")[1]
    assert "value      False: when the capture began" in out
    assert "add some debug printouts" in out
    listed = json.loads(run(capsys, session, "--format", "json")[1])
    assert {one["name"] for one in listed} <= set(CONSOLE)


def test_a_session_that_lists_the_options_of_the_console_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = session_of(list_settings(only=CONSOLE), tmp_path / "console.fxs")
    code, _, error = run(capsys, session, "--name", "inductor.debug")
    assert code == 2
    assert "only options that fx-explorer explains are listed here" in " ".join(error.split())
    assert run(capsys, "--name", "inductor.debug")[0] == 2


@pytest.mark.usefixtures("warm_workers")
def test_a_target_is_captured_with_every_option_when_one_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    code, out, _ = run(
        capsys, str(file), "--name", "inductor.debug", "--no-build", "--python", sys.executable
    )
    assert (code, out.splitlines()[0]) == (0, "inductor.debug")


def test_a_program_that_did_not_get_as_far_as_compiling_has_no_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.py").write_text("def f(:\n")
    code, _, error = run(capsys, str(tmp_path / "odd.py"), "--python", sys.executable)
    assert code != 0
    assert "the program ended before it compiled" in error


def test_a_trial_that_fails_as_before_says_so() -> None:
    failed = Outcome("raised", "ValueError: no")
    assert describe_ended(failed, failed) == "raised: ValueError: no (as before)"
    assert describe_ended(failed, Outcome("finished")) == "raised: ValueError: no"
    timed_out = describe_ended(Outcome("timed_out"), None)
    assert timed_out.startswith("timed out (not verified); start with a longer --timeout")


@in_exhaustive_runs
@pytest.mark.usefixtures("warm_workers")
def test_a_script_is_asked_and_another_value_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """dynamic=True needs one compile for the three sizes, as the program alone would (unique_graphs
    of a bare process: 1).
    """
    file, session = tmp_path / "program.py", str(tmp_path / "one.fxs")
    file.write_text(PROGRAM)
    assert main(["run", str(file), "-o", session, "--no-build", "--python", sys.executable]) == 0
    capsys.readouterr()
    code, out, _ = run(capsys, session)
    assert code == 0
    assert "▲ compile.dynamic = False" in out
    assert f"False: set at {file}:4" in out
    assert run(capsys, session, "--name", "fullgraph")[1].startswith("compile.fullgraph\n")
    assert run(capsys, session, "--name", "fullgrap")[0] == 2
    code, out, _ = run(capsys, session, "--try", "compile.dynamic=True", "--format", "json")
    figures = {one["what"]: (one["before"], one["after"]) for one in json.loads(out)["figures"]}
    assert (code, figures["graphs"], figures["recompiles"]) == (0, ("3", "1"), ("2", "0"))
    code, _, err = run(capsys, session, "--try", "compile.dynamic=perhaps")
    assert (code, "compile.dynamic takes True, False or None" in err) == (2, True)
