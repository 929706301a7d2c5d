"""Arguments that a script, or a target that compiles itself, cannot take as they are.

``--backend``, ``--mode``, ``--dynamic`` and ``--option`` are arguments of torch.compile, and a
script calls torch.compile itself. Where those of the request can replace those of the script, they
do. What would have no effect is refused before the program runs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fx_explorer.errors import TargetError
from fx_explorer.model import DEFAULT_BACKEND, GUARD_FILTER, CaptureRequest
from fx_explorer.program.place import TargetPlace


def request_of_script(request: CaptureRequest, place: TargetPlace) -> CaptureRequest:
    """Return the request in which ``--backend``, ``--mode`` and ``--dynamic`` replace what the
    script's own calls of torch.compile say. Raises TargetError for what a script cannot take.
    """
    _refuse_options_of_calls(request, place)
    if request.options:
        raise TargetError(
            f"{place.shown} runs as a script, which itself calls torch.compile, so "
            f"{_options_given(request)} would have no effect. {_instead_of_options(request)}"
        )
    settings = dict(request.settings)
    for name, value in _arguments_given(request).items():
        full_name = f"compile.{name}"
        if settings.setdefault(full_name, value) != value:
            raise TargetError(
                f"{_argument_option(name, value)} contradicts "
                f"{_setting_option(full_name, settings[full_name])}: give only one of them"
            )
    return replace(request, settings=settings)


def refuse_arguments(request: CaptureRequest, name: str) -> None:
    """Raise TargetError for arguments of torch.compile, for a target that called it itself."""
    arguments = _arguments_given(request)
    given = [_argument_option(argument, value) for argument, value in arguments.items()]
    instead = [
        _setting_option(f"compile.{argument}", value) for argument, value in arguments.items()
    ]
    sentences = []
    if instead:
        sentences.append(f"Use {' '.join(instead)}.")
    if request.options:
        given.append(_options_given(request))
        sentences.append(_instead_of_options(request))
    if given:
        raise TargetError(
            f"{name} itself calls torch.compile, so {' '.join(given)} would have no effect. "
            f"{' '.join(sentences)}"
        )


def _refuse_options_of_calls(request: CaptureRequest, place: TargetPlace) -> None:
    """Raise TargetError for an option that says how fx-explorer calls the target."""
    given = {
        "--call": bool(request.call),
        "--inputs": bool(request.inputs),
        "--train": request.train is True,
        "--no-train": request.train is False,
        "--device": bool(request.device),
    }
    for option, is_given in given.items():
        if is_given:
            raise TargetError(
                f"{place.shown} runs as a script, which calls its own functions, so {option} would "
                "have no effect. Leave it out, or name the model or function to call: "
                "FILE.py:NAME, with --inputs."
            )


def _arguments_given(request: CaptureRequest) -> dict[str, Any]:
    """Return the arguments of torch.compile that differ from its own defaults, without options."""
    arguments: dict[str, Any] = {}
    if request.backend != DEFAULT_BACKEND:
        arguments["backend"] = request.backend
    if request.mode:
        arguments["mode"] = request.mode
    if request.dynamic is not None:
        arguments["dynamic"] = request.dynamic
    return arguments


def _argument_option(name: str, value: object) -> str:
    if name == "dynamic":
        return "--dynamic" if value else "--no-dynamic"
    return f"--{name} {value}"


def _setting_option(full_name: str, value: object) -> str:
    return f"--setting {full_name}={_value_text(value)}"


def _options_given(request: CaptureRequest) -> str:
    options = []
    for name, value in request.options.items():
        options.append(f"--option {name}={_value_text(value)}")
    return " ".join(options)


def _value_text(value: object) -> str:
    """Return a value as it is written on the command line."""
    return value if isinstance(value, str) else repr(value)


def _instead_of_options(request: CaptureRequest) -> str:
    """Return what to do in place of ``--option``."""
    settings = []
    for name, value in request.options.items():
        if name != GUARD_FILTER:
            settings.append(_setting_option(f"inductor.{name.replace('-', '_')}", value))
    sentences = []
    if settings:
        sentences.append(f"Use {' '.join(settings)}.")
    if GUARD_FILTER in request.options:
        sentences.append(
            f"Give {GUARD_FILTER} in the options of the program's own call of torch.compile."
        )
    return " ".join(sentences)
