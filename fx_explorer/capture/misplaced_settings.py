"""Options of the compiler that a program sets on a module that has none of that name, such as
``torch._dynamo.activation_memory_budget``. Python makes a new attribute of it, and torch never
reads it.
"""

from __future__ import annotations

import sys

from fx_explorer.capture.option_catalogue import MODULES, as_json, names

PACKAGES = ("torch", "torch._dynamo", "torch._inductor", "torch._functorch", "torch.compiler")
"""Packages that options are looked for in by mistake. None of them has plain data of its own under
the name of an option.
"""

MisplacedSetting = tuple[str, str, str, str]
"""(package, attribute, value as JSON, full name of the option: ``functorch.activation…``)."""


def misplaced_settings() -> list[MisplacedSetting]:
    """Return the plain data that a program put under the name of an option where torch does not
    read it.
    """
    misplaced = []
    for package in PACKAGES:
        module = sys.modules.get(package)
        attributes = vars(module) if module else {}
        for group in MODULES:
            for name in names(group):
                value = attributes.get(name)
                if isinstance(value, bool | int | float | str):
                    misplaced.append((package, name, as_json(value), f"{group}.{name}"))
    return misplaced
