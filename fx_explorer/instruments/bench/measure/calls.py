"""This module calls the program for a bench: uncompiled, or compiled as the contender's request
says; with inputs of a requested size; with its state and random numbers set before the call, and
its results recorded after it.

A larger size repeats the example's content, so that an index stays in its range.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import torch

from fx_explorer.capture.compiled_inside import is_compiled
from fx_explorer.capture.recorder import compile_arguments
from fx_explorer.capture.torch_compat import private_names
from fx_explorer.capture.torch_compat.private_names import is_traceable_wrapper_subclass
from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest, InputDim, InputSize
from fx_explorer.program.calling import find_loss, use_backend
from fx_explorer.program.file_functions import with_guard_filter
from fx_explorer.program.fresh_inputs import copied
from fx_explorer.program.inputs import Arguments, tensors
from fx_explorer.program.plain_values import copy_parts
from fx_explorer.program.target import Target

SEED, OTHER_SEED = 0, 1

Results = dict[str, torch.Tensor]
"""Name, ``output 0``, ``gradient of fc.weight``, ``buffer mean`` or ``input 0 after the call`` → a
copy on the CPU.
"""

OTHER_SCALE = 0.75
"""Factor of the second call's floating-point inputs, which are also in the opposite order."""


def seed(number: int = SEED) -> None:
    """Give every random number generator that a program may use the same state in each process."""
    random.seed(number)
    torch.manual_seed(number)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(number)


@dataclass(frozen=True)
class Caller:
    """Calls the program with its inputs, and its backward when it trains."""

    target: Target
    function: Callable[..., Any]
    """The function to call: the target's callable, compiled or not."""
    trains: bool
    has_grad: bool = True
    """Whether gradients are enabled in the call."""

    def call(self) -> object:
        """Make one call, which is a training step if the target trains. Gradients are those of this
        call alone.
        """
        self.clear()
        output = self.forward()
        if self.trains:
            self.loss(output).backward()
        return output

    def clear(self) -> None:
        """Forget the gradients of the call before."""
        if self.trains:
            for leaf in self.leaves.values():
                leaf.grad = None

    def forward(self) -> object:
        """Call the program, and return its output."""
        arguments = self.target.arguments
        mode = contextlib.nullcontext() if self.has_grad else torch.no_grad()
        with mode:
            return self.function(*arguments.args, **arguments.keywords)

    def loss(self, output: object) -> torch.Tensor:
        """Return the tensor on which a training step calls ``backward()``. Raises TargetError when
        there is none.
        """
        loss = find_loss(output)
        if loss is None:
            raise TargetError(
                "no returned value has a gradient, so there is no backward. Use --no-train."
            )
        return loss

    # Once: to walk over a network at each call took a third of the time of an MLP.
    @cached_property
    def leaves(self) -> dict[str, torch.Tensor]:
        """Return the leaf tensors that receive gradients, by name: parameters and inputs."""
        return {
            name: tensor
            for name, tensor in self._named()
            if tensor.requires_grad and tensor.is_leaf
        }

    def _named(self) -> Iterator[tuple[str, torch.Tensor]]:
        if self.target.network is not None:
            yield from self.target.network.named_parameters()
        yield from (
            (f"input {i}", tensor) for i, tensor in enumerate(self.target.arguments.tensors())
        )

    def results(self, output: object, before: NetworkState) -> Results:
        """Return the results and effects of the call: the tensors that it returned, gradients, the
        network's buffers, parameters that are no longer as they were ``before``, and its inputs.
        """
        results = {f"output {i}": tensor for i, tensor in enumerate(tensors(output))}
        if self.trains:
            results |= {
                f"gradient of {name}": leaf.grad
                for name, leaf in self.leaves.items()
                if leaf.grad is not None
            }
        if self.target.network is not None:
            results |= {
                f"buffer {name}": tensor for name, tensor in self.target.network.named_buffers()
            }
            results |= {
                f"parameter {name}": tensor
                for name, tensor in self.target.network.named_parameters()
                if before.is_changed(tensor)
            }
        results |= {
            f"input {i} after the call": tensor
            for i, tensor in enumerate(self.target.arguments.tensors())
        }
        copies = {}
        for name, tensor in results.items():
            for part, tensor_copy in copy_parts(tensor).items():
                copies[f"{name}{part}"] = tensor_copy
        return copies

    def with_own_inputs(self) -> Caller:
        """Return the caller with copies of its inputs: a call may change them."""
        return replace(self, target=self.target.with_arguments(copied(self.target.arguments)))

    def with_other_values(self) -> Caller:
        """Return the caller with inputs of the same kind and other values: the example's in the
        opposite order, so that indices stay in their range.
        """
        return replace(
            self, target=self.target.with_arguments(self.target.arguments.changed(_other_values))
        )

    def in_dtype(self, dtype: torch.dtype) -> Caller:
        """Return an uncompiled caller for a copy of the program in another precision."""
        network = copy.deepcopy(self.target.network)

        wide = self.target.with_arguments(arguments_in_dtype(self.target.arguments, dtype))
        if network is None:
            return replace(self, target=wide)
        convert_network(network, dtype)
        is_method = self.target.kind != "module"
        if is_method:
            function = getattr(network, self.target.callable.__name__)
        else:
            function = network
        return replace(self, target=replace(wide, callable=function), function=function)


