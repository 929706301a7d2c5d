"""These tests check what is said of results of torch.compile that the program never calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.findings.every_kind import findings
from tests.shared_files import CASES

CALLED = """
import torch

@torch.compile
def f(x):
    return x + 1

def g(x):
    return x * 2

g(torch.ones(2))
f(torch.ones(2))
handed = torch.compile(g)
print(handed(torch.ones(2)))
"""


@pytest.mark.parametrize(
    ("case", "line", "what"),
    [
        ("01_forecaster_noop", 37, "Call self.compile() there"),
        ("29_backend_silent", 19, "Call the object that torch.compile returned instead of bar"),
    ],
)
def test_the_line_and_what_to_do(case: str, line: int, what: str, captured, reader) -> None:
    session = reader(captured(CASES / f"{case}.py", "--allow-nothing"))
    (finding,) = findings(session)
    assert finding.kind == "never called"
    assert finding.place is not None
    assert finding.place.line + 1 == line
    assert what in finding.detail
    assert finding.severity == "problem"


def test_a_program_that_calls_what_it_compiles_has_none(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "called.py"
    file.write_text(CALLED)
    kinds = {finding.kind for finding in findings(reader(captured(file)))}
    assert not kinds & {"never called", "nothing compiled"}


GOES_PAST = """
import torch

class Encoder(torch.nn.Linear):
    def encode(self, x):
        return self.forward(x)

model = Encoder(2, 2)
model.compile(backend="eager")
model.encode(torch.ones(1, 2))
"""

OF_THE_ORIGINAL = """
import torch

class Encoder(torch.nn.Linear):
    def encode(self, x):
        return self(x)

model = torch.compile(Encoder(2, 2), backend="eager")
model.eval()
model.encode(torch.ones(1, 2))
"""


@pytest.mark.parametrize(
    ("text", "line", "what", "edit"),
    [
        (GOES_PAST, 9, "line 6 calls self.forward(…) instead of self(…)", "model.forward = torch"),
        (
            OF_THE_ORIGINAL,
            8,
            "line 10 calls model.encode, a method of the original",
            "; model.comp",
        ),
    ],
    ids=["compiled in place", "a method of the original"],
)
def test_a_call_that_goes_past_the_compiled_one_is_told_with_its_edit(
    text: str, line: int, what: str, edit: str, tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "past.py"
    file.write_text(text)
    (finding,) = findings(reader(captured(file, "--allow-nothing")))
    assert finding.kind == "never called"
    assert finding.place is not None
    assert finding.place.line + 1 == line
    assert what in finding.text
    (changes,) = [remedy.changes for remedy in finding.remedies if remedy.changes]
    assert edit in changes["overlay"][str(file)].split("\n")[line - 1]


BROKEN_IN_PLACE = """
import torch
from torch import nn

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 4)

    def forward(self, x):
        return self.lstm(x)[0]

tagger = Tagger()
tagger.compile()
tagger(torch.ones(2, 1, 4))
"""


def test_a_break_is_why_nothing_of_a_module_was_compiled(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "tagger.py"
    file.write_text(BROKEN_IN_PLACE)
    rows = findings(reader(captured(file, "--allow-nothing")))
    assert [row.kind for row in rows] == ["graph break"]


HELPERS = """
import torch

class Net(torch.nn.Linear):
    pass

class Kept:
    def __init__(self):
        self.fast = torch.compile(self.step, backend="eager")

    def step(self, x):
        return x + 1

def prepare(net):
    net = torch.compile(net, backend="eager")
    net.eval()

model = Net(2, 2)
prepare(model)
model(torch.ones(1, 2))
Kept().step(torch.ones(2))
"""


def test_a_parameter_that_is_bound_anew_and_an_attribute_that_nobody_reads(
    tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "helpers.py"
    file.write_text(HELPERS)
    rows = findings(reader(captured(file, "--allow-nothing")))
    assert [row.kind for row in rows] == ["never called"] * 2
    by_line = {row.place.line + 1: row for row in rows if row.place}
    assert "bound to the attribute self.fast and never called" in by_line[9].text
    assert "Return net there, and use the returned object" in by_line[15].detail


def test_a_result_that_is_returned_or_read_has_none(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "used.py"
    used = HELPERS.replace("    net.eval()", "    return net")
    file.write_text(used.replace("Kept().step(", "Kept().fast("))
    kinds = {row.kind for row in findings(reader(captured(file, "--allow-nothing")))}
    assert "never called" not in kinds
