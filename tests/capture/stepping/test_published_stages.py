"""These tests step through a user's own backend: there is a gate after each stage that it
publishes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from fx_explorer import publish
from fx_explorer.model import (
    CaptureRequest,
    Changes,
    Command,
    Compilation,
    Notice,
    PassFile,
    PublishedStage,
)
from tests.capture.stepping.driving import STEPS, Driven, drive

NAMES = ("support", "segments", "program")


def text_of_segments() -> str:
    publish("inner", "made on the way")
    return "text"


def small_backend(gm: torch.fx.GraphModule, _: Any) -> Any:
    publish("support", "text")
    publish("segments", text_of_segments)
    publish("program", "text")
    return gm.forward


def compiled(
    net: nn.Module, arguments: tuple[torch.Tensor, ...], _: CaptureRequest
) -> torch.Tensor:
    output: torch.Tensor = torch.compile(net, backend=small_backend)(*arguments)
    return output


def reached(driven: Driven) -> list[Notice]:
    return [
        notice
        for notice in driven.notices
        if notice.kind == "gate" and notice.state == "begin" and notice.gate
    ]


def test_each_published_stage_is_a_gate_with_its_name(tmp_path: Path) -> None:
    driven = drive(
        tmp_path / "a.fxs", [*STEPS[:4], Command("quit")], pause="step", program=compiled
    )
    told = [notice.text for notice in reached(driven)]
    assert told == [
        "paused after Dynamo",
        *(f"paused after {name} of small_backend" for name in NAMES),
    ]
    assert driven.reader.rows(Compilation)[0].status == "ok"
    assert torch.is_tensor(driven.output)


def test_the_default_pause_stops_at_none_of_them(tmp_path: Path) -> None:
    driven = drive(
        tmp_path / "a.fxs", [Command("go"), Command("quit")], pause="dynamo", program=compiled
    )
    assert [notice.gate for notice in reached(driven)] == ["dynamo"]
    assert {stage.name for stage in driven.reader.rows(PublishedStage)} == {*NAMES, "inner"}


def test_one_can_run_to_the_next_stage(tmp_path: Path) -> None:
    commands = [
        Command("run_to", gate="backend"),
        Command("run_to", gate="backend"),
        Command("go"),
        Command("quit"),
    ]
    driven = drive(tmp_path / "a.fxs", commands, pause="dynamo", program=compiled)
    assert [notice.published for notice in reached(driven)] == [
        "",
        "support of small_backend",
        "segments of small_backend",
    ]


def test_what_makes_no_sense_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    a_pass = Command("pass", changes=Changes(passes=(PassFile("backend", str(tmp_path / "a.py")),)))
    commands = [
        Command("step"),
        a_pass,
        Command("again", gate="backend"),
        Command("go"),
        Command("quit"),
    ]
    driven = drive(tmp_path / "a.fxs", commands, pause="step", program=compiled)
    refused = [notice.text for notice in driven.notices if notice.kind == "refused"]
    assert [text.partition(",")[0].partition(":")[0] for text in refused] == [
        "This stage was published by the backend",
        "Nothing can be compiled again from a stage of the backend",
    ]
    assert driven.reader.rows(Compilation)[0].status == "ok"


def test_the_graph_can_be_skipped_from_within_the_backend(tmp_path: Path) -> None:
    driven = drive(
        tmp_path / "a.fxs",
        [Command("step"), Command("skip"), Command("quit")],
        pause="step",
        program=compiled,
    )
    assert driven.error is None
    assert driven.reader.rows(Compilation)[0].status == "left"
    assert torch.is_tensor(driven.output)
