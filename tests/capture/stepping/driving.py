"""These helpers drive a capture from a test: the commands are sent as the capture asks for them."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from fx_explorer.capture.recorder import compile_arguments, recording
from fx_explorer.capture.stepping.after_the_program import finish
from fx_explorer.capture.stepping.gates import Gates, LeftAtGate
from fx_explorer.capture.stepping.stepped_boundary import stepper_of
from fx_explorer.model import (
    GATES,
    Artifact,
    CaptureRequest,
    Command,
    Compilation,
    Gate,
    Notice,
    Pause,
)
from fx_explorer.session import SessionReader, SessionWriter

STEPS = [Command("step")] * 40

INDUCTORS_GATES: tuple[Gate, ...] = tuple(gate for gate in GATES if gate != "backend")
"""The gates of a compile by Inductor, which publishes no stage of its own."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


class WithNorm(Net):
    """WithNorm changes its buffers, and Dynamo begins it anew for dynamic shapes, as its floats
    turn out to be constants. It takes twice as long to compile.
    """

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.norm(self.up(x))))


class Broken(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(x)
        torch._dynamo.graph_break()
        return self.down(torch.relu(x))


@dataclass
class Driven:
    """Driven is the result of a capture that was stepped through."""

    reader: SessionReader
    notices: list[Notice] = field(default_factory=list)
    output: torch.Tensor | None = None
    model: nn.Module | None = None
    error: BaseException | None = None
    """The exception that ended the program, if it did not come to its end."""

    def variant(self, name: str) -> Compilation:
        return self.reader.rows(Compilation, name=name)[0]

    def codes(self, name: str = "0/0") -> dict[str, str]:
        """Direction → output code without its number and comments."""
        rows = self.reader.rows(Artifact, compilation=self.variant(name).id, kind="output_code")
        return {row.direction: re.sub(r"#.*", "", self.reader.text(row.text)) for row in rows}

    def said(self, kind: str) -> list[str]:
        return [notice.text for notice in self.notices if notice.kind == kind]

    def paused_at(self) -> list[tuple[Gate | None, str]]:
        return [
            (n.gate, n.direction) for n in self.notices if n.kind == "gate" and n.state == "begin"
        ]


Given = Command | Callable[[], Command]
"""A command, or a function that does something first and returns one."""


class Driver:
    """A Driver gives the next command whenever the capture waits for one."""

    def __init__(self, commands: Iterable[Given]) -> None:
        self.commands: Iterator[Given] = iter(commands)
        self.notices: list[Notice] = []
        self.gates: Gates | None = None
        self.is_finished = False
        self._last = ""

    def hear(self, notice: Notice) -> None:
        self.notices.append(notice)
        if notice.kind == "gate":
            self.is_finished = notice.gate is None and notice.state == "begin"
        if notice.kind in ("gate", "done", "refused") and self._is_asked(notice):
            self._give(next(self.commands, Command("quit" if self.is_finished else "go")))

    def _give(self, given: Given) -> None:
        command = given if isinstance(given, Command) else given()
        assert self.gates is not None
        if self.gates.put(command):
            self._last = command.kind
        else:
            self.commands = itertools.chain([command], self.commands)

    def _is_asked(self, notice: Notice) -> bool:
        if notice.kind == "gate":
            return notice.state == "begin"
        return notice.kind == "refused" or self.is_finished or self._last in ("set", "mark", "pass")


def compiled_call(
    net: nn.Module, arguments: tuple[torch.Tensor, ...], request: CaptureRequest
) -> torch.Tensor:
    output: torch.Tensor = torch.compile(net, **compile_arguments(request))(*arguments)
    return output


def drive(
    path: Path,
    commands: Iterable[Given] = (),
    *,
    pause: Pause = "",
    model: Callable[[], nn.Module] = Net,
    inputs: Callable[[], tuple[torch.Tensor, ...]] = lambda: (torch.randn(4, 16),),
    program: Callable[
        [nn.Module, tuple[torch.Tensor, ...], CaptureRequest], torch.Tensor
    ] = compiled_call,
    **options: object,
) -> Driven:
    torch._dynamo.reset()
    request = CaptureRequest("test", str(path), pause=pause, stay=True, **options)  # type: ignore[arg-type]
    driver = Driver(commands)
    torch.manual_seed(0)
    net, arguments = model(), inputs()
    result = Driven(None, driver.notices, model=net)  # type: ignore[arg-type]
    with SessionWriter(path) as writer, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        driver.gates = gates = Gates(pause, driver.hear)
        with recording(writer, request, driver.hear, gates) as state:
            try:
                result.output = program(net, arguments, request)
                result.output.sum().backward()
            except (LeftAtGate, Exception) as error:  # noqa: BLE001 - the worker goes on to its end, as here
                result.error = error
            stepper = stepper_of(state)
            assert stepper is not None
            finish(stepper, lambda: None)
    torch._dynamo.reset()
    result.reader = SessionReader(path)
    return result
