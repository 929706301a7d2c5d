"""This module finds the place of a target: the file or module and the object that ``TARGET`` names.
It parses the file and runs nothing.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.output_file import kind_of
from fx_explorer.program import loading
from fx_explorer.session.untrusted.given_program import (
    check_is_python,
    is_exported,
    offers_target,
    split_target,
    top_level_names,
)

MODULE_TARGET = re.compile(
    r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*)(:(?P<object>[^\W\d]\w*(\.[^\W\d]\w*)*))?"
)


@dataclass(frozen=True, slots=True)
class TargetPlace:
    """An absolute file or a module name, and optionally an object in it."""

    shown: str
    """The file or module as the user wrote it."""
    file: Path | None = None
    module: str = ""
    object: str = ""
    is_script: bool = False
    """Whether the file is run as ``__main__``."""
    is_exported: bool = False
    """Whether the file holds an ``ExportedProgram`` (``.pt2``)."""


def locate(request: CaptureRequest) -> TargetPlace:
    """Return the place of the request's target. Raises TargetError if there is no such file, or the
    text cannot be a target.
    """
    file, name = split_target(request.target)
    if file is None:
        match = MODULE_TARGET.fullmatch(request.target)
        if not match:
            raise TargetError(
                f"cannot tell what {request.target!r} is: expected file.py, "
                "file.py:object or package.module:object"
            )
        if request.as_script:
            raise TargetError(
                f"{request.target!r} is not a file; fx-explorer run takes the path of a script"
            )
        return TargetPlace(match["module"], module=match["module"], object=match["object"] or "")
    if (file / "__main__.py").is_file():
        return TargetPlace(str(file), (file / "__main__.py").absolute(), is_script=True)
    check_file(file)
    if not request.as_script and not request.as_python and is_exported(file):
        if name:
            raise TargetError(f"{file} is no Python file, and offers no {name}: leave out :{name}")
        return TargetPlace(str(file), file.absolute(), is_exported=True)
    check_is_python(file, as_python=request.as_python)
    is_script = request.as_script or not (
        name or request.call or request.inputs or offers_target(file)
    )
    return TargetPlace(str(file), file.absolute(), object=name, is_script=is_script)


def check_file(file: Path) -> None:
    if file.is_dir():
        raise TargetError(
            f"{file} is a directory without __main__.py; name a file in it, or "
            "package.module:object"
        )
    if not file.exists():
        raise TargetError(
            f"there is no file {file} (working directory: {Path.cwd()}).{_similar(file)}"
        )
    if not file.is_file():  # reading a FIFO would wait for whoever writes to it
        raise TargetError(
            f"{file} is {kind_of(file.stat().st_mode)}: write the program to a file first"
        )


def _similar(file: Path) -> str:
    """Return the sentence "Did you mean …?" when the directory has a file of a similar name;
    otherwise other advice.
    """
    if not file.parent.is_dir():
        return f" The directory {file.parent} does not exist either."
    names = difflib.get_close_matches(file.name, [p.name for p in file.parent.glob("*.py")], n=1)
    if names:
        return f" Did you mean {file.with_name(names[0])}?"
    return ""


def nothing_compiled(
    place: TargetPlace, ended: Outcome, known: str, given: Sequence[str] = ()
) -> str:
    """Return the message for a program that ended well and compiled nothing, with what could be
    compiled. ``known`` is the reason, if any, and ``given`` the callables that the program passed
    to torch.compile, which take precedence over the file's first one.
    """
    shown = place.shown
    if place.file is None or not place.is_script:
        return (
            f"{shown} ran and compiled nothing: torch.compile left all of it to Python (is "
            "torch.compiler.disable used?)"
        )
    names = top_level_names(place.file)
    defined_names = [name for name in names if names[name] in (ast.ClassDef, ast.FunctionDef)]
    usual_names = [name for name in ("model", "get_model") if name in names]
    given_names = [name for name in given if name in names]
    # Without doubles, in this order.
    found = list(dict.fromkeys([*given_names, *usual_names, *defined_names]))
    if found:
        more = " …" if len(found) > 5 else ""
        defined = f"It defines {', '.join(found[:5])}{more}. "
    else:
        defined = ""
    wanted = found[0] if found else "NAME"
    takes = ", ".join(loading.parameters_of(place.file, wanted))
    example = f"{shown}:{wanted} --inputs '{takes or 'torch.randn(2, 8)'}'"
    example += f" (your inputs in place of {takes})" if takes else ""
    ran = "ran to its end" if ended.kind == "finished" else "ended"
    why = known or "it never called anything made by torch.compile"
    return (
        f"{shown} {ran} and compiled nothing: {why}. {defined}To compile a model or function of "
        f"it: fx-explorer {example}, or set example_inputs at the top level of the file."
    )
