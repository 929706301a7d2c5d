"""These tests check the findings about recompiles: one for each thing that varies, compared with the
nearest earlier version.
"""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from fx_explorer.findings.frameworks import FRAMEWORKS
from fx_explorer.findings.recompile_remedies import FIXED_CACHE, NO_CACHE
from fx_explorer.instruments.recompiles.causes import causes
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, record
from tests.conftest import Captured, OpenedReader
from tests.exhaustive import in_exhaustive_runs
from tests.shared_files import CASES


def scored(x: torch.Tensor, flag: bool) -> torch.Tensor:
    return x.sin() + x if flag else x.cos() - x


class Numbered(nn.Module):
    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def forward(self, x: torch.Tensor, kept: list[Any]) -> torch.Tensor:
        kept[self.index] = x
        return x * 2


def calls(function: Any, inputs: Sequence[tuple[Any, ...]], path: Path) -> SessionReader:
    def program(compile_: Compile) -> None:
        compiled = compile_(function)
        for given in inputs:
            compiled(*given)

    return record(path / "s.fxs", program, backend="eager")


def of_kind(reader: SessionReader, kind: str) -> list[Finding]:
    return [finding for finding in findings(reader) if finding.kind == kind]


def test_a_recompile_is_held_against_the_nearest_version(tmp_path: Path) -> None:
    x8, x16 = torch.ones(8, 4), torch.ones(16, 4)
    reader = calls(scored, [(x8, True), (x8, False), (x16, True), (x16, False)], tmp_path)
    why = {row.compilation: (row.of, row.change.kind) for row in causes(reader)}
    assert why["0/1"] == ("0/0", "value")
    # Of (8, True) only the size differs; of the latest version, (8, False), the flag too.
    assert why["0/2"] == ("0/0", "size")
    assert why["0/3"] == ("0/2", "value")


def test_each_thing_that_varies_is_one_finding(tmp_path: Path) -> None:
    x8, x16 = torch.ones(8, 4), torch.ones(16, 4)
    reader = calls(scored, [(x8, True), (x8, False), (x16, True), (x16, False)], tmp_path)
    by_text = {finding.text: finding for finding in of_kind(reader, "recompile")}
    flag = by_text["scored was recompiled 2 times: flag was True, False."]
    size = by_text["scored was recompiled: size 0 of x was 8 and now is 16."]
    assert flag.count == 2
    # Two values, both of which stay in use, cost less than a size that may go on changing.
    assert flag.urgency == "minor"
    assert size.urgency == "again"


def test_it_is_said_that_the_number_of_dimensions_varied(tmp_path: Path) -> None:
    inputs = [(torch.ones(shape), True) for shape in ((2,), (2, 2), (2, 2, 2))]
    (finding,) = of_kind(calls(scored, inputs, tmp_path), "recompile")
    assert "the number of dimensions of x was 1, 2, 3" in finding.text


def test_objects_of_one_class_are_told_as_that(tmp_path: Path) -> None:
    blocks = [Numbered(at) for at in range(4)]

    def program(compile_: Compile) -> None:
        kept: list[Any] = [None] * 4
        for block in blocks:
            block.compile(backend="eager")
        for block in blocks:
            block(torch.ones(2), kept)

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    (finding,) = of_kind(reader, "recompile")
    assert "for other objects: self.index was 0, 1, 2, 3" in finding.text
    assert finding.count == 3


def test_one_object_whose_attribute_changes_is_not_told_as_several(tmp_path: Path) -> None:
    block = Numbered(0)

    def program(compile_: Compile) -> None:
        compiled = compile_(block)
        for at in range(3):
            block.index = at
            compiled(torch.ones(2), [None] * 3)

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    (finding,) = of_kind(reader, "recompile")
    assert "object" not in finding.text


