"""Tensors on ``cuda`` without content: made wherever the program asks for one, and torch's FakeTensor does the rest.

A tensor on the CPU stays a real one, so data can be read and weights be loaded as ever; only what is put on ``cuda`` has a
shape and a type alone. What needs a value of it (``.item()``, an ``if`` on it) raises.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch._guards import TracingContext
from torch.utils._python_dispatch import TorchDispatchMode

from fx_explorer.capture.versions import part
from fx_explorer.capture.virtual_gpu.feeding import Feeding
from fx_explorer.capture.virtual_gpu.questions import is_users

NO_VALUE = ("DataDependentOutputException", "GuardOnDataDependentSymNode", "DynamicOutputShapeException")
"""What torch raises when the content of a fake tensor is asked for (torch/_subclasses/fake_tensor.py)."""

ADVICE = (
    "A tensor on the virtual GPU has a shape and no content: what depends on its values (.item(), an if on it, printing a "
    "number of it) cannot go on. What was compiled until then is kept. Leave it out for this run, or keep the program on the "
    "CPU: then its values are real, and its graphs are moved to the virtual GPU"
)

_kept: list[Any] = []


def allow_cuda_tensors(feeding: Feeding) -> None:
    """From now on in this thread (for the simplest ways of making a tensor: in all) the program can use the device ``cuda``."""
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    fake_tensor_mode = part("torch._subclasses.fake_tensor", "FakeTensorMode")
    maker = Maker(feeding, fake_tensor_mode(allow_non_fake_inputs=True, shape_env=ShapeEnv()))
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", maker.empty, "CUDA")
    library.impl("empty_strided", maker.empty_strided, "CUDA")
    library.impl("copy_", maker.copy_, "CUDA")
    mode = CudaIsFake(maker)
    mode.__enter__()
    _kept.extend((library, mode))


class Maker:
    """Makes the fake tensors, all of one mode."""

    def __init__(self, feeding: Feeding, mode: Any) -> None:
        self.feeding = feeding
        self.mode = mode

    def notice(self) -> None:
        """The program has put something on the GPU by itself; what torch does while it compiles does not count."""
        if self.feeding.kind != "fake" and TracingContext.try_get() is None:
            self.feeding.become_fake(f"the program puts tensors on cuda by itself{_users_line()}")

    # where C++ makes a tensor: below the dispatch mode, which is not there in every thread

    def empty(self, size: Any, *, dtype: Any = None, memory_format: Any = None, **_: Any) -> torch.Tensor:
        self.notice()
        return self._fake(torch.empty(size, dtype=dtype, device="meta", memory_format=memory_format or torch.contiguous_format))

    def empty_strided(self, size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> torch.Tensor:
        self.notice()
        return self._fake(torch.empty_strided(size, stride, dtype=dtype, device="meta"))

    def copy_(self, to: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        """``torch.tensor([1, 2], device="cuda")`` fills a tensor with fake tensors switched off."""
        return to

    def _fake(self, meta: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = part("torch._subclasses.fake_tensor", "FakeTensor")(self.mode, meta, torch.device("cuda", 0))
        return made


class CudaIsFake(TorchDispatchMode):
    """Whatever makes a tensor on cuda makes a fake one. What torch's own fake modes do is left to them."""

    supports_higher_order_operators = True

    def __init__(self, maker: Maker) -> None:
        super().__init__()
        self._maker = maker

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True  # or Dynamo would compile nothing under it

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if device is None or torch.device(device).type != "cuda" or _fake_mode_in_force():
            return func(*args, **kwargs)
        self._maker.notice()
        with self._maker.mode:
            return func(*args, **kwargs)


def _fake_mode_in_force() -> bool:
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def _users_line() -> str:
    """`` (model.py:12)``: the innermost line of the user's own that is running."""
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else f" ({frame.f_code.co_filename}:{frame.f_lineno})"


def without_weights(feeding: Feeding, reason: str) -> None:
    """Everything that the program makes from now on and puts nowhere else is on the GPU, and so takes no memory."""
    feeding.become_fake(reason)
    torch.set_default_device("cuda")


def is_missing_value(error: BaseException) -> bool:
    """Whether the program stopped because it asked for the content of a fake tensor."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if type(current).__name__ in NO_VALUE:
            return True
        current = current.__cause__ or current.__context__
    return False
