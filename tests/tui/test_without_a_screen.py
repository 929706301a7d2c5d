"""These tests check the app's logic that needs no screen: presets, history, pipeline, watching,
saving, folding, wrapping.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import Document
from fx_explorer.model import Graph, Outcome, OutcomeKind
from fx_explorer.overview.outline import OutlineEntry
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.content.destinations import StopHistory
from fx_explorer.tui.content.live import Waiting
from fx_explorer.tui.content.presets import MISSING, PRESETS, ShowableDocuments, document_for
from fx_explorer.tui.controllers.capturing import FileWatch
from fx_explorer.tui.controllers.leaving import suggested_name
from fx_explorer.tui.panes.overview_pane import waiting_fact
from fx_explorer.tui.screens.header import conditions, ended_state, target_name
from fx_explorer.tui.screens.pipeline_bar import StepState, bar_for, pipeline
from fx_explorer.tui.widgets.outline_tree import (
    entry_paths,
    folded_at_first,
    merged_missing,
    visible_entries,
)
from fx_explorer.tui.widgets.text_layout import wrapped, wrapped_text
from tests.sessions import Hand


def graph(number: int, stage: model.Stage, direction: model.Direction = "") -> Document:
    return Document(
        "graph", number, f"{stage} {direction}", "graph", 10, 1, "0/0", stage, direction
    )


EAGER = ShowableDocuments((), (graph(1, "dynamo"),))
AOT = ShowableDocuments(
    (),
    (
        graph(1, "dynamo"),
        graph(2, "joint"),
        graph(3, "forward", "forward"),
        graph(4, "backward", "backward"),
    ),
)


def test_the_graph_slot_shows_the_stage_nearest_to_the_kernels() -> None:
    assert document_for("graph", EAGER) == graph(1, "dynamo")
    assert document_for("graph", AOT) == graph(3, "forward", "forward")
    assert document_for("graph", AOT, "backward") == graph(4, "backward", "backward")


def test_a_backend_without_backward_leaves_the_slot_empty_and_there_is_a_reason() -> None:
    assert document_for("backward", EAGER) is None
    assert all(MISSING[slot] for slots in PRESETS.values() for slot in slots)


def test_the_bytecode_slots_show_bytecode_before_and_after_dynamo() -> None:
    before = Document("artifact", 5, "Bytecode as written", "bytecode", 3, 1, "0/0", "dynamo")
    after = Document("artifact", 6, "Bytecode after Dynamo", "bytecode", 3, 1, "0/0", "dynamo")
    both = ShowableDocuments((), (graph(1, "dynamo"), before, after))
    assert [document_for(slot, both) for slot in PRESETS["bytecode"][1:]] == [before, after]
    assert document_for("bytecode_modified", ShowableDocuments((), (before,))) is None


def test_history_forgets_what_lay_ahead_when_going_somewhere_new() -> None:
    history: StopHistory[str] = StopHistory()
    for stop in "abc":
        history.go(stop)
    assert history.back() == "b"
    history.go("d")
    assert history.forward() is None
    assert [history.back(), history.back(), history.back()] == ["b", "a", None]


def test_history_counts_the_same_place_once() -> None:
    history: StopHistory[str] = StopHistory()
    history.go("a")
    history.go("a")
    assert history.back() is None


def test_every_step_of_a_finished_training_step_is_done(hand: Hand) -> None:
    with SessionReader(hand.path) as reader:
        steps = pipeline(reader)
    assert [(step.name, step.state) for step in steps] == [
        ("Dynamo", "done"),
        ("AOTAutograd", "done"),
        ("Inductor", "done"),
        ("Kernels", "done"),
    ]
    assert steps[0].figures[:2] == ("1 graph", "0 breaks")
    assert steps[1].figures == ("fwd 3", "bwd 2", "saves 128 B")
    assert steps[3].figures == ("3", "not built")


def session(path: Path, *rows: object, outcome: str = "") -> SessionReader:
    with SessionWriter(path) as writer:
        for row in rows:
            writer.add(row)  # type: ignore[arg-type]
        if outcome:
            writer.set_meta("outcome", model.Outcome(outcome).to_json())  # type: ignore[arg-type]
    return SessionReader(path)


def compilation(**fields: object) -> model.Compilation:
    return model.Compilation(0, "0/0", 0, 0, "f", "/p/f.py", 1, **fields)  # type: ignore[arg-type]


def test_a_step_that_failed_says_so(tmp_path: Path) -> None:
    failure = model.Failure(0, 1, "compiler", "schedule", "LoweringException", "no lowering")
    with session(
        tmp_path / "s.fxs", compilation(status="failed"), failure, outcome="raised"
    ) as reader:
        inductor = pipeline(reader)[2]
    assert (inductor.state, inductor.figures) == ("failed", ("failed",))


def test_a_step_the_backend_lacks_says_why(tmp_path: Path) -> None:
    missing = {
        "post_grad": "backend eager does not use Inductor",
        "schedule": "backend eager does not use Inductor",
    }
    with session(
        tmp_path / "s.fxs", compilation(status="ok", missing_stages=missing), outcome="finished"
    ) as reader:
        inductor = pipeline(reader)[2]
    assert (inductor.state, inductor.figures) == (
        "missing",
        ("backend eager does not use Inductor",),
    )
    assert bar_for([inductor], 20).texts == ("none",)


def test_steps_wait_before_anything_happened(tmp_path: Path) -> None:
    with session(tmp_path / "s.fxs") as reader:
        assert {step.state for step in pipeline(reader)} == {"waiting"}
        assert pipeline(reader, {"dynamo"})[0].state == "running"


def test_the_bar_is_shortened_until_it_fits(hand: Hand) -> None:
    with SessionReader(hand.path) as reader:
        steps = pipeline(reader)
    assert "1.00 s" in bar_for(steps, 300).texts[0]
    assert bar_for(steps, 80).texts == ("1 graph", "fwd 3", "5 ops", "3")
    assert set(bar_for(steps, 40).texts) == {""}


def test_breaks_are_the_last_of_the_lesser_counts_to_go() -> None:
    steps = [
        StepState("Dynamo", "done", ("4 graphs", "1 break, hit 2 times", "108 guards"), "0.35 s"),
        StepState("AOTAutograd", "done", ("fwd 59", "bwd 74"), "0.2 s"),
        StepState("Inductor", "done", ("98 ops",), "0.4 s"),
        StepState("Kernels", "done", ("24", "not built")),
    ]
    for room in range(98, 200):
        assert "1 break, hit 2 times" in bar_for(steps, room).texts[0]
    assert bar_for(steps, 118).texts == (
        "4 graphs · 1 break, hit 2 times",
        "fwd 59 · bwd 74",
        "98 ops",
        "24",
    )
    assert bar_for(steps, 100).texts[1] == "fwd 59"
    assert bar_for(steps, 97).texts == ("4 graphs", "fwd 59", "98 ops", "24")


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("finished", "✓ captured"),
        ("raised", "✗ program raised"),
        ("killed", "✗ worker was killed"),
        ("timed_out", "✗ timed out"),
        ("cancelled", "– cancelled"),
        ("not_started", "✗ not started"),
    ],
)
def test_the_header_says_how_a_capture_ended(tmp_path: Path, outcome: str, words: str) -> None:
    with session(tmp_path / "s.fxs", outcome=outcome) as reader:
        assert ended_state(reader).text.startswith(words)


def test_the_header_names_target_and_conditions(hand: Hand) -> None:
    with SessionReader(hand.path) as reader:
        assert target_name(reader) == "mlp.py:MLP"
        assert conditions(reader) == "torch 2.13.0 · cpu · training"


def test_a_script_trains_if_something_of_it_has_a_backward(tmp_path: Path) -> None:
    path = tmp_path / "script.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta("target", {"name": "train.py", "kind": "script", "train": False})
        with SessionReader(path) as reader:
            assert conditions(reader) == "", "what waits may have a backward"
            writer.set_meta("outcome", Outcome("finished").to_json())
            assert conditions(reader) == "inference"
            writer.add_graph(Graph(0, 1, "backward", "backward"), [], [])
            assert conditions(reader) == "training"


def test_a_file_counts_as_saved_once_it_has_come_to_rest(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("a")
    watch = FileWatch([file])
    assert not watch.has_changed()
    file.write_text("ab")
    assert not watch.has_changed()  # it may still be being written
    assert watch.has_changed()
    assert not watch.has_changed()


def test_a_file_that_was_only_touched_was_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("a")
    watch = FileWatch([file])
    os.utime(file, (1, 1))
    assert [watch.has_changed() for _ in range(4)] == [False] * 4
    file.write_text("b")
    assert [watch.has_changed(), watch.has_changed()] == [False, True]


def test_what_was_saved_before_a_new_look_counts_no_more(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("a")
    watch = FileWatch([file])
    file.write_text("ab")
    watch.forget_changes()
    assert [watch.has_changed() for _ in range(3)] == [False] * 3


def test_saving_by_renaming_is_noticed(tmp_path: Path) -> None:
    file, new = tmp_path / "model.py", tmp_path / "new"
    file.write_text("a")
    watch = FileWatch([file])
    new.write_text("abc")
    os.replace(new, file)
    assert [watch.has_changed(), watch.has_changed()] == [False, True]


@pytest.mark.parametrize(
    ("target", "name"),
    [("dir/mlp.py:MLP", "mlp.fxs"), ("pkg.mod:f", "mod.fxs"), ("", "session.fxs")],
)
def test_a_session_is_called_after_its_target(target: str, name: str) -> None:
    assert suggested_name(target) == name


ENTRIES = [
    OutlineEntry(0, "[0/0] f"),
    OutlineEntry(1, "Kernels"),
    *(OutlineEntry(2, f"kernel_{i}") for i in range(20)),
    OutlineEntry(0, "[1/0] g"),
    OutlineEntry(1, "Dynamo graph"),
]


def test_a_long_group_of_the_outline_starts_folded_and_its_neighbours_stay() -> None:
    paths = entry_paths(ENTRIES)
    folded = folded_at_first(ENTRIES, paths)
    shown = [ENTRIES[i].title for i in visible_entries(paths, folded)]
    assert shown == ["[0/0] f", "Kernels", "[1/0] g", "Dynamo graph"]


def test_stages_missing_for_one_reason_are_one_entry_of_the_outline() -> None:
    reason = "backend eager does not use Inductor"
    stages = [OutlineEntry(1, stage, reason, "missing") for stage in ("schedule", "kernel")]
    (entry,) = merged_missing(stages)
    assert (entry.title, entry.detail) == (reason, "no schedule, kernel")


def test_entries_of_the_same_name_have_paths_of_their_own() -> None:
    paths = entry_paths([OutlineEntry(0, "a"), OutlineEntry(1, "x"), OutlineEntry(1, "x")])
    assert len(set(paths)) == 3


def test_the_first_row_leaves_room_for_what_stands_beside_it() -> None:
    rows = wrapped("a graph break that is hit in each step of the loop", 20, first_width=9)
    assert rows == ["a graph", "break that is hit in", "each step of the", "loop"]
    assert wrapped("unbelievable", 8, first_width=4) == ["unbe", "lievable"]


def test_words_are_wrapped_by_cells() -> None:
    assert wrapped("ab cd ef", 5) == ["ab cd", "ef"]
    assert wrapped("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrapped("", 3) == [""]


def test_wide_characters_count_two_cells() -> None:
    assert wrapped("漢字漢字", 4) == ["漢字", "漢字"]


def test_a_bullet_goes_on_under_its_text() -> None:
    assert wrapped_text("  • one two three", 12) == "  • one two\n    three"


def test_while_the_compiler_waits_a_program_that_raised_has_not_run_to_its_end(
    tmp_path: Path,
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(model.Failure(0, 0, "program", None, "ValueError", "ValueError: no"))
    with SessionReader(tmp_path / "s.fxs") as reader:
        fact = waiting_fact(reader, Waiting("dynamo"), {})
    assert fact is not None
    assert fact.detail.startswith("Your program stopped with an error, ValueError: no.")


@pytest.mark.parametrize("kind", get_args(OutcomeKind))
def test_a_capture_has_words_in_the_header_however_it_ended(
    tmp_path: Path, kind: OutcomeKind
) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("outcome", Outcome(kind, "ValueError: no").to_json())
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert ended_state(reader).words
