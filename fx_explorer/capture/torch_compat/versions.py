"""This module has the differences between torch's releases, and private names that may disappear.
Known: 2.11 to 2.15.

Functions here return what differs between releases, or raise a ``MissingInTorch`` that names the
release. Names that are the same in all releases are in ``private_names.py``. Each hook looks up the
one name that it hooks into; without it, its view stays empty.
"""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import dataclasses
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

import torch

from fx_explorer.capture.torch_compat.installed import requirements_of
from fx_explorer.capture.torch_compat.patching import patched


class MissingInTorch(Exception):
    """Raised when this torch lacks a part; the message names the part and the release."""


def require(module: str, name: str) -> Any:
    """Return ``module.name`` of the installed torch; raises MissingInTorch if it has none."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        raise MissingInTorch(f"torch {torch.__version__} has no {module}.{name}") from None


def release() -> tuple[int, int]:
    """Return ``(2, 13)``, for the few differences that cannot be detected by a missing name."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def has(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(module), name)


def dataclass_of(module: str, name: str, /, **values: object) -> Any:
    """Return a dataclass of torch's with those of ``values`` that this release has fields for."""
    wanted = require(module, name)
    known = {field.name for field in dataclasses.fields(wanted)}
    return wanted(**{key: value for key, value in values.items() if key in known})


def known_options(config: Any, *names: str) -> list[str]:
    """Return those of ``names`` that are options of this release. Deprecated options are left out,
    because reading or setting them warns the user.
    """
    known = []
    for name in names:
        entry = config._config.get(name)
        if entry is not None and not getattr(entry, "deprecated", False):
            known.append(name)
    return known


# what varies (torch/_dynamo/variables/builder.py)


def marks_one_size() -> bool:
    """Return whether ``TORCH_COMPILE_DYNAMIC_SOURCES`` accepts one size of a tensor (``L['x']:0``).
    2.11 accepts whole tensors only, and reads such an entry as another tensor's name.
    """
    return (
        "dim"
        in inspect.signature(
            require("torch._dynamo.variables.builder", "is_dynamic_source")
        ).parameters
    )


# what is logged (torch/_functorch/_aot_autograd/graph_compile.py)


def prints_subclasses_it_compiles() -> bool:
    """Return whether AOTAutograd turns a graph's metadata into text even if no log is written,
    including fake tensors of the program's classes: an error in their ``__repr__`` ends the
    compilation. 2.11 does; in 2.13 only the log does.
    """
    return (
        "str"
        in require(
            "torch._functorch._aot_autograd.graph_compile", "_log_fw_bw_graphs"
        ).__code__.co_names
    )


# guards (torch/compiler/__init__.py, torch/_dynamo/guards.py)

GuardFilter = Callable[[Sequence[Any]], Sequence[bool]]
"""A function that receives an entry for each guard (``GuardFilterEntry``), and returns for each
whether it is kept.
"""


def known_filters() -> dict[str, GuardFilter]:
    """Return the guard filters that this torch has, by their names in ``torch.compiler``."""
    filters: dict[str, GuardFilter] = {}
    for name, function in vars(torch.compiler).items():
        if not inspect.isfunction(function):
            continue
        if next(iter(inspect.signature(function).parameters), "") == "guard_entries":
            filters[name] = function
    return filters


@contextlib.contextmanager
def every_guard_checked() -> Iterator[None]:
    """Make guards that are built inside the block check each tensor in each call.

    If the dictionaries of a module have not changed, torch 2.11 assumes that its parameters have
    not changed either: a weight that requires gradients from now on would be computed like one that
    does not.
    """
    config = importlib.import_module("torch._dynamo.config")
    names = ("use_recursive_dict_tags_for_guards", "skip_tensor_guards_with_matching_dict_tags")
    options = dict.fromkeys(known_options(config, *names), False)
    if options:
        in_force = config.patch(options)
    else:
        in_force = contextlib.nullcontext()
    with in_force:
        yield


# saving (torch/_dynamo/aot_compile.py)


