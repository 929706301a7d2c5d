"""These tests check ``fx-explorer diff``: the differences between two captures of programs that
differ in one known way.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.analysis.measured_times import text_figure
from fx_explorer.errors import UsageError
from fx_explorer.instruments.diff.kernel_pairs import kernel_pairs, pair_counts
from fx_explorer.instruments.diff.other_python import capture_by, names_by_release
from fx_explorer.instruments.diff.report import text_of_both
from fx_explorer.model import CaptureRequest, Compilation, Kernel, KernelBuild
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.trials import TrialWorker

Captured = Callable[..., Path]

PROGRAM = """import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        y = torch.{activation}(self.first(x)) * 2
        {between}
        return torch.softmax(self.second(y), -1)

model = Net()
example_inputs = (torch.randn(4, 8),)
"""


@pytest.fixture(scope="module")
def sessions(captured: Captured, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same small program as it is, with another activation, and with a print in its middle."""
    made = {
        "plain": ("sigmoid", "pass"),
        "tanh": ("tanh", "pass"),
        "printing": ("sigmoid", "print('here')"),
    }
    found = {}
    for name, (activation, between) in made.items():
        file = tmp_path_factory.mktemp(name) / "net.py"
        file.write_text(PROGRAM.format(activation=activation, between=between))
        found[name] = captured(file, train=False)
    return found


def diff(*arguments: object) -> int:
    return cli.main(["diff", *map(str, arguments)])


@pytest.mark.parametrize("pair", [("plain", "tanh"), ("plain", "printing")])
def test_on_a_terminal_of_80_columns_every_line_fits(
    sessions: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    pair: tuple[str, str],
) -> None:
    one, two = (sessions[name] for name in pair)
    assert diff(one, two) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr("fx_explorer.instruments.diff.command.width_for", lambda out: 80)
    assert diff(one, two) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    # After the first line, which has the names of the sessions, cut; kernels have their names cut,
    # too.
    figures, shown_figures = (
        text.split("\n", 1)[1].split("kernels, by what")[0].split() for text in (whole, shown)
    )
    assert shown_figures == figures


