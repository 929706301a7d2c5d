"""The guards of a capture say what must hold of inputs, and of the world, for the compiled code to
be right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo import convert_frame

from fx_explorer.precompile.errors import PrecompileError
from fx_explorer.precompile.states import Mismatch, States, Trace


class Guards:
    """Torch's own guards. ``print(guards)`` shows one per line; ``guards.tree`` is torch's guard
    tree as text.

    >>> import torch
    >>> from fx_explorer.precompile import Precompile
    >>> _, _, guards, _ = Precompile.dynamo(lambda x: x * 2, torch.ones(3))
    >>> guards.check(torch.zeros(3)), guards.check(torch.zeros(4))
    (True, False)
    >>> print(guards.why_not(torch.zeros(4)))
    tensor 'L['x']' size mismatch at index 0. expected 3, actual 4
    """

    def __init__(
        self, model: Callable[..., object], manager: Any, states: States, trace: Trace
    ) -> None:
        self._model = model
        self._manager = manager
        self._states = states
        self._trace = trace

    @property
    def parts(self) -> tuple[str, ...]:
        """The conditions as Python expressions, in the order in which torch checks them."""
        return tuple(str(part) for part in self._manager.code_parts)

    @property
    def tree(self) -> str:
        return str(self._manager).strip("\n")

    def __len__(self) -> int:
        return len(self.parts)

    def __str__(self) -> str:
        return "\n".join(self.parts)

    def __repr__(self) -> str:
        return f"<Guards: {len(self)} conditions>"

    def is_of(self, model: Callable[..., object]) -> bool:
        return self._model is model

    def check(self, *args: object, **kwargs: object) -> bool:
        """Whether the code that was compiled may be used for these inputs, in the state the model
        and torch are in now.

        In a state of torch that is not the one of the capture, such as ``torch.no_grad()``, the
        model is traced once to see whether it does the same there. Raises PrecompileError when the
        model cannot be called like that.
        """
        return self.mismatch(args, kwargs) is None

    def why_not(self, *args: object, **kwargs: object) -> str:
        """The first guard that fails for these inputs, and why; empty when all hold. torch stops at
        the first.
        """
        mismatch = self.mismatch(args, kwargs)
        return mismatch.what if mismatch else ""

    def mismatch(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Mismatch | None:
        """Return the mismatch with what to do about it; None when all guards hold."""
        return self._states.mismatch(self._manager, self._locals(args, kwargs), self._trace)

    def _locals(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        try:
            variables: dict[str, object] = convert_frame._get_frame(
                self._model, args, kwargs
            ).locals
        except TypeError as error:
            raise PrecompileError(
                f"the model cannot be called with these inputs: {error}"
            ) from None
        return variables
