"""Settings that were asked for and do nothing in this program: CUDA graphs where no graph is on a
GPU, and freezing where every graph is compiled for training.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.findings import devices_of_nodes

REDUCE_OVERHEAD = "reduce-overhead"
"""The mode whose only setting is triton.cudagraphs (torch/_inductor/__init__.py,
list_mode_options). The modes that also autotune do something on a CPU, too.
"""

FREEZING = "freezing"


def find_settings_without_effect(reader: SessionReader) -> Iterator[Finding]:
    """Yield CUDA graphs that were asked for on a CPU, and freezing in training."""
    asks_for_graphs = _cuda_graphs_setting(reader)
    if asks_for_graphs and _is_on_cpu_only(reader):
        yield _finding(
            reader,
            asks_for_graphs,
            f"{_setting_text(asks_for_graphs)} does nothing here: no graph is on a GPU.",
            "It asks for CUDA graphs, which exist on a GPU only, and torch skips them on a CPU.",
            Remedy("Leave it out here, or run the program on a GPU."),
        )
    freezing = _freezing_setting(reader)
    if freezing and _is_training_only(reader):
        yield _finding(
            reader,
            freezing,
            "The option freezing does nothing here: every graph is compiled for training.",
            "Freezing makes constants of the weights, which must not change afterwards. torch "
            "freezes only what it compiles while gradients are switched off.",
            Remedy("For inference, call the compiled model within torch.no_grad()."),
        )


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
    """Return the setting whose only effect are CUDA graphs; None where there is none, or where a
    mode that does more is in force as well.
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