class NetworkState:
    """The content of a network's parameters and buffers at one moment. It is stored on the CPU, so
    that a GPU need not hold the model twice.
    """

    def __init__(
        self, network: torch.nn.Module | None, original: torch.nn.Module | None = None
    ) -> None:
        """``original`` is a network with the same content, of which ``network`` is a copy; then no
        other copy is stored.
        """
        self._tensors = state_of(network)
        self._content = state_of(original)
        if original is None:
            self._content = [tensor.detach().to("cpu", copy=True) for tensor in self._tensors]
        self._versions = {id(tensor): _version(tensor) for tensor in self._tensors}

    def is_changed(self, tensor: torch.Tensor) -> bool:
        """Return whether a parameter was written to since."""
        return _version(tensor) != self._versions.get(id(tensor))

    def put_back(self) -> None:
        """Restore the content of parameters and buffers. A parameter that was not written to is
        skipped, because copying a model to a GPU takes seconds.
        """
        for tensor, content in zip(self._tensors, self._content, strict=True):
            if isinstance(tensor, torch.nn.Parameter) and not self.is_changed(tensor):
                continue
            with torch.no_grad():
                tensor.copy_(content.detach())
            self._versions[id(tensor)] = _version(tensor)


def _version(tensor: torch.Tensor) -> int:
    """Return how often a tensor was written to; -1 where torch does not count."""
    return -1 if tensor.is_inference() else tensor._version


def observed(caller: Caller, state: NetworkState, number: int = SEED) -> Results:
    """Make a call on copies of the inputs, in this state and with random numbers from ``number``
    on, and return its results. The network is in this state afterwards.
    """
    on_copies = caller.with_own_inputs()
    state.put_back()
    seed(number)
    try:
        return on_copies.results(on_copies.call(), state)
    finally:
        state.put_back()
        for leaf in on_copies.leaves.values():
            leaf.grad = None


def is_on_gpu(caller: Caller) -> bool:
    """Return whether any parameter, buffer or input is on a GPU."""
    every = [*state_of(caller.target.network), *caller.target.arguments.tensors()]
    return any(tensor.device.type == "cuda" for tensor in every)


def state_of(network: torch.nn.Module | None) -> list[torch.Tensor]:
    """Return parameters and buffers."""
    if network is not None:
        return [*network.parameters(), *network.buffers()]
    return []