def runtime_env(traced: Any) -> Any:
    """Return the environment that Dynamo's bytecode needs, from torch's ``GraphCaptureOutput``.

    2.11 looks for builtins that the bytecode names (``type``) among the globals only; later
    releases put them there themselves.
    """
    env = traced.get_runtime_env()
    for name in env.external_refs:
        if hasattr(builtins, name):
            env.used_globals.setdefault(name, getattr(builtins, name))
    return env


def device_type_of(graph: torch.fx.Graph) -> str:
    """Return the type of device that a saved function needs: up to 2.14 that of the first tensor,
    in 2.15 a single one for all tensors of the graph.
    """
    module = "torch._dynamo.graph_utils"
    if has(module, "_graph_device_type"):
        return str(require(module, "_graph_device_type")(graph))
    types = require(module, "_graph_device_types")(graph)
    return str(require("torch._dynamo.package", "_collapse_device_types")(types))


def guards_of_file(function: Any) -> tuple[Any, Any]:
    """Return ``(guard manager, GlobalStateGuard in it)`` of torch's ``AOTCompiledFunction``.

    They are built once more: the manager that torch has built does not give away the state it
    compares with.
    """
    package, artifacts = "torch._dynamo.package", function._artifacts
    state = require(package, "load_guards_state")(artifacts.guards_state)
    with every_guard_checked():
        manager = require(package, "load_guard_manager")(
            state, artifacts.original_code, function.fn.__globals__
        )
    return manager, state.output_graph.global_state_guard


# regions (torch/fx/passes/regional_inductor.py)


@contextlib.contextmanager
def separate_regions() -> Iterator[None]:
    """Make ``regional_inductor`` cut nodes out by their ``inductor_region`` inside the block, as it
    does by itself from 2.12 on.

    2.11 takes all annotated nodes for one region: it gives them to
    ``_partition_by_supported_nodes``, which 2.12 does not have.
    """
    module = importlib.import_module("torch.fx.passes.regional_inductor")
    name = "_partition_by_supported_nodes"
    if not hasattr(module, name):
        yield
        return
    with patched(module, name, lambda _: _cut_by_region):
        yield


