"""torch looks its options up a quarter of a million times while it compiles twelve layers, and finds out each time whether
the option is only another name for a second one. Few are. The others are looked up directly here, in torch's own order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import goes_by, override_of

_ASKED = {
    *(
        "_config",
        "hide",
        "AttributeError",
        "__name__",
        "_get_alias_val",
        "_UNSET_SENTINEL",
        "env_value_force",
    ),
    *(
        "user_override",
        "env_value_default",
        "justknob",
        "justknobs_check",
        "default",
        "isinstance",
        "list",
        "set",
        "dict",
    ),
    *("copy", "deepcopy", "KeyError", "_warn_if_deprecated", "get", "_IMMUTABLE_CONFIG_TYPES"),
}
"""What ``ConfigModule.__getattr__`` goes by, in the releases whose rules are known."""

_VALUES = (bool, int, float, str, type(None))
"""A default of another type is copied when it is first asked for."""


def read_options_quickly(stack: contextlib.ExitStack) -> None:
    """Read options directly until the stack is closed."""
    from torch.utils import _config_module

    config_class = getattr(_config_module, "ConfigModule", None)
    unset = getattr(_config_module, "_UNSET_SENTINEL", None)
    if (
        config_class is None
        or unset is None
        or not goes_by(getattr(config_class, "__getattr__", None), _ASKED)
    ):
        return
    may_warn = hasattr(config_class, "_warn_if_deprecated")

    def make(original: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def __getattr__(config: Any, name: str) -> Any:
            entry = config._config.get(name)
            if entry is None or entry.hide:
                return original(config, name)
            if may_warn and entry.deprecated:
                config._warn_if_deprecated(
                    name, entry
                )  # of the line that asks, which it finds by counting frames
            if entry.alias is not None:
                return original(config, name)
            if entry.env_value_force is not unset:
                return entry.env_value_force
            override = override_of(entry)
            if override is not unset:
                return override
            if entry.env_value_default is not unset:
                return entry.env_value_default
            if entry.justknob is None and type(entry.default) in _VALUES:
                return entry.default
            return original(config, name)

        return __getattr__

    stack.enter_context(patched(config_class, "__getattr__", make))
