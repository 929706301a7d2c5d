"""These tests check that an option of a capture takes effect for a script, and for a target that
calls torch.compile itself, or is refused before the program runs.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer.command_line.capture_options import add_capture_arguments, request_from
from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest
from fx_explorer.program.arguments_of_script import request_of_script
from fx_explorer.program.calling import compile_target
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.place import locate
from fx_explorer.program.target import Target
from tests.worker.capturing import capture
from tests.worker.test_calling import job

SCRIPT = """
import torch
print("began")
compiled = torch.compile(lambda x: x.sin() + 1, backend="eager")
print(compiled(torch.ones(3)))
"""


def script(tmp_path: Path, **fields: Any) -> CaptureRequest:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return CaptureRequest(str(path), "", **fields)


def as_script(request: CaptureRequest) -> CaptureRequest:
    """Return the request that the worker makes of one for a script."""
    return request_of_script(request, locate(request))


def test_arguments_of_torch_compile_replace_those_of_the_script(tmp_path: Path) -> None:
    request = script(
        tmp_path, mode="max-autotune", dynamic=False, settings={"inductor.debug": True}
    )
    assert as_script(request).compile_arguments == {"mode": "max-autotune", "dynamic": False}
    assert as_script(request).settings["inductor.debug"] is True
    assert as_script(script(tmp_path, backend="eager")).compile_arguments == {"backend": "eager"}
    plain = script(tmp_path)
    assert as_script(plain) == plain
    assert as_script(as_script(request)) == as_script(request)


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (
        {"options": {"max_fusion_size": 4, "debug": True}},
        "--option max_fusion_size=4 --option debug=True would have no effect",
        "Use --setting inductor.max_fusion_size=4 --setting inductor.debug=True.",
    ),
    (
        {"options": {"guard_filter_fn": "keep.py:keep"}},
        "--option guard_filter_fn=keep.py:keep would have no effect",
        "the program's own call of torch.compile",
    ),
    ({"train": True}, "--train would have no effect", "FILE.py:NAME"),
    ({"train": False}, "--no-train would have no effect", "FILE.py:NAME"),
    ({"device": "cpu"}, "--device would have no effect", "FILE.py:NAME"),
    (
        {"mode": "default", "settings": {"compile.mode": "max-autotune"}},
        "--mode default contradicts --setting compile.mode=max-autotune",
        "one of them",
    ),
]


@pytest.mark.parametrize(("fields", "problem", "advice"), REFUSED)
def test_what_a_script_cannot_take_is_refused_with_what_to_do_instead(
    tmp_path: Path, fields: dict[str, Any], problem: str, advice: str
) -> None:
    with pytest.raises(TargetError) as refused:
        as_script(script(tmp_path, **fields))
    assert problem in str(refused.value)
    assert advice in str(refused.value)


def test_a_call_of_a_directory_that_runs_as_a_script_is_refused(tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text(SCRIPT)
    with pytest.raises(TargetError, match="--call would have no effect"):
        as_script(CaptureRequest(str(tmp_path), "", call="f"))


async def test_an_option_is_refused_before_the_script_begins(tmp_path: Path) -> None:
    request = script(tmp_path)
    ended = await capture(Path(request.target), options={"max_fusion_size": 4})
    assert ended.outcome.kind == "not_started"
    assert "Use --setting inductor.max_fusion_size=4." in ended.outcome.message
    assert ended.printed() == []


async def test_the_backend_of_a_capture_compiles_what_the_script_gives(tmp_path: Path) -> None:
    request = script(tmp_path)
    ended = await capture(Path(request.target), backend="aot_eager", dynamic=True)
    assert ended.outcome.kind == "finished"
    assert ended.compilations == 1
    assert ended.backends == ["aot_eager"]


def test_the_default_backend_replaces_that_of_a_script_when_it_is_given(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    add_capture_arguments(parser)
    target = script(tmp_path).target
    arguments = parser.parse_args([target, "--backend", "inductor"])
    arguments.given = frozenset({"target", "backend"})
    assert request_from(arguments).compile_arguments == {"backend": "inductor"}
    arguments.given = frozenset({"target"})
    assert request_from(arguments).compile_arguments == {}
    arguments.given, arguments.target = frozenset({"target", "backend"}), f"{target}:compiled"
    assert request_from(arguments).compile_arguments == {}


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({"mode": "max-autotune"}, "--setting compile.mode=max-autotune"),
        ({"backend": "aot_eager"}, "--setting compile.backend=aot_eager"),
        ({"dynamic": True}, "--setting compile.dynamic=True"),
        ({"options": {"max-fusion-size": 4}}, "--setting inductor.max_fusion_size=4"),
    ],
)
def test_an_argument_is_refused_for_a_target_that_compiles_itself(
    fields: dict[str, Any], advice: str
) -> None:
    function = torch.compile(lambda x: x + 1, backend="eager")
    target = Target("f", function, Arguments((torch.ones(1),)))
    asked = job()
    asked.request = replace(asked.request, **fields)
    with pytest.raises(TargetError, match="f calls torch") as refused:
        compile_target(target, asked)
    assert advice in str(refused.value)
