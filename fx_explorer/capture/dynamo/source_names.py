"""This module writes the sources of Dynamo's values (torch/_dynamo/source.py) as the program does:
``self.fc.weight`` for ``L['self']._modules['fc']._parameters['weight']``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_LOCAL = re.compile(r"\bL\['([^'\n]{1,200})'\]")
_GLOBAL = re.compile(r"\bG\['([^'\n]{1,200})'\]")
_BUILTIN = re.compile(r"\b__builtins_dict___\d+\['([^'\n]{1,200})'\]")
_MODULES = re.compile(r"\._modules\['([^'\n]{1,200})'\]|\._parameters\['([^'\n]{1,200})'\]")


def name_of_source(source: Any) -> str:
    """Return what a source is in the program: ``x``, ``self.layers.0.weight``; empty without
    one.
    """
    if source is None or type(source).__name__ == "TempLocalSource":
        return ""
    try:
        name = source.name
        text = str(name if isinstance(name, str) else name())
    except NotImplementedError:  # a source without a name
        return ""
    return in_users_names(text)


@lru_cache(maxsize=4_096)
def in_users_names(text: str) -> str:
    """Return a source as the program writes it: ``L['self']._modules['fc']`` is ``self.fc``."""
    text = _BUILTIN.sub(r"\1", _GLOBAL.sub(r"\1", _LOCAL.sub(r"\1", text)))
    return _MODULES.sub(lambda match: f".{match[1] or match[2]}", text)
