"""These tests check that the script of a graph runs alone: in a Python that has torch but not
fx-explorer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer import model
from fx_explorer.analysis.graph_files import (
    HELPERS,
    SIGN,
    STRANGERS,
    UNKNOWN_SIZE,
    graph_script,
    written_graph,
)
from fx_explorer.session import SessionReader
from tests.conftest import ROOT
from tests.exhaustive import with_others
from tests.graph_code.conftest import RunAlone

Captured = Callable[..., Path]

STAGES = {"dynamo", "pre_grad", "joint", "forward", "backward", "post_grad"}

SAMPLES = with_others(
    ["mlp", "dynamic_shapes", "regions", "graph_breaks"], ["convnet", "transformer"]
)

LIBRARY_MODELS = [
    ROOT / "tests" / "report" / "models" / f"{name}.py"
    for name in with_others([], ["llama", "vit"])
]
"""Those that are captured for the report, too, in an exhaustive run."""


def output_types(reader: SessionReader, graph: model.Graph) -> list[str]:
    """Return the types of a graph's outputs, as a script prints them, from the rows of the output's
    arguments.
    """
    output = reader.nodes(graph)[-1]
    names = [one.strip(" ()[],") for one in output.arguments.split(",")]
    by_name = {node.name: node for node in reader.nodes(graph)}
    return [name for name in names if name in by_name and by_name[name].shape is not None]


def test_every_graph_of_the_samples_runs_alone(
    captured: Captured, tmp_path: Path, run_alone: RunAlone
) -> None:
    sessions = [captured(target) for target in (*SAMPLES, *LIBRARY_MODELS)]
    returned: dict[Path, int] = {}
    stages: set[str] = set()
    for session in sessions:
        with SessionReader(session) as reader:
            for graph in reader.rows(model.Graph):
                script = tmp_path / f"{session.stem}-{graph.id}.py"
                script.write_text(graph_script(reader, graph, ["test"]))
                returned[script] = len(output_types(reader, graph))
                stages.add(graph.stage)
    ended = run_alone(list(returned))
    assert stages >= STAGES
    assert len(returned) > 40
    assert {
        file: printed for file, printed in ended.items() if not printed.startswith(("[", "torch."))
    } == {}
    for script, tensors in returned.items():
        assert ended[str(script)].count("torch.") >= min(tensors, 1)


def test_a_size_has_the_value_that_it_had(captured: Captured) -> None:
    with SessionReader(captured("dynamic_shapes")) as reader:
        known = {row.name: row.hint for row in reader.rows(model.Symbol)}
        graph = reader.rows(model.Graph, stage="dynamo")[0]
        script = graph_script(reader, graph, ["test"])
    used = {name for name in known if f"\n{name} = " in script}
    assert used
    for name in used:
        assert f"\n{name} = {known[name]}  # L[" in script


def test_a_tensor_without_dimensions_may_stand_for_a_probability() -> None:
    helpers: dict[str, Any] = {"torch": torch}
    exec(HELPERS, helpers)
    made = [helpers["tensor"]((), (), torch.float64, "cpu") for _ in range(50)]
    assert all(0 <= one < 1 and one.dtype == torch.float64 for one in made)


Written = Callable[..., Any]


def one_graph(
    reader_of: Written,
    *nodes: tuple[str, str, str, str, dict[str, Any]],
    takes: tuple[tuple[int, int], ...] = (),
) -> Any:
    """Return a session with one graph of these nodes: name, opcode, target, arguments, and the
    row's other columns.
    """

    def write(writer: Any) -> None:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "m.py", 1))
        rows = [
            model.Node(0, 0, 0, name, op, target, arguments, **more)
            for name, op, target, arguments, more in nodes
        ]
        writer.add_graph(model.Graph(0, compilation, "dynamo", ""), rows, takes)

    reader = reader_of(write)
    return reader, reader.rows(model.Graph)[0]


TENSOR: dict[str, Any] = {
    "shape": ("2", "3"),
    "stride": ("3", "1"),
    "dtype": "f32",
    "device": "cpu",
}


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (
            {**TENSOR, "stride": None},
            "x had a layout that strides cannot describe; here it is an ordinary tensor.",
        ),
        (
            {**TENSOR, "value": "TwoTensor(a: f32[2, 3], b: f32[2, 3])"},
            "x was TwoTensor(a: f32[2, 3], b: f32[2, 3]); here it is replaced by a plain",
        ),
        (
            {**TENSOR, "shape": ("u0", "3")},
            f"The size u0 has no value in the session; here it is {UNKNOWN_SIZE}.",
        ),
        ({"value": "Generator"}, "The input x is None: the session records only: Generator."),
    ],
)
def test_what_is_not_as_it_was_is_said_at_the_top(
    written: Written, tmp_path: Path, kept: dict[str, Any], said: str, run_alone: RunAlone
) -> None:
    reader, graph = one_graph(
        written,
        ("x", "placeholder", "x", "", kept),
        ("output", "output", "output", "(x,)", {}),
        takes=((0, 1),),
    )
    script = tmp_path / "g.py"
    script.write_text(graph_script(reader, graph, ["test"]))
    head = " ".join(
        line.lstrip("# ") for line in script.read_text().splitlines() if line.startswith("#")
    )
    assert said in head
    assert run_alone([script])[str(script)].startswith("[")


def test_arguments_that_were_shortened_and_values_that_have_no_text_stop_the_script_with_a_sentence(
    written: Written, tmp_path: Path, run_alone: RunAlone
) -> None:
    long = ", ".join(["0.5"] * 600)[:2000] + " …"
    for arguments, said in [
        (long, "longer than a session stores"),
        ("<object object at 0x7f>", "cannot be written as Python"),
    ]:
        reader, graph = one_graph(
            written,
            ("t", "call_function", "torch.tensor", arguments, TENSOR),
            ("output", "output", "output", "t", {}),
            takes=((0, 1),),
        )
        script = tmp_path / "g.py"
        script.write_text(graph_script(reader, graph, ["test"]))
        ended = run_alone([script])[str(script)]
        assert ended.startswith("NotImplementedError: t cannot be computed here: its arguments ")
        assert said in ended


HOSTILE = [
    ("x", "call_function", "os.system", "'touch owned'"),
    ("x", "call_function", "builtins.exec", "'import os'"),
    ("x", "call_function", "torch.load\nimport os", ""),
    ("x", "call_function", "torch.add", "__import__('os').system('touch owned')"),
    ("x", "call_function", "torch.add", "1)\nimport os\nf(1"),
    ("x", "call_function", "torch.add", "[y for y in ().__class__.__mro__]"),
    ("x", "call_function", "torch.add", "torch.os.system('touch owned')"),
    ("x", "call_function", "torch.add", "1 if 1 else 2"),
    ("x", "call_function", "torch.os.system", "'touch owned'"),
    ("x", "call_function", "torch.hub.load", "'a', 'b'"),
    ("x", "call_function", "torch.load", "'a.pt'"),
    ("x", "call_method", "__reduce_ex__(2) or exec", "1"),
    ("x", "call_method", "__class__", "1"),
    ("x", "get_attr", "a; import os", ""),
    ("x = 1; import os; y", "call_function", "torch.add", "1, 1"),
]


@pytest.mark.parametrize(("name", "op", "target", "arguments"), HOSTILE)
def test_nothing_of_a_strangers_session_becomes_code_but_torchs_own_calls(
    written: Written, name: str, op: str, target: str, arguments: str
) -> None:
    evil = '"""\nimport os\nos.system("touch owned")\n"""'
    reader, graph = one_graph(
        written, (name, op, target, arguments, {"value": evil}), ("o", "output", "output", "1", {})
    )
    for form in ("code", "script"):
        text = written_graph(reader, graph, evil, form, is_own=False)  # type: ignore[arg-type]
        assert SIGN in text
        compile(text, "graph.py", "exec")
        lines = [line.strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
        assert not [line for line in lines if line.startswith(("import os", "os."))]
        assert (
            sum("NotImplementedError" in line for line in lines) >= 1 + (form == "script")
            or name != "x"
            or op == "get_attr"
        )
        calls = [line for line in lines if not line.startswith("raise NotImplementedError(")]
        assert not any(
            word in line for line in calls for word in ("os.", "exec(", ".load(", "__class__")
        )
    head = " ".join(line.lstrip("# ") for line in text.splitlines()[:6])
    assert STRANGERS[:40] in head
