"""This module has the models that front ends are compared on, and what each front end makes of them
when it is called directly.

Run as a script, in a process without fx-explorer: it prints what the front ends' own functions
make, as JSON.
"""

from __future__ import annotations

import copy
import json
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.models import SAMPLES, build, inputs

NAMES = (
    "mlp",
    "resnet",
    "llama2",
    "gpt2-2",
    "bert",
    "t5",
    "vit",
    "convnextv2",
    "transformer",
    "convnet",
    "regions",
    "breaks",
)
"""Eight of benchmarks/models.py and four samples: twelve models."""

SAMPLE = ("mlp", "llama2", "vit", "convnet", "regions", "breaks")
"""The twelve are these six, and others of transformers and of convolutions."""


def made(name: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Return a model with arguments, always the same."""
    torch.manual_seed(0)
    if name == "breaks":
        import runpy

        there = runpy.run_path(str(SAMPLES / "graph_breaks.py"))
        model = next(
            one
            for one in there.values()
            if isinstance(one, type) and issubclass(one, torch.nn.Module)
        )
        return model(), tuple(there["example_inputs"]), {}
    model, given = build(name), inputs(name)
    return (model, (), given) if isinstance(given, dict) else (model, tuple(given), {})


def operators(graph: torch.fx.Graph) -> dict[str, int]:
    """Return how often a graph has each operator, by opcode and target."""
    return dict(Counter(f"{node.op} {target(node)}" for node in graph.nodes))


def target(node: torch.fx.Node) -> str:
    return (
        node.target
        if isinstance(node.target, str)
        else getattr(node.target, "__name__", str(node.target)).split(".")[0]
    )


def symbolic(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.Graph:
    return torch.fx.symbolic_trace(model).graph


def exported(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.Graph:
    return torch.export.export(model, args, kwargs).graph


def traced(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.fx.Graph:
    if not kwargs:
        return make_fx(model)(*args).graph
    names = list(kwargs)
    return make_fx(lambda *values: model(**dict(zip(names, values, strict=True))))(
        *kwargs.values()
    ).graph


DIRECT: dict[str, Callable[[Any, tuple[Any, ...], dict[str, Any]], torch.fx.Graph]] = {
    "symbolic_trace": symbolic,
    "export": exported,
    "make_fx": traced,
}


def direct(name: str, front_end: str) -> dict[str, Any]:
    model, args, kwargs = made(name)
    try:
        graph = DIRECT[front_end](model, *copy.deepcopy((args, kwargs)))
    except Exception as error:  # noqa: BLE001 - compared
        return {"error": type(error).__name__}
    return {"nodes": len(graph.nodes), "operators": operators(graph)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    assert "fx_explorer" not in sys.modules
    print(
        "\n"
        + json.dumps({name: {one: direct(name, one) for one in DIRECT} for name in sys.argv[1:]})
    )
