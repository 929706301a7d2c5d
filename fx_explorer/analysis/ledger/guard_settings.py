"""Options of Dynamo that make the guards of a program cheaper or fewer (torch/_dynamo/config.py), each
with the kind of check that has to be there for it to change anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from fx_explorer.analysis.ledger.guard_counts import IN_PYTHON, GuardCounts
from fx_explorer.model import GuardCheck


@dataclass(frozen=True, slots=True)
class GuardSetting:
    """One option with the value that may help."""

    name: str
    """Full name: ``dynamo.guard_nn_modules``."""
    value: bool
    why: str
    risk: str
    concerns: Callable[[GuardCheck], bool]
    """Whether a check is made otherwise with this value."""


_ALIAS = re.compile(r"[LG]\[.+ is [LG]\[")
"""Two inputs are the same object: ``L['y'] is L['x']`` (``DUPLICATE_INPUT``, torch/_dynamo/guards.py)."""


def _is_of_module(check: GuardCheck) -> bool:
    return check.origin == "module"


def _is_shape_in_python(check: GuardCheck) -> bool:
    return check.origin == "shapes" and check.kind.startswith(IN_PYTHON)


def _is_alias_in_python(check: GuardCheck) -> bool:
    return check.kind.startswith(IN_PYTHON) and _ALIAS.match(check.code) is not None


def _is_default(check: GuardCheck) -> bool:
    return "__defaults__" in check.source or "__kwdefaults__" in check.source


def _is_hook(check: GuardCheck) -> bool:
    return "_hooks" in check.source


def _is_alias_of_tensors(check: GuardCheck) -> bool:
    return check.kind == "NO_TENSOR_ALIASING"


SETTINGS = (
    GuardSetting(
        "dynamo.use_recursive_dict_tags_for_guards",
        True,
        "modules whose dicts nobody has written to since are not looked into",
        "torch has it off by default; code, defaults and closures of functions must not be bound anew",
        _is_of_module,
    ),
    GuardSetting(
        "dynamo.enable_cpp_symbolic_shape_guards",
        True,
        "relations between sizes are then checked in C++",
        "compiling takes longer, because a C++ compiler builds the check",
        _is_shape_in_python,
    ),
    GuardSetting(
        "dynamo.use_lamba_guard_for_object_aliasing",
        False,
        "which inputs are the same object is then checked in C++",
        "nothing goes unseen that is noticed now",
        _is_alias_in_python,
    ),
    GuardSetting(
        "dynamo.skip_guards_on_constant_func_defaults",
        True,
        "constant default values of functions are then not checked",
        "a default value that is set anew after compiling is not noticed: the old one is used",
        _is_default,
    ),
    GuardSetting(
        "dynamo.skip_nnmodule_hook_guards",
        True,
        "hooks of modules are then not checked",
        "hooks that are added or removed after compiling are not noticed",
        _is_hook,
    ),
    GuardSetting(
        "dynamo.skip_no_tensor_aliasing_guards_on_parameters",
        True,
        "whether two parameters are one tensor is then not checked",
        "a tensor that is passed for two parameters later gives wrong results",
        _is_alias_of_tensors,
    ),
)


def settings_for_guards(guards: GuardCounts) -> list[GuardSetting]:
    """Return the settings that may change how these guards are evaluated: those that this torch has,
    whose value is another one, and whose kind of check is there.
    """
    others = [one for one in SETTINGS if guards.options.get(one.name, one.value) != one.value]
    return [one for one in others if any(map(one.concerns, guards.checks))]
