"""This module describes a library call of generated code with the layouts of its arguments, so that
it can be repeated alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True, slots=True)
class Layout:
    """A tensor without its content."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    """``float32``, as an attribute of torch."""
    device: str

    @property
    def is_index(self) -> bool:
        """Return whether the argument is a single integer. Some operators need that on the
        host, wherever the compiler puts it: the seeds of an attention's dropout.
        """
        return not self.shape and self.dtype == "int64"


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call as the wrapper writes it, ``torch.ops.aten.convolution_backward.default(buf4, …)``."""

    text: str
    tensors: tuple[tuple[str, Layout], ...]
    """The layouts of its named tensors."""
    numbers: tuple[tuple[str, int], ...] = ()
    """Sizes by name, with the values that Inductor counts with."""

    @property
    def function(self) -> str:
        """Return the name of the called function:
        ``torch.ops.aten.convolution_backward.default``.
        """
        return self.text.partition("(")[0]

    @property
    def device(self) -> str:
        """Return the GPU that it runs on; empty for none."""
        for _, layout in self.tensors:
            if layout.device.startswith("cuda"):
                return layout.device
        return ""

    @property
    def with_indices_on_the_host(self) -> LibraryCall:
        tensors = []
        for name, layout in self.tensors:
            if layout.is_index:
                layout = replace(layout, device="cpu")
            tensors.append((name, layout))
        return replace(self, tensors=tuple(tensors))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LibraryCall:
        fields = json.loads(text)
        tensors = []
        for name, of_tensor in fields["tensors"]:
            layout = Layout(**of_tensor)
            layout = replace(layout, shape=tuple(layout.shape), stride=tuple(layout.stride))
            tensors.append((name, layout))
        numbers = tuple((name, value) for name, value in fields["numbers"])
        return cls(fields["text"], tuple(tensors), numbers)
