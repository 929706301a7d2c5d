"""The entries of torch's config modules: what there is, its value now, and setting it.

Where they are made: torch/utils/_config_module.py (``install_config_module``, ``_ConfigEntry``).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from fx_explorer.capture.options.setting_help import SettingHelp, entries_of
from fx_explorer.capture.torch_compat.versions import override_of, require
from fx_explorer.model import SettingGroup

MODULES: dict[SettingGroup, Any] = {
    "inductor": torch._inductor.config,
    "dynamo": torch._dynamo.config,
    "functorch": torch._functorch.config,
}

_NO_OPTIONS = ("TYPE_CHECKING",)
"""Names that the modules import, and torch takes for entries."""

Restore = Callable[[], None]


def names(group: SettingGroup) -> Iterator[str]:
    return (name for name in MODULES[group]._config if name not in _NO_OPTIONS)


def entry(group: SettingGroup, name: str) -> Any:
    """Return the entry as torch has it: ``value_type``, ``alias``, ``deprecated``."""
    return MODULES[group]._config[name]


def default_of(group: SettingGroup, name: str) -> object:
    module, name = _resolved(group, name)
    return module._config[name].default


def documented(group: SettingGroup, name: str) -> SettingHelp:
    """Return what the source of its module says of it."""
    return entries_of(MODULES[group].__name__).get(name, SettingHelp())


def value_of(group: SettingGroup, name: str) -> object:
    """Return the value in force now, on this thread. The warning that torch gives once for a
    deprecated entry is left to the user.
    """
    module, name = _resolved(group, name)
    resolved = module._config[name]
    was_warned, resolved._deprecation_warned = getattr(resolved, "_deprecation_warned", False), True
    try:
        return getattr(module, name)
    except AttributeError:  # deleted, as unittest.mock does in between
        return resolved.default
    finally:
        resolved._deprecation_warned = was_warned


def value_set_by_user(group: SettingGroup, name: str) -> bool:
    """Return whether something has set it since torch was imported. The environment does not count,
    because torch reads it as it is imported.
    """
    module, name = _resolved(group, name)
    return override_of(module._config[name]) is not require(
        "torch.utils._config_module", "_UNSET_SENTINEL"
    )


def variable_of(group: SettingGroup, name: str) -> str:
    """Return the environment variable that is set and that torch reads for this entry; empty when
    there is none.
    """
    return next(
        (variable for variable in documented(group, name).variables if variable in os.environ), ""
    )


def set_entry(group: SettingGroup, name: str, value: object) -> Restore:
    """Set one as torch does for itself, so that what is put back is “not set by the user” where it
    was.
    """
    module, name = _resolved(group, name)
    restore: Restore = module._make_closure_patcher(**{name: value})()
    return restore


def _resolved(group: SettingGroup, name: str) -> tuple[Any, str]:
    """Return the module and name an alias stands for; an entry that is none stands for itself."""
    module = MODULES[group]
    while alias := getattr(module._config[name], "alias", None):
        module_name, name = alias.rsplit(".", 1)
        module = sys.modules.get(module_name) or importlib.import_module(module_name)
    return module, name
