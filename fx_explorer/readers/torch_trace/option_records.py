"""This module reads the values that the compiler's options had, from the records of a log.

torch writes the entries of its config modules as JSON into ``compilation_metrics``
(torch/_dynamo/utils.py, ``CompilationMetrics``). Releases without ``functorch_config`` there have
AOTAutograd's as an artifact. No record says what the defaults are, who set an option, or what
torch.compile was called with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fx_explorer.model import OptionInForce
from fx_explorer.session import SessionWriter

FUNCTORCH_CONFIG = "torch._functorch.config"
"""Name of the artifact with AOTAutograd's options."""

_FIELDS = {
    "dynamo_config": "dynamo",
    "inductor_config": "inductor",
    "functorch_config": "functorch",
    "compiler_config": "compiler",
}
"""Field of ``compilation_metrics`` → the group of its options."""

_NO_OPTIONS = ("TYPE_CHECKING",)
"""Names that torch's config modules only import."""


class OptionRecords:
    """Writes each value that an option had, once."""

    def __init__(self, writer: SessionWriter) -> None:
        self._writer = writer
        self._texts: set[tuple[str, str]] = set()
        """Each group with a text of its options that has been read: most compilations have the
        same.
        """
        self._written: set[tuple[str, str]] = set()

    def add_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Write the options of a record ``compilation_metrics``."""
        for field, group in _FIELDS.items():
            text = metrics.get(field)
            if isinstance(text, str) and text:
                self.add(group, text)

    def add(self, group: str, text: str) -> None:
        """Write the options of a config module, from JSON with their values by name."""
        if (group, text) in self._texts:
            return
        self._texts.add((group, text))
        options = json.loads(text)
        if not isinstance(options, dict):
            raise ValueError("options that are not an object")
        for name, value in options.items():
            if name not in _NO_OPTIONS:
                self._add_value(f"{group}.{name}", json.dumps(value))

    def _add_value(self, name: str, value: str) -> None:
        if (name, value) not in self._written:
            self._written.add((name, value))
            self._writer.add(OptionInForce(0, name, value, "not recorded"))
