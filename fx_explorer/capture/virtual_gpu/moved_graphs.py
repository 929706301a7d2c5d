"""This module moves a Dynamo graph of a program on the CPU to the GPU: it makes a copy with fake
tensors on ``cuda``.

Hook: ``compile_fx`` (torch/_inductor/compile_fx.py), below the recorder's, so that the graph that
runs stays the program's own.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from fx_explorer.capture.torch_compat.private_names import is_traceable_wrapper_subclass
from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu.device_queries import Emulation

GPU_DEVICE = torch.device("cuda", 0)


def move_graphs(emulation: Emulation) -> None:
    """Give Inductor graphs on the GPU from now on."""
    from fx_explorer.capture.torch_compat.private_names import compile_fx as module

    original = require("torch._inductor.compile_fx", "compile_fx")

    @functools.wraps(original)
    def compile_fx(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
        if emulation.mode == "transplant" and isinstance(model_, torch.fx.GraphModule):
            model_, example_inputs_ = moved(model_, example_inputs_)
        with emulation.compiling():
            return original(model_, example_inputs_, *args, **kwargs)

    module.compile_fx = compile_fx
    _move_operators(emulation)
    _read_inputs_on_the_gpu()
    _move_regions(emulation)
    prefer_foreach(emulation)


def _move_operators(emulation: Emulation) -> None:
    """Also move graphs of ATen operators that a program passes to Inductor directly, as torch's
    files for bug reports do. ``compile_fx`` has its own function for its graphs.
    """
    from fx_explorer.capture.torch_compat.private_names import compile_fx as module

    original = require("torch._inductor.compile_fx", "compile_fx_inner")

    @functools.wraps(original)
    def compile_fx_inner(gm: Any, example_inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if emulation.mode == "transplant" and isinstance(gm, torch.fx.GraphModule):
            gm, example_inputs = moved_operators(gm, example_inputs)
        with emulation.compiling():
            return original(gm, example_inputs, *args, **kwargs)

    module.compile_fx_inner = compile_fx_inner


def _read_inputs_on_the_gpu() -> None:
    """Allow torch's files for bug reports to have inputs on the GPU. They read the device of a
    storage (``InputReader``, torch/_dynamo/debug_utils.py), which a tensor without content does not
    have.
    """
    reader = require("torch._dynamo.debug_utils", "InputReader")
    read_storage, read_tensor = reader.storage, reader.tensor
    on_gpu: list[Any] = []

    @functools.wraps(read_storage)
    def storage(self: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        made = read_storage(self, *args, device=device, **kwargs)
        if device is not None and torch.device(device).type == "cuda":
            on_gpu.append(made)
        return made

    @functools.wraps(read_tensor)
    def tensor(
        self: Any, storage: Any, shape: Any, stride: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        if not any(storage is moved for moved in on_gpu):
            return read_tensor(self, storage, shape, stride, *args, **kwargs)
        dtype = kwargs.get("dtype") or torch.float32
        made = torch.empty(shape, dtype=dtype, device=GPU_DEVICE)
        if stride is not None:
            made = torch.empty_strided(shape, stride, dtype=dtype, device=GPU_DEVICE)
        self.args.append(made.requires_grad_(bool(kwargs.get("requires_grad"))))
        return made

    reader.storage, reader.tensor = storage, tensor


def _move_regions(emulation: Emulation) -> None:
    """Move graphs also for the backend ``regional_inductor``, which gives the whole graph to
    AOTAutograd and parts to Inductor.
    """
    original = require("torch._dynamo.backends.common", "aot_autograd")

    @functools.wraps(original)
    def aot_autograd(**options: Any) -> Callable[..., Any]:
        compiler = original(**options)

        def compile_there(
            module: torch.fx.GraphModule, inputs: Sequence[Any], **kwargs: Any
        ) -> Any:
            if emulation.mode == "transplant":
                module, inputs = moved(module, inputs)
            return compiler(module, inputs, **kwargs)

        return compile_there

    module = sys.modules["torch._dynamo.backends.common"]
    module.aot_autograd = aot_autograd  # type: ignore[attr-defined]


def moved(
    module: torch.fx.GraphModule, inputs: Sequence[Any]
) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Return the graph and its inputs on the GPU; unchanged if any part is there already."""
    placeholders = module.graph.find_nodes(op="placeholder")
    if any(_is_on_gpu(value) for value in (*inputs, *map(_value, module.graph.nodes))):
        return module, list(inputs)
    move = _GraphMover(_fake_mode(inputs))
    graph_on_gpu = move.graph(module)
    placeholders_on_gpu = graph_on_gpu.graph.find_nodes(op="placeholder")
    moved_inputs = []
    for old, new, given in zip(placeholders, placeholders_on_gpu, inputs, strict=True):
        if _is_number(old) or not isinstance(given, torch.Tensor):
            moved_inputs.append(given)
        else:
            example = _value(new)
            if example is None:
                example = move.tensor(given)
            moved_inputs.append(example)
    return graph_on_gpu, moved_inputs