def test_at_the_limit_the_objects_are_counted(tmp_path: Path) -> None:
    class Counted(Numbered):
        """A class of which there are no other objects."""

    blocks = [Counted(at) for at in range(5)]

    def program(compile_: Compile) -> None:
        kept: list[Any] = [None] * 5
        with torch._dynamo.config.patch(recompile_limit=3):
            for block in blocks:
                block.compile(backend="eager")
            for block in blocks:
                block(torch.ones(2), kept)

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    (finding,) = of_kind(reader, "recompile limit")
    assert not of_kind(reader, "recompile")  # they are part of it
    assert "There are 5 objects of the class." in finding.detail
    assert "3 of them have compiled code, and 2 run in eager mode." in finding.detail
    (raised,) = [remedy for remedy in finding.remedies if "recompile_limit = 5" in remedy.text]
    assert raised.state == "cannot be tried"  # the program sets its own


def test_a_counter_is_not_said_to_be_dynamic_once_it_went_on(
    captured: Captured, reader: OpenedReader
) -> None:
    session = reader(captured(CASES / "03_handmade_adam.py"))
    (finding,) = of_kind(session, "recompile")
    assert finding.count == 5
    assert "1.0, 2.0, 3.0, 4.0, 5.0, 6.0" in finding.text
    assert "torch made it dynamic" not in finding.detail
    assert any(remedy.changes for remedy in finding.remedies)


def test_paths_of_frameworks_are_told_apart() -> None:
    paths = {
        "/x/site-packages/transformers/generation/utils.py": "generate() of transformers",
        "/x/site-packages/transformers/trainer.py": "the Trainer of transformers",
        "/x/site-packages/lightning/pytorch/core/module.py": "PyTorch Lightning",
        "/x/site-packages/transformers/models/gpt2/modeling_gpt2.py": None,
        "/home/me/train.py": None,
    }
    for path, name in paths.items():
        matching = [framework.name for framework in FRAMEWORKS if framework.path.search(path)]
        assert matching == ([name] if name else [])


IN_A_THREAD = """
import threading
import torch

torch._dynamo.config.recompile_limit = 32

@torch.compile(backend="eager", dynamic=False)
def f(x):
    return x + 1

def train():
    torch._dynamo.config.accumulated_recompile_limit = 64
    for size in range(2, 12):
        f(torch.ones(size))

worker = threading.Thread(target=train)
worker.start()
worker.join()
"""