def _cut_by_region(gm: torch.fx.GraphModule, support: Any, prefix: str) -> torch.fx.GraphModule:
    """Cut regions out as ``_RegionScooper.scoop_regions`` of 2.12 does."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

    partitions: list[Any] = []
    for region in _regions(gm, support):
        partitioner = CapabilityBasedPartitioner(gm, region, allows_single_node_partition=True)
        partitions += [partition.nodes for partition in partitioner.propose_partitions()]
    return fuse_by_partitions(gm, partitions, prefix=prefix, always_return_tuple=True)


def _regions(gm: torch.fx.GraphModule, support: Any) -> list[Any]:
    """Make for each region an ``OperatorSupport`` that knows its nodes, in the order of the
    graph.
    """
    from torch.fx.passes.operator_support import create_op_support

    regions: dict[object, set[torch.fx.Node]] = {}
    for node in gm.graph.nodes:
        if support.is_node_supported({}, node):
            value = node.meta["custom"]["compile_with_inductor"]
            name = value.get("inductor_region") if isinstance(value, dict) else None
            regions.setdefault(name, set()).add(node)

    def is_in(nodes: set[torch.fx.Node]) -> Callable[[Any, torch.fx.Node], bool]:
        return lambda _, node: node in nodes

    return [create_op_support(is_in(nodes)) for nodes in regions.values()]


# options (torch/compiler/__init__.py, torch/_dynamo/eval_frame.py)


def stances() -> tuple[str, ...]:
    """Return the stances that ``torch.compiler.set_stance`` accepts. Up to 2.14 only its docstring
    lists them.
    """
    module = "torch._dynamo.eval_frame"
    if has(module, "StanceStr"):
        return tuple(map(str, get_args(require(module, "StanceStr"))))
    return tuple(
        re.findall(r'^\s*- "(\w+)":', torch.compiler.set_stance.__doc__ or "", re.MULTILINE)
    )


def override_of(entry: Any) -> object:
    """Return the value of a config entry that was set after torch was imported: 2.11 stores the
    value, later releases a context variable.
    """
    override = entry.user_override
    if isinstance(override, contextvars.ContextVar):
        return override.get()
    return override


def compile_parameters() -> dict[str, object]:
    """Return the keyword arguments of ``torch.compile`` with their defaults. For the default
    backend 2.11 has its name, 2.13 None.
    """
    parameters = inspect.signature(torch.compile).parameters.values()
    keywords = [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    defaults = {keyword.name: keyword.default for keyword in keywords}
    registry = "torch._dynamo.backends.registry"
    if defaults.get("backend") is None and has(registry, "get_default_backend"):
        defaults["backend"] = str(require(registry, "get_default_backend")())
    return defaults


# triton


_TRITON_OF_TORCH = {"2.11": "3.6", "2.13": "3.7", "2.15": "3.9"}
"""Release of torch → release of Triton. Only CUDA builds were looked at; a CPU build does not
say.
"""


def fitting_triton() -> str:
    """Return the version of triton for this torch, ``3.7`` or ``3.7.1``; empty where that is not
    known.
    """
    for requirement in requirements_of("torch"):
        if pinned := re.match(r"(?:pytorch-)?triton(?:-rocm|-xpu)?==([\d.]+\d)", requirement):
            return pinned[1]
    return _TRITON_OF_TORCH.get(".".join(torch.__version__.split(".")[:2]), "")


# sizes (torch/_inductor/sizevars.py)


def size_hint_of(sizes: Any, size: Any) -> int | None:
    """Return the value that Inductor assumes for a size, without adding a guard; None if only the
    data determines it. Up to 2.12 the method is ``size_hint``.
    """
    ask = getattr(sizes, "optimization_hint", None) or sizes.size_hint
    hint = int(ask(size, fallback=-1))
    return None if hint < 0 else hint


# sources and guards of Dynamo (torch/_dynamo/source.py)


def name_of(named: Any) -> str:
    """Return ``L['x']``, the name of a source or of a guard; it was a method before it was an
    attribute.
    """
    if isinstance(named.name, str):
        return named.name
    return str(named.name())


# Inductor's selector of algorithms.


@contextlib.contextmanager
def watching_selector(
    *,
    candidates: Callable[[list[Any]], list[Any]] | None = None,
    times: Callable[..., None] | None = None,
    before_others: bool = False,
) -> Iterator[None]:
    """Call these functions of ours, inside the block, when the selector chooses. ``candidates`` is
    given the candidates for an operation and returns those to be timed, ``times`` is given their
    times. ``before_others``: ``candidates`` is asked before whoever leaves fewer of them. Raises
    AttributeError in a release without the selector.

    There is one selector for the process. Making it takes 0.4 s on a GPU, because Triton then
    hashes itself, and is left to whoever has something to choose from.
    """
    from fx_explorer.capture.torch_compat.private_names import select_algorithm

    selectors: list[Any] = []

    def added_to(selector: Any) -> list[tuple[list[Any], Any]]:
        """Return our functions, each with the list of the selector's that it belongs to."""
        lists = (selector.preprocessing_fns, candidates), (selector.feedback_saver_fns, times)
        return [(functions, ours) for functions, ours in lists if ours is not None]

    def make(original: Callable[[], Any]) -> Callable[[], Any]:
        def get_algorithm_selector_cache() -> Any:
            selector = original()
            for functions, ours in added_to(selector):
                if ours not in functions:
                    functions.insert(0 if before_others else len(functions), ours)
            if not any(selector is known for known in selectors):
                selectors.append(selector)
            return selector

        return get_algorithm_selector_cache

    with patched(select_algorithm, "get_algorithm_selector_cache", make):
        try:
            yield
        finally:
            for selector in selectors:
                for functions, ours in added_to(selector):
                    if ours in functions:  # the program may have cleared them
                        functions.remove(ours)