def moved_operators(
    module: torch.fx.GraphModule, inputs: Sequence[Any]
) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Move a graph of ATen operators as ``moved`` does. Inductor computes the values of its nodes
    again.
    """
    if any(map(_is_on_gpu, inputs)):
        return module, list(inputs)
    fake_mode = _fake_mode(inputs)
    move = _GraphMover(fake_mode)
    graph_on_gpu = move.graph(module)
    move.values(graph_on_gpu)
    for _, nested in _graphs_nested_in(graph_on_gpu):
        _propagate(nested, fake_mode)
    moved_inputs = []
    for given in inputs:
        if isinstance(given, torch.Tensor):
            moved_inputs.append(move.tensor(given))
        else:
            moved_inputs.append(given)
    return graph_on_gpu, moved_inputs


def _graphs_nested_in(
    module: torch.fx.GraphModule,
) -> Iterator[tuple[str, torch.fx.GraphModule]]:
    """Yield the graphs that a graph's operators call, as branches of ``torch.cond`` are."""
    for name, nested in module.named_children():
        if isinstance(nested, torch.fx.GraphModule):
            yield name, nested


def _propagate(module: torch.fx.GraphModule, fake_mode: Any) -> None:
    """Make torch compute the values of each operator in nested graphs again: Inductor does so for
    the outermost only, and compares a nested graph's inputs with the old values
    (``FakeTensorUpdater``).
    """
    for _, nested in _graphs_nested_in(module):
        _propagate(nested, fake_mode)
    inputs = [node.meta.get("val") for node in module.graph.find_nodes(op="placeholder")]
    FakeTensorProp(module, mode=fake_mode).propagate_dont_convert_inputs(*inputs)


def _with_content(on_gpu: torch.Tensor, constant: torch.Tensor) -> torch.Tensor:
    """Allow Inductor to read the content of a moved constant from the program's own. It writes
    small constants into its code (``GraphLowering.get_attr``).
    """
    on_gpu.item = constant.item
    on_gpu.tolist = constant.tolist
    return on_gpu


