"""This module checks and sets the user's options, including two that need more than that: the
backend and ``dynamic``.

Where the user's backend replaces the one that the program asked for, the compiler is made here that
torch.compile would make of it.

``dynamic`` may be given while the program runs: it holds whenever Dynamo captures a frame. As the
compiled function is entered, torch.compile sets two options for it (torch/_dynamo/eval_frame.py,
``make_set_enable_dynamic``), so what was set before would be lost. Hook:
``convert_frame._compile``, which captures one frame.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fx_explorer.capture.option_catalogue import (
    MODULES,
    Restore,
    list_settings,
    set_entry,
    value_of,
)
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import dynamo_config
from fx_explorer.errors import UsageError
from fx_explorer.model import WHOLE_CAPTURE, Changes, Gate, Setting
from fx_explorer.model.setting_values import declared, one_of, problem_of


def check(settings: Mapping[str, object]) -> None:
    """Raise UsageError for entries that do not exist or have another type."""
    # Some values torch itself refuses, and that shows only when they are set.
    apply(settings)()


def check_at_gate(settings: Mapping[str, object]) -> None:
    """Raise UsageError for options that can only be set for a whole capture."""
    whole = [name for name in settings if name in WHOLE_CAPTURE]
    if whole:
        raise UsageError(
            (
                f"{one_of(whole)} decides whether and how Dynamo runs, so it cannot change at a "
                "pause; capture again with "
            )
            + " ".join(f"--setting {name}={json.dumps(settings[name])}" for name in whole)
        )


def apply(settings: Mapping[str, object]) -> Restore:
    """Check all of ``settings`` (by full name), set those of the config modules, and return a
    function that restores the earlier values.

    Entries of ``compile.*`` and the stance are checked only: they are the caller's business. torch
    keeps options for each thread: call this, and what it returns, on the thread that compiles.
    Raises UsageError, and then nothing was changed.
    """
    if settings:
        known = {setting.full_name: setting for setting in list_settings()}
    else:
        known = {}
    problems = [_problem(known, name, value) for name, value in settings.items()]
    if any(problems):
        raise UsageError("; ".join(filter(None, problems)))
    restores: list[Restore] = []

    def restore() -> None:
        while restores:
            restores.pop()()

    try:
        for name, value in settings.items():
            if known[name].group in MODULES:
                restores.append(_set(known[name], declared(known[name].type, value)))
                _check_taken(known[name], value)
    except BaseException:
        restore()
        raise
    return restore


def _problem(known: Mapping[str, Setting], name: str, value: object) -> str:
    if name in known:
        return problem_of(known[name], value)
    return f"there is no option {name}{_near(known, name)}"


def _near(known: Mapping[str, Setting], name: str) -> str:
    groups = {setting.group for setting in known.values()}
    near = difflib.get_close_matches(name, known, n=3)
    if name.partition(".")[0] not in groups:
        # A name without its group is more likely meant than one that looks alike.
        near = [full for full, setting in known.items() if setting.name == name] or near
    if near:
        return f"; did you mean {one_of(near)}?"
    return (
        f"; write GROUP.NAME with one of the groups {', '.join(sorted(groups))}, as in "
        "inductor.max_fusion_size"
    )


def _set(setting: Setting, value: object) -> Restore:
    try:
        return set_entry(setting.group, setting.name, value)
    except Exception as error:
        raise UsageError(
            f"torch refuses {setting.full_name} = {json.dumps(value, default=repr)}: {error}"
        ) from error


def _check_taken(setting: Setting, value: object) -> None:
    if value_of(setting.group, setting.name) != declared(setting.type, value):
        raise UsageError(
            f"{setting.full_name} cannot be changed: an environment variable, or another option, "
            "decides it in this process; see where torch's config module declares it, unset that "
            "and capture again"
        )


# The backend.


Compiler = Callable[..., Any]


def compiler_for(settings: Mapping[str, object], asked_for: Compiler) -> Compiler:
    """Return the compiler that ``torch.compile(backend=…, mode=…)`` would make; ``asked_for`` when
    neither is set.
    """
    if not {"compile.backend", "compile.mode"} & settings.keys():
        return asked_for
    from fx_explorer.capture.torch_compat.private_names import backend_registry, dynamo_exc

    backend, mode = (
        str(settings.get("compile.backend") or "inductor"),
        settings.get("compile.mode") or None,
    )
    try:
        if backend == "inductor":
            from fx_explorer.capture.torch_compat.private_names import _TorchCompileInductorWrapper

            wrapper: Compiler = _TorchCompileInductorWrapper(mode, None, None)
            return wrapper
        return backend_registry.lookup_backend(backend)
    except (dynamo_exc.InvalidBackend, RuntimeError) as error:
        raise UsageError(
            f"backend {backend!r} with mode {mode!r} cannot be used: {error}"
        ) from error


# Another ``dynamic`` while the program runs.


SETTING = "compile.dynamic"

THROUGH = (
    "Dynamo has finished these graphs, so their sizes cannot change. To make others dynamic, "
    "capture again with --dynamic or --no-dynamic; with --step, this option can be changed while "
    "Dynamo has a graph."
)

_OPTIONS = ("assume_static_by_default", "automatic_dynamic_shapes")


class DynamicShapes:
    """Controls whether sizes become symbols in frames captured from now on."""

    def __init__(self) -> None:
        self._automatic: dict[str, bool] = {name: getattr(dynamo_config, name) for name in _OPTIONS}
        """The options that hold without the argument ``dynamic``, as the program has set them."""
        self._wanted: dict[str, bool] = {}
        """The requested options; empty for those with which the program called torch.compile."""
        self._frame = contextlib.ExitStack()
        """Restores the options when the capture of the present frame has finished."""

    def want(self, dynamic: object) -> None:
        """Set the argument for frames captured from now on."""
        values = {True: (False, self._automatic["automatic_dynamic_shapes"]), False: (True, False)}
        # None is wanted too: torch.compile may have been called with something else.
        if isinstance(dynamic, bool):
            self._wanted = dict(zip(_OPTIONS, values[dynamic], strict=True))
        else:
            self._wanted = self._automatic

    def hold(self) -> None:
        """Apply the wanted setting of dynamic shapes for the rest of the frame that Dynamo
        captures, or is going to capture again.
        """
        if self._wanted:
            self._frame.enter_context(dynamo_config.patch(self._wanted))

    @contextlib.contextmanager
    def in_frames(self) -> Iterator[None]:
        """Apply the wanted setting of dynamic shapes to each frame that is captured inside the
        block, while it is captured.
        """

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def _compile(*args: Any, **kwargs: Any) -> Any:
                with contextlib.ExitStack() as self._frame:
                    self.hold()
                    return original(*args, **kwargs)

            return _compile

        from fx_explorer.capture.torch_compat.private_names import convert_frame

        with patched(convert_frame, "_compile", make):
            yield


def check_changes(gate: Gate, changes: Changes) -> None:
    """Raise UsageError for a change that cannot be combined with a change of dynamic shapes."""
    if gate != "dynamo":
        raise UsageError("Dynamo decides what is dynamic: restart from dynamo to change it.")
    if changes.marks or changes.passes:
        raise UsageError(
            "Dynamo makes a new graph for other dynamic shapes: mark regions and apply "
            "passes there."
        )