def _other_values(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided or tensor.is_nested or is_traceable_wrapper_subclass(tensor):
        return tensor  # there is no such order of its values
    turned = tensor.detach().flip(tuple(range(tensor.dim())))
    if turned.is_floating_point() or turned.is_complex():
        changed = turned * OTHER_SCALE
    else:
        changed = turned
    return changed.to(tensor.dtype).requires_grad_(tensor.requires_grad)


def arguments_in_dtype(arguments: Arguments, dtype: torch.dtype) -> Arguments:
    """Return the arguments with all floating-point and complex tensors in a precision."""
    return arguments.changed(lambda tensor: _in_dtype(tensor, dtype))


def convert_network(network: torch.nn.Module, dtype: torch.dtype) -> None:
    """Convert parameters and buffers to a precision, in place. ``Module.to`` would drop the
    imaginary part of complex ones.
    """
    network._apply(lambda tensor: _in_dtype(tensor, dtype))


def _in_dtype(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    if tensor.is_complex():
        dtype = dtype.to_complex()
    return tensor.detach().to(dtype).requires_grad_(tensor.requires_grad)


# The program of a contender.


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that the target passed to torch.compile, if the target itself is compiled
    already.
    """
    if not is_compiled(function):
        return function
    if isinstance(function, private_names.OptimizedModule):
        original: Callable[..., Any] = function._orig_mod
        return original
    if isinstance(function, torch.nn.Module):
        function._compiled_call_impl = None
        return function
    return getattr(function, "_torchdynamo_orig_callable", function)


def compiled(function: Callable[..., Any], request: CaptureRequest) -> Callable[..., Any]:
    """Return the compiled program; it is compiled when it is first called. Raises TargetError for
    an unknown backend or guard filter.
    """
    use_backend(request.backend, "--backends")
    arguments = with_guard_filter(compile_arguments(request))
    result: Callable[..., Any] = torch.compile(function, **arguments)
    return result


# Example inputs at another size.


def with_sizes(target: Target, sizes: Sequence[InputSize]) -> tuple[Target, list[str]]:
    """Return the target with inputs of these sizes, and a phrase for each size on the dimensions it
    sets. Raises TargetError for a dimension that does not exist.
    """
    named, parts = named_inputs(target), []
    changes: dict[int, dict[int, int]] = {}
    for size in sizes:
        dims = size.dims or batch_dims(named)
        for dim in dims:
            for tensor in _tensors_of(dim, named):
                already = changes.setdefault(id(tensor), {}).setdefault(dim.dim, size.value)
                if already != size.value:
                    raise TargetError(
                        f"dimension {dim.dim} of {dim.input} gets two sizes: {already:,} and "
                        f"{size.value:,}"
                    )
        parts.append(f"{size.name} is dimension {_format_dims(dims)}")
    arguments = target.arguments.changed(
        lambda tensor: resized(tensor, changes.get(id(tensor), {}))
    )
    return target.with_arguments(arguments), parts


def named_inputs(target: Target) -> dict[str, Any]:
    """Return the arguments by the names of the parameters; by position for those without a name."""
    names = _parameter_names(target.callable)
    arguments: Arguments = target.arguments
    by_name = {}
    for i, value in enumerate(arguments.args):
        name = names[i] if i < len(names) else str(i)
        by_name[name] = value
    return {**by_name, **arguments.keywords}


def batch_dims(named: dict[str, Any]) -> tuple[InputDim, ...]:
    """Return dimension 0 of every input whose first size is that of the first tensor. Raises
    TargetError when no input has a tensor with dimensions.
    """
    every = chain.from_iterable(map(tensors, named.values()))
    first = next((tensor for tensor in every if tensor.dim()), None)
    if first is None:
        raise TargetError(
            "no input is a tensor with dimensions, so there is no batch to change. Leave "
            "--batch out."
        )
    batch = first.shape[0]
    names = [name for name, value in named.items() if _begins_with(value, batch)]
    return tuple(InputDim(name, 0) for name in names)


def _begins_with(value: object, size: int) -> bool:
    """Return whether an input has a tensor whose first dimension has this size."""
    return any(tensor.dim() and tensor.shape[0] == size for tensor in tensors(value))


def resized(tensor: torch.Tensor, sizes: dict[int, int]) -> torch.Tensor:
    """Return the tensor with other sizes, by dimension; its content is repeated or cut off."""
    changed = tensor.detach()
    for dim, size in sizes.items():
        rows = torch.arange(size, device=tensor.device) % tensor.shape[dim]
        changed = changed.index_select(dim, rows)
    if sizes:
        return changed.requires_grad_(tensor.requires_grad)
    return tensor


def _tensors_of(dim: InputDim, named: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors of an input that have this dimension in the same size as the first. Raises
    TargetError when the input or the dimension does not exist.
    """
    if dim.input.isdecimal() and int(dim.input) < len(named):
        position = list(named)[int(dim.input)]
    else:
        position = dim.input
    if position not in named:
        raise TargetError(
            f"there is no input {dim.input!r}: the inputs are {', '.join(named) or 'none'}. Choose "
            "one with --size."
        )
    with_dim = [tensor for tensor in tensors(named[position]) if tensor.dim() > dim.dim]
    if not with_dim:
        raise TargetError(
            f"{dim.input} has no tensor with a dimension {dim.dim}: {_shapes(named[position])}"
        )
    size = with_dim[0].shape[dim.dim]
    if not size:
        raise TargetError(
            f"dimension {dim.dim} of {dim.input} is 0 in the example: there is no content to repeat"
        )
    return [tensor for tensor in with_dim if tensor.shape[dim.dim] == size]


def _shapes(value: object) -> str:
    return ", ".join(str(list(tensor.shape)) for tensor in tensors(value)) or "it is not a tensor"


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    if isinstance(function, torch.nn.Module):
        called = function.forward
    else:
        called = function
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]


def _format_dims(dims: Sequence[InputDim]) -> str:
    by_dim: dict[int, list[str]] = {}
    for dim in dims:
        by_dim.setdefault(dim.dim, []).append(dim.input)
    return ", ".join(f"{dim} of {' and '.join(names)}" for dim, names in by_dim.items())