def test_a_limit_that_another_thread_has_is_told(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "threads.py"
    file.write_text(IN_A_THREAD)
    (finding,) = findings(reader(captured(file)))
    assert finding.kind == "recompile limit"
    assert any("threads.py:5 sets it to 32, but it was 8" in line for line in finding.evidence)
    assert "at the beginning of the thread's function" in finding.detail
    assert "more versions are kept" not in finding.detail


OWN_SIZES = """
import torch

torch._dynamo.config.recompile_limit = 2

class Widen(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x).relu()

layers = [Widen(width, width + 1) for width in range(2, 6)]
for layer in layers:
    layer.compile(backend="eager")
x = torch.ones(1, 2)
with torch.no_grad():
    for layer in layers:
        x = layer(x)
"""


def test_objects_with_sizes_of_their_own_are_told_as_that(tmp_path: Path, captured, reader) -> None:
    file = tmp_path / "widths.py"
    file.write_text(OWN_SIZES)
    (finding,) = findings(reader(captured(file)))
    assert finding.kind == "recompile limit"
    assert "There are 4 objects of the class." in finding.detail
    assert "each object has its own size" in finding.detail
    assert "Pad" not in finding.detail


SQUARE = """
import torch

def f(x):
    return (x * 2).sum(0)

g = torch.compile(f, backend="eager", dynamic=True)
g(torch.ones(4, 4))
g(torch.ones(4, 6))
"""


def test_sizes_that_were_equal_by_chance_can_be_kept_apart(
    tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "square.py"
    file.write_text(SQUARE)
    (finding,) = findings(reader(captured(file)))
    (remedy,) = [remedy for remedy in finding.remedies if remedy.changes]
    assert "use_duck_shape = False" in remedy.text
    assert "use_duck_shape" in remedy.changes["overlay"][str(file)].split("\n")[1]


def test_what_peft_offers_is_for_adapters_alone() -> None:
    (peft,) = [framework for framework in FRAMEWORKS if framework.name == "PEFT"]
    assert "hotswap" in peft.offered_for("self.scaling['style']")
    assert not peft.offered_for("hook")
    (lightning,) = [framework for framework in FRAMEWORKS if "Lightning" in framework.name]
    assert lightning.offered_for("anything")


CACHED = """
import torch

class Layer:
    def __init__(self):
        self.is_initialized = False
        self.keys = None

@torch.compile(backend="eager")
def attend(x, past_key_values):
    layer = past_key_values[0]
    if layer.is_initialized:
        return x + layer.keys.sum()
    return x * 2

@torch.compile(backend="eager")
def grown(x, past_key_values):
    return x + past_key_values.keys.sum()

layer = Layer()
attend(torch.ones(2), [layer])
layer.is_initialized, layer.keys = True, torch.ones(3)
attend(torch.ones(2), [layer])
grown(torch.ones(2), layer)
layer.keys = torch.ones(5)
grown(torch.ones(2), layer)
"""


def test_the_cache_of_transformers_has_remedies_that_its_user_can_follow(
    tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "cached.py"
    file.write_text(CACHED)
    everything = {
        finding.text.split(".")[0]: finding for finding in findings(reader(captured(file)))
    }
    state = next(f for name, f in everything.items() if name.startswith("attend"))
    assert [remedy.text for remedy in state.remedies] == [NO_CACHE.text]
    size = next(f for name, f in everything.items() if name.startswith("grown"))
    assert "mark_dynamic" not in size.detail
    assert FIXED_CACHE in size.remedies


MODULES = """
import torch
from torch import nn

linear, relu = [
    torch.compile(module, backend="eager") for module in (nn.Linear(2, 2), nn.ReLU())
]
flat = torch.compile(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), backend="eager")
encoder = torch.compile(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), backend="eager")
image = torch.compile(nn.Sequential(nn.Conv2d(1, 1, 2), nn.Flatten()), backend="eager")
other = torch.compile(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), backend="eager")
for _ in range(2):
    relu(linear(torch.ones(1, 2)))
    flat(torch.ones(1, 2))
    image(torch.ones(1, 1, 4, 4))
    other(torch.ones(1, 3))
    encoder(torch.ones(1, 2, 4))
"""


@in_exhaustive_runs
def test_modules_of_torch_that_share_one_of_its_functions_are_no_problem(
    tmp_path: Path, captured, reader
) -> None:
    file = tmp_path / "modules.py"
    file.write_text(MODULES)
    everything = findings(reader(captured(file)))
    assert everything
    for finding in everything:
        assert finding.severity == "notice"
        assert "as a recompile" in finding.text or "as recompiles" in finding.text
        assert not finding.remedies


def test_training_and_evaluation_are_no_problem(tmp_path: Path) -> None:
    """A program that trains and evaluates compiles both once."""
    layer = nn.Dropout(0.5)

    def program(compile_: Compile) -> None:
        compiled = compile_(lambda x: layer(x).sin())
        compiled(torch.ones(4))
        layer.eval()
        compiled(torch.ones(4))
        with torch.no_grad():
            compiled(torch.ones(4))

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    rows = of_kind(reader, "recompile")
    assert {row.severity for row in rows} == {"notice"}
    assert not [remedy for row in rows for remedy in row.remedies]
    assert all("no change is needed" in row.explanation for row in rows)


def test_a_gan_calls_its_critic_with_and_without_gradients_of_the_input(tmp_path: Path) -> None:
    """Both networks train: the critic sees the generator's output detached, and attached."""
    generator, critic = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def program(compile_: Compile) -> None:
        score = compile_(lambda x: critic(x).mean())
        for _ in range(2):
            fake = generator(torch.ones(2, 4))
            critic.requires_grad_(True)
            score(fake.detach()).backward()
            critic.requires_grad_(False)
            score(fake).backward()

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    (finding,) = of_kind(reader, "recompile")
    assert "requires_grad" in finding.text
    assert finding.severity == "notice"
    assert not finding.remedies, "the program needs both"
    assert "no change is needed" in finding.explanation


def test_many_values_of_a_number_stay_a_problem(tmp_path: Path) -> None:
    x = torch.ones(4)
    reader = calls(lambda x, n: x * n, [(x, 0.1), (x, 0.2), (x, 0.3)], tmp_path)
    assert all(row.severity == "problem" for row in of_kind(reader, "recompile"))


def test_an_argument_that_a_package_gives_has_no_remedy_of_the_users(tmp_path: Path) -> None:
    """The line that passes it is in a package: nothing there is the user's to change."""
    package = tmp_path / "layers.py"
    package.write_text(
        "import torch\n"
        "def inner(x):\n    torch._dynamo.graph_break()\n    return x * 2\n"
        "def outer(x):\n    torch._dynamo.graph_break()\n"
        "    return inner(x) + inner(x.double())\n",
        encoding="utf-8",
    )
    spec = importlib.util.spec_from_file_location("layers", package)
    assert spec is not None
    assert spec.loader is not None
    layers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layers)

    def program(compile_: Compile) -> None:
        compile_(layers.outer)(torch.ones(4))

    record(tmp_path / "s.fxs", program, backend="eager").close()
    with closing(sqlite3.connect(tmp_path / "s.fxs")) as session:
        session.execute("UPDATE source_file SET is_user=0 WHERE path LIKE '%layers.py'")
        session.commit()
    reader = SessionReader(tmp_path / "s.fxs")
    of_inner = [row for row in of_kind(reader, "recompile") if "inner" in row.text]
    assert of_inner
    assert "dtype" in of_inner[0].text
    assert not of_inner[0].remedies


def chained(x: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        x = x.sin() + x.cos() * x - x.tanh()
    return x


def test_a_number_that_the_code_decides_by_is_no_tensor_to_be(tmp_path: Path) -> None:
    x = torch.ones(4)
    (finding,) = of_kind(calls(chained, [(x, 3), (x, 5), (x, 7)], tmp_path), "recompile")
    assert "The code depends on the value of times" in finding.explanation
    (remedy,) = finding.remedies
    assert remedy.text.startswith(
        "If it takes many values, keep the code that depends on times outside"
    )


def scaled(x: torch.Tensor, times: int) -> torch.Tensor:
    return x * torch.full((2,), times)


def test_a_number_that_is_only_computed_with_does_not_steer(tmp_path: Path) -> None:
    x = torch.ones(2)
    for finding in of_kind(calls(scaled, [(x, 3), (x, 5), (x, 7)], tmp_path), "recompile"):
        assert "depends on the value of" not in finding.explanation


def test_the_recompiles_of_an_unrolled_loop_are_told_with_the_loop(tmp_path: Path) -> None:
    x = torch.ones(4)
    reader = calls(chained, [(x, 25), (x, 30)], tmp_path)
    assert not of_kind(reader, "recompile")
    (loop,) = of_kind(reader, "unrolled loop")
    assert "It was compiled for several numbers of iterations: 25, 30." in loop.evidence


THREADS = """
import torch

@torch.compile(backend="eager")
def step(x):
    return x.sin() + 1

before = torch.get_num_threads()
torch.set_default_dtype(torch.float32)
step(torch.ones(2))
torch.set_num_threads(before + 1)
step(torch.ones(2))
"""


def test_the_line_that_changes_a_global_setting_is_named(
    tmp_path: Path, captured: Captured, reader: OpenedReader
) -> None:
    file = tmp_path / "threads.py"
    file.write_text(THREADS)
    (finding,) = of_kind(reader(captured(file)), "recompile")
    assert "threads.py:11 sets it: torch.set_num_threads(before + 1)" in finding.evidence
    assert "set_default_dtype" not in finding.detail


HISTORY: list[int] = []


def noted(x: torch.Tensor) -> torch.Tensor:
    HISTORY.append(x.shape[0])
    return x * 2


def test_a_size_that_is_dynamic_in_the_newest_version_is_not_the_cause(tmp_path: Path) -> None:
    HISTORY.clear()
    reader = calls(noted, [(torch.ones(8),), (torch.ones(5),), (torch.ones(4),)], tmp_path)
    (last,) = (row for row in causes(reader) if row.compilation == "0/2")
    # The size failed in 0/0 alone: 0/1 is compiled for any.
    assert (last.of, last.change.kind) == ("0/1", "length")
