"""Settings that were asked for and do nothing in this program: options that were set where torch
does not read them, CUDA graphs where no graph is on a GPU, and freezing where every graph is
compiled for training.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.findings import devices_of_nodes

REDUCE_OVERHEAD = "reduce-overhead"
"""The mode whose only setting is triton.cudagraphs (torch/_inductor/__init__.py,
list_mode_options). The modes that also autotune do something on a CPU, too.
"""

FREEZING = "freezing"


def find_settings_without_effect(reader: SessionReader) -> Iterator[Finding]:
    """Yield options that torch does not read, CUDA graphs that were asked for on a CPU, and
    freezing in training.
    """
    yield from _misplaced(reader)
    asks_for_graphs = _cuda_graphs_setting(reader)
    if asks_for_graphs and _is_on_cpu_only(reader):
        yield _finding(
            reader,
            asks_for_graphs,
            f"{_setting_text(asks_for_graphs)} has no effect: no graph is on a GPU.",
            "It asks for CUDA graphs, which exist on a GPU only, and torch skips them on a CPU.",
            Remedy("Remove it, or run the program on a GPU."),
        )
    freezing = _freezing_setting(reader)
    if freezing and _is_training_only(reader):
        yield _finding(
            reader,
            freezing,
            "The option freezing has no effect: every graph is compiled for training.",
            "Freezing turns weights into constants, which must not change afterwards. torch "
            "freezes only code that is compiled without gradients.",
            Remedy("For inference, call the compiled model within torch.no_grad()."),
        )


def _misplaced(reader: SessionReader) -> Iterator[Finding]:
    """Yield the options that a line of the user's sets on a module that has none of that name."""
    lines = SourceLines(reader)
    options: dict[tuple[str, str, str], list[str]] = {}
    for package, name, value, option in reader.meta("misplaced_settings") or ():
        options.setdefault((package, name, value), []).append(option)
    for (package, name, value), full_names in options.items():
        place = _assignment(reader, lines, package, name)
        if place:
            yield _misplaced_setting(reader, lines, place, (package, name, value), full_names)


def _misplaced_setting(
    reader: SessionReader,
    lines: SourceLines,
    place: tuple[str, int],
    setting: tuple[str, str, str],
    full_names: Sequence[str],
) -> Finding:
    package, name, value = setting
    wanted = [f"torch._{option.replace('.', '.config.', 1)}" for option in full_names]
    remedies = [
        Remedy(f"Set {option} = {_as_python(value)} before the first call.") for option in wanted
    ]
    return Finding(
        kind="setting without effect",
        text=f"{package}.{name} is not an option of torch: setting it has no effect.",
        urgency="not compiled",
        topic="backend",
        place=place_of_path(reader, *place),
        view="source",
        evidence=(f"{in_file(*place)}: {lines.code(*place)}",),
        explanation=(
            "Python creates a new attribute of the module, without an error. The option of this "
            f"name is {' or '.join(wanted)}."
        ),
        remedies=tuple(remedies),
    )


def _as_python(value: str) -> str:
    return repr(json.loads(value))


def _assignment(
    reader: SessionReader, lines: SourceLines, package: str, name: str
) -> tuple[str, int] | None:
    """Return the user's first line that sets an attribute of this name, on what ends as the package
    does if there is one.
    """
    places = []
    for file in reader.rows(model.SourceFile):
        tree = lines.tree(file.path) if file.is_user else None
        for node in ast.walk(tree) if tree else ():
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            if node.attr == name:
                is_of_package = ast.unparse(node.value) == package
                places.append((not is_of_package, file.path, node.lineno))
    return min(places)[1:] if places else None


def _finding(
    reader: SessionReader,
    setting: model.OptionInForce,
    text: str,
    explanation: str,
    remedy: Remedy,
) -> Finding:
    place: Place | None = None
    evidence = []
    if setting.file:
        place = place_of_path(reader, setting.file, setting.line)
        evidence.append(f"It is set at {in_file(setting.file, setting.line)}.")
    return Finding(
        kind="setting without effect",
        text=text,
        urgency="minor",
        severity="notice",
        topic="backend",
        place=place,
        view="kernels",
        evidence=tuple(evidence),
        explanation=explanation,
        remedies=(remedy,),
    )


def _cuda_graphs_setting(reader: SessionReader) -> model.OptionInForce | None:
    """Return the setting whose only effect is CUDA graphs; None if there is none, or if a mode with
    more effects is also in force.
    """
    for row in reader.rows(model.OptionInForce, name="compile.mode"):
        if _value(row) == REDUCE_OVERHEAD:
            return row
    for row in reader.rows(model.OptionInForce, name="compile.options"):
        options = _value(row)
        if isinstance(options, dict) and options.get("triton.cudagraphs"):
            return row
    return None


def _freezing_setting(reader: SessionReader) -> model.OptionInForce | None:
    for row in reader.rows(model.OptionInForce, name="inductor.freezing"):
        if _value(row) is True:
            return row
    for row in reader.rows(model.OptionInForce, name="compile.options"):
        options = _value(row)
        if isinstance(options, dict) and options.get(FREEZING):
            return row
    return None


def _setting_text(setting: model.OptionInForce) -> str:
    if setting.name == "compile.mode":
        return f'mode="{REDUCE_OVERHEAD}"'
    return "The option triton.cudagraphs"


def _value(row: model.OptionInForce) -> object:
    try:
        return json.loads(row.value)
    except ValueError:
        return None


def _is_on_cpu_only(reader: SessionReader) -> bool:
    """Return whether all tensors of all graphs are on the CPU, and there are some."""
    return devices_of_nodes(reader) == {"cpu"}


def _is_training_only(reader: SessionReader) -> bool:
    """Return whether Inductor compiled graphs, and each for training."""
    directions = set()
    for compilation in variants_in_use(reader):
        for graph in reader.rows(model.Graph, compilation=compilation.id, stage="post_grad"):
            directions.add(graph.direction)
    return bool(directions) and directions <= {"forward", "backward"}