class _GraphMover:
    """Moves one graph with the graphs nested in it. A tensor that is used twice stays a single
    tensor.
    """

    def __init__(self, fake_mode: Any) -> None:
        self._fake_mode = fake_mode
        self._moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """``id`` of a tensor → (tensor on the CPU, moved tensor). The first is kept alive so that
        no other object has its id.
        """

    def graph(self, module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Return a copy of a graph, and of those nested in it, with all tensors on the GPU."""
        graph, copies = torch.fx.Graph(), dict[torch.fx.Node, torch.fx.Node]()
        # graph_copy leaves out the output, and returns what it is to be made of.
        output = graph.output(graph.graph_copy(module.graph, copies))
        output.meta = copy.copy(module.graph.output_node().meta)
        on_gpu = torch.fx.GraphModule(module, graph)
        on_gpu.meta.update(module.meta)
        for name in ("_param_name_to_source",):  # it says which inputs are parameters
            if hasattr(module, name):
                setattr(on_gpu, name, getattr(module, name))
        for name, child in on_gpu.named_children():
            setattr(on_gpu, name, self._module(child))
        for old, new in copies.items():
            self._node(old, new, on_gpu)
        on_gpu.recompile()
        return on_gpu

    def _node(self, old: torch.fx.Node, new: torch.fx.Node, owner: torch.fx.GraphModule) -> None:
        """Move the content of a copied node to the GPU: its devices, its example value, or the
        parameter that it fetches.
        """
        new.meta = copy.copy(old.meta)
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
        new.args, new.kwargs = torch.fx.node.map_aggregate((new.args, new.kwargs), _gpu_device)
        # Autocast for the CPU would leave operations on the GPU as they are.
        if getattr(new.target, "__name__", "") == "_enter_autocast" and new.args[0] == "cpu":
            new.args = ("cuda", *new.args[1:])
        if new.target is torch.ops.higher_order.flex_attention and torch.is_grad_enabled():
            new.args = tuple(map(_saving, new.args))
        value = _value(new)
        if new.op == "get_attr" and value is None:
            self._constant(new, owner)
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or _is_number(old):
            return
        if new.op == "placeholder":
            new.meta["example_value"] = self.tensor(value)
        elif new.op == "get_attr":
            for where in (owner._parameters, owner._buffers, owner.__dict__):
                if new.target in where:
                    where[new.target] = self.tensor(value)

    def _module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Return a copy of a module that a graph calls or takes parameters from, as graphs of
        ``torch.fx.symbolic_trace`` and ``torch.export`` do.
        """
        if isinstance(module, torch.fx.GraphModule):
            return self.graph(module)
        on_gpu = module.__new__(type(module))
        on_gpu.__dict__ = self._tensors(module.__dict__)
        on_gpu._modules = {}
        for name, child in module._modules.items():
            on_gpu._modules[name] = None if child is None else self._module(child)
        on_gpu._parameters = self._tensors(module._parameters)
        on_gpu._buffers = self._tensors(module._buffers)
        return on_gpu

    def _tensors(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return attributes of a module with the tensors among them moved."""
        moved_too = dict(attributes)
        for name, value in attributes.items():
            if isinstance(value, torch.Tensor) and value.device.type == "cpu":
                moved_too[name] = _with_content(self.tensor(value), value)
        return moved_too

    def _constant(self, node: torch.fx.Node, owner: torch.fx.GraphModule) -> None:
        """Move a constant of a graph that Dynamo did not make, such as one of ``make_fx``."""
        constant = getattr(owner, node.target, None)
        if isinstance(constant, torch.Tensor) and constant.device.type == "cpu":
            setattr(owner, node.target, _with_content(self.tensor(constant), constant))

    def values(self, on_gpu: torch.fx.GraphModule) -> None:
        """Move the inputs of a graph of operators, and drop the values that its operators had on
        the CPU.
        """
        for node in on_gpu.graph.nodes:
            node.meta.pop("tensor_meta", None)
            value = node.meta.pop("val", None)
            if node.op == "placeholder":
                is_tensor = isinstance(value, torch.Tensor)
                node.meta["val"] = self.tensor(value) if is_tensor else value
        for _, nested in _graphs_nested_in(on_gpu):
            self.values(nested)

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor without content on the GPU."""
        if id(tensor) not in self._moved:
            on_gpu = self._make_tensor(tensor)
            if isinstance(tensor, torch.nn.Parameter):
                on_gpu = torch.nn.Parameter(on_gpu, tensor.requires_grad)
            self._moved[id(tensor)] = (on_gpu, tensor)
        return self._moved[id(tensor)][0]

    def _make_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if is_traceable_wrapper_subclass(tensor):  # nested or quantised: tensors in a wrapping
            names, context = tensor.__tensor_flatten__()
            inner = {name: self.tensor(getattr(tensor, name)) for name in names}
            wrapped: torch.Tensor = type(tensor).__tensor_unflatten__(
                inner, context, tensor.size(), tensor.stride()
            )
            return wrapped.requires_grad_(tensor.requires_grad)
        with self._fake_mode:
            return torch.empty_strided(
                tensor.size(),
                tensor.stride(),
                dtype=tensor.dtype,
                device=GPU_DEVICE,
                requires_grad=tensor.requires_grad,
            )


def _value(node: torch.fx.Node, otherwise: Any = None) -> Any:
    return node.meta.get("example_value", otherwise)


def _is_on_gpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def _is_number(node: torch.fx.Node) -> bool:
    """Return whether the node is a Python float that Dynamo passes as a tensor. It stays on the CPU
    even with a GPU.
    """
    return bool(getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False))


def _saving(argument: Any) -> Any:
    """Make flex attention save tensors for a backward, which it does not do on the CPU
    (``_apply_kernel_options``, torch/nn/attention), where the argument is its options.
    """
    if not isinstance(argument, dict) or "OUTPUT_LOGSUMEXP" not in argument:
        return argument
    return {**argument, "OUTPUT_LOGSUMEXP": True}


def _gpu_device(argument: Any) -> Any:
    if isinstance(argument, torch.device) and argument.type == "cpu":
        return GPU_DEVICE
    return argument


def _fake_mode(inputs: Sequence[Any]) -> Any:
    from fx_explorer.capture.torch_compat.private_names import (
        FakeTensorMode,
        TracingContext,
        detect_fake_mode,
    )

    mode = detect_fake_mode(list(inputs))
    context = TracingContext.try_get()  # None where the program gave the graph to Inductor itself
    if not mode and context:
        mode = context.fake_mode
    return mode or FakeTensorMode(allow_non_fake_inputs=True)


# Optimizers take all parameters at once (``foreach``), as they do by default on a GPU.


def prefer_foreach(emulation: Emulation) -> None:
    """Make optimizers choose as on the GPU while the program runs on the CPU, where the results are
    the same.

    Compiled optimizers then have other kernels. Hook: ``_get_foreach_kernels_supported_devices``,
    which ``_default_to_fused_or_foreach`` asks (torch/optim/optimizer.py).
    """
    from fx_explorer.capture.recording.noting import traced_as

    name = "_get_foreach_kernels_supported_devices"
    original, module = require("torch.optim.optimizer", name), sys.modules["torch.optim.optimizer"]
    devices: list[str] = ["cpu", *original()]

    def supported_devices() -> list[
        str
    ]:  # Dynamo traces it, so it does nothing but return the list
        return devices

    traced_as(original, supported_devices)
    setattr(module, name, supported_devices)
    emulation.when_fake.append(lambda: setattr(module, name, original))