def test_long_figures_of_both_sides_do_not_touch(
    sessions: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = "23 kernels, 46.2 kB saved", "15 kernels, 384 B saved"
    figure = text_figure("  [0/0]", left, right)
    monkeypatch.setattr("fx_explorer.instruments.diff.report.figures_of_both", lambda *_: [figure])
    with SessionReader(sessions["plain"]) as one, SessionReader(sessions["tanh"]) as other:
        assert f"{left}  {right}" in "\n".join(text_of_both(one, other, ("a", "b")))


def test_a_comparison_that_was_cut_off_says_so(
    sessions: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fx_explorer.model.bounded_matching.MOST_STEPS", 1)
    assert diff(sessions["plain"], sessions["tanh"]) == 0
    assert (
        "changed lines; the comparison stopped after 50,000 lines or 20,000,000 steps"
        in capsys.readouterr().out
    )
    assert diff(sessions["plain"], sessions["tanh"], "--format", "json") == 0
    assert True in [
        pair["comparison_was_cut"] for pair in json.loads(capsys.readouterr().out)["kernels"]
    ]


def test_a_session_differs_from_itself_in_nothing(
    sessions: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(sessions["plain"], sessions["plain"]) == 0
    printed = capsys.readouterr().out
    assert "≠" not in printed
    with SessionReader(sessions["plain"]) as one, SessionReader(sessions["plain"]) as other:
        counts = pair_counts(kernel_pairs(one, other))
    assert counts["same"] == sum(counts.values()) > 0


def test_only_the_kernel_of_the_changed_line_differs(
    sessions: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(sessions["plain"], sessions["tanh"], "--format", "json") == 0
    told = json.loads(capsys.readouterr().out)
    differing = [pair for pair in told["kernels"] if pair["difference"] == "code"]
    assert len(differing) == 1
    assert "sigmoid" in differing[0]["left"]["name"]
    assert "tanh" in differing[0]["right"]["name"]
    assert all(pair["difference"] == "same" for pair in told["kernels"] if pair is not differing[0])
    assert any("tanh" in line["right"] for line in differing[0]["lines"] if line["right"])


def test_a_break_that_one_side_has_is_named_with_its_line(
    sessions: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(sessions["plain"], sessions["printing"]) == 0
    printed = capsys.readouterr().out
    line = 1 + PROGRAM.splitlines().index("        {between}")
    assert f"breaks at net.py:{line}" in printed
    assert [words.split()[2:] for words in printed.splitlines() if words.startswith("graphs ")] == [
        ["2", "≠", "+1", "(+100", "%)"]
    ]


def test_two_backends_are_named_beside_what_only_one_of_them_makes(
    captured: Captured, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        diff(captured("mlp", train=False), captured("mlp", train=False, backend="aot_eager")) == 0
    )
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["backend", "inductor", "aot_eager", "≠"] in rows


def test_the_code_of_one_kernel_is_shown_line_by_line(
    sessions: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionReader(sessions["plain"]) as one, SessionReader(sessions["tanh"]) as other:
        (pair,) = (pair for pair in kernel_pairs(one, other) if pair.difference == "code")
    assert pair.left is not None
    assert diff(sessions["plain"], sessions["tanh"], "--kernel", pair.left.kernel.name) == 0
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("+", "-")) for line in printed) >= pair.changed_lines
    assert any(line.startswith("+ ") and "tanh" in line for line in printed)


def test_kernels_for_two_gpus_differ_by_device_and_each_tells_what_it_uses(
    captured: Captured,
    warm_python_for_gpus: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """The registers are those that each session's own table of configurations has."""
    pytest.importorskip("triton")
    sessions = []
    for gpu in ("a100", "mi300x"):
        sessions.append(tmp_path / f"{gpu}.fxs")
        shutil.copy(captured("mlp", train=False, gpu=gpu), sessions[-1])
    python = ("--python", warm_python_for_gpus)
    assert diff(*sessions, "--kernels", "all", "--format", "json", *python) == 0
    told = json.loads(capsys.readouterr().out)
    differences = {(pair["left"]["language"], pair["difference"]) for pair in told["kernels"]}
    assert differences == {("extern", "same"), ("triton", "device")}
    (generated,) = (pair for pair in told["kernels"] if pair["left"]["language"] == "triton")
    for session, side in zip(sessions, ("left", "right"), strict=True):
        with SessionReader(session) as reader:
            registers = [row.registers for row in reader.rows(KernelBuild)]
        assert [
            one[side]["registers"] for one in generated["configurations"] if one[side]
        ] == registers
        assert min(registers) > 0
        assert generated[side]["estimate"] == "1.50 µs, so short that its launch takes longer"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{plain}"], "diff compares two"),
        (["{plain}", "--gpu", "a100", "--gpu", "h100"], "--gpu works on targets"),
        (["{plain}", "{tanh}", "--gpu", "a100", "--gpu", "h100"], "diff compares two"),
        (
            ["{plain}", "{tanh}", "--kernel", "nowhere"],
            "neither session has a kernel called 'nowhere'",
        ),
        (["{plain}", "missing.fxs"], "no session file"),
        (["model.py", "--python", "python3"], "diff compares two"),
        (["{plain}", "{tanh}", *(["--python", "python3"] * 3)], "diff compares two"),
    ],
)
def test_what_cannot_be_compared_is_said(
    sessions: dict[str, Path], capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert diff(
        *(word.format(**{name: str(path) for name, path in sessions.items()}) for word in arguments)
    ) in (2, 5)
    assert said in capsys.readouterr().err


def test_one_target_is_captured_by_each_of_two_interpreters(
    tmp_path: Path, warm_python: str, bare_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "f.py"
    target.write_text("import torch\ndef f(x): return x.sin()\nexample_inputs = (torch.ones(3),)\n")
    pythons = [warm_python, bare_python]
    options = [word for python in pythons for word in ("--python", python)]
    assert diff(f"{target}:f", *options, "--backend", "eager", "--format", "json") == 0
    captured = capsys.readouterr()
    assert [line for line in captured.err.splitlines() if line.startswith("capturing")] == [
        f"capturing {target}:f by {python}" for python in pythons
    ]
    told = json.loads(captured.out)
    assert [told["left"], told["right"]] == pythons, "their torch is the same"
    assert all(figure["left"] == figure["right"] for figure in told["figures"][:3])


async def test_the_app_captures_by_another_interpreter_what_the_command_captures(
    tmp_path: Path, warm_python: str, bare_python: str
) -> None:
    target = tmp_path / "f.py"
    target.write_text("import torch\ndef f(x): return x.sin()\nexample_inputs = (torch.ones(3),)\n")
    request = CaptureRequest(f"{target}:f", "", backend="eager")
    other = await capture_by(request, bare_python, tmp_path, worker=TrialWorker(warm_python))
    with SessionReader(other.session) as reader:
        assert reader.count(model.Graph) == 1
        releases = names_by_release(reader, reader, (warm_python, bare_python))
    assert releases == (warm_python, bare_python), "their torch is the same"
    with pytest.raises(UsageError, match="could not be captured by /nowhere/python"):
        await capture_by(request, "/nowhere/python", tmp_path)


def test_the_standard_input_cannot_be_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", "-", "-"]) == 2
    assert "can be read only once" in capsys.readouterr().err


def test_kernels_of_which_no_nodes_are_known_are_paired_by_name(tmp_path: Path) -> None:
    names = {"left": ["sum", "mean"], "right": ["mean", "sum"]}
    for side, kernels in names.items():
        with SessionWriter(tmp_path / side) as writer:
            compilation = writer.add(Compilation(0, "0/0", 0, 0, "f", "f.py", 1))
            writer.add_all(
                Kernel(0, compilation, "forward", i, name, "extern")
                for i, name in enumerate(kernels)
            )
    with SessionReader(tmp_path / "left") as left, SessionReader(tmp_path / "right") as right:
        pairs = kernel_pairs(left, right)
    assert [
        (pair.left.kernel.name, pair.right.kernel.name)
        for pair in pairs
        if pair.left and pair.right
    ] == [
        ("sum", "sum"),
        ("mean", "mean"),
    ]
