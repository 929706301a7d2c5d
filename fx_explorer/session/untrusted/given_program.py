"""This module finds the file that a target names, and decides whether it is a program: an
ExportedProgram by its content, Python also by its name. No other file is run without consent.

The files saved by torch.export and AOTInductor are read within limits. No part of them is loaded,
run, unpickled or unpacked to disk. Both are zip archives, and are called ``.pt2``: an
``ExportedProgram`` (``torch.export.save``) and a package of AOTInductor
(``torch._inductor.aoti_compile_and_package``). The layout is that of
torch/export/pt2_archive/constants.py.
"""

from __future__ import annotations

import ast
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fx_explorer.errors import TargetError, UnreadableProgramError
from fx_explorer.model import CaptureRequest
from fx_explorer.session.untrusted.kind_of_file import (
    AOT_FOLDER,
    FileKind,
    kind_of_file,
    program_of,
)
from fx_explorer.session.untrusted.packed import (
    Member,
    check_archive,
    content_of,
    members_of,
    opened,
)

OBJECT_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

SUFFIX = ".pt2"
"""File name suffix of torch.export and AOTInductor."""

_PYTHON = (".py", ".pyw")


def split_target(target: str) -> tuple[Path | None, str]:
    """Return (file, object) of a target that is a file; (None, "") for a module."""
    # First, since the name of a file may have a colon in it.
    if target and Path(target).exists():
        return Path(target), ""
    file, colon, name = target.rpartition(":")
    if colon and OBJECT_NAME.fullmatch(name) and (file.endswith(".py") or Path(file).is_file()):
        return Path(file), name
    looks_like_a_path = target.endswith((".py", SUFFIX)) or "/" in target
    if not looks_like_a_path:
        return None, ""
    return Path(target), ""


def is_exported(file: Path) -> bool:
    """Return whether the file is, or is named as, a file saved by torch.export or AOTInductor. For
    an invalid one ``read_pt2`` has the reason.
    """
    return kind_of_file(file).is_of_export or file.suffix.lower() == SUFFIX


def check_is_python(file: Path, *, as_python: bool) -> None:
    """Raise TargetError for a file that is not Python by its name, unless the user says that it is
    (``as_python``), and for a file that Python could not read under any name. Without a suffix its
    first line may say that it is Python, and a ``.txt`` may be a program that torch wrote.
    """
    kind = kind_of_file(file)
    if kind.kind == "broken_archive":
        from fx_explorer.session.untrusted.packed import check_archive

        check_archive(file)
    if kind.kind == "unreadable":
        raise UnreadableProgramError(f"{file} is {kind.words}. {kind.advice_for(file)}.")
    if not kind.may_be_python:
        raise TargetError(
            f"{file} is not a Python file: it is {kind.words}. {kind.advice_for(file)}."
        )
    if not as_python and not _is_called_python(file):
        raise _no_python_by_name(file, kind)


def _is_called_python(file: Path) -> bool:
    # A link may have any name, and lead to a Python file.
    if {file.suffix, file.resolve().suffix} & {*_PYTHON}:
        return True
    with file.open("rb") as opened:
        first_line = opened.readline(200)
    if not file.suffix:
        return first_line.startswith(b"#!") and b"python" in first_line
    return file.suffix == ".txt" and _is_written_by_torch(file)


_OF_TORCHS_PROGRAM = (
    b"\nfrom torch._dynamo.testing import rand_strided\n",
    b"\nclass Repro(torch.nn.Module):\n",
)
"""Lines of every program that torch writes for a graph (torch/_dynamo/repro/after_aot.py,
``generate_compiler_repro_string``).
"""

_MOST_BEFORE_THE_CLASS = 1 << 20


def _is_written_by_torch(file: Path) -> bool:
    """Return whether a text is torch's program that runs a graph: tlparse calls these
    ``fx_graph_runnable_12.txt``.
    """
    with file.open("rb") as opened:
        beginning = opened.read(_MOST_BEFORE_THE_CLASS)
    return all(line in beginning for line in _OF_TORCHS_PROGRAM)


def _no_python_by_name(file: Path, kind: FileKind) -> TargetError:
    return TargetError(
        f"The name of {file} is not that of a Python file, and it looks like {kind.words}. "
        f"{kind.advice_for(file)}. If it is a Python program nevertheless, add --as-python."
    )


# What the text of a Python file offers.

KERNELBENCH_MODELS = frozenset(["Model", "ModelNew"])
"""Names of the model class in a file written for KernelBench, which also has ``get_init_inputs()``
and ``get_inputs()``.
"""


def runs_as_script(request: CaptureRequest) -> bool:
    """Return whether the request's target is a file that runs as ``__main__``, and is not called by
    fx-explorer.
    """
    file, name = split_target(request.target)
    if file is None:
        return False
    if request.as_script or (file / "__main__.py").is_file():
        return True
    if name or request.call or request.inputs:
        return False
    is_program = request.as_python or not is_exported(file)
    return is_program and not offers_target(file)


def offers_target(file: Path) -> bool:
    """Return whether the file defines what to compile; otherwise it is a script."""
    names = top_level_names(file)
    has_model = "model" in names or "get_model" in names or ast.ClassDef in names.values()
    if names.get("get_inputs") is ast.FunctionDef and KERNELBENCH_MODELS & names.keys():
        return True
    return "fx_explorer_target" in names or ("example_inputs" in names and has_model)


def top_level_names(path: Path) -> dict[str, type[ast.AST]]:
    """Return the names that importing the file would bind, with the kind of statement. The file is
    parsed and not run.

    The result is empty on a syntax error: running the file will report it better.
    """
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ):  # the last two: nested deeper than the parser goes
        return {}
    return dict(bound_names(tree.body))


def bound_names(statements: Sequence[ast.stmt]) -> Iterator[tuple[str, type[ast.AST]]]:
    """Yield (name, kind of statement) for each name that the statements bind at module level. Code
    inside a test of ``__name__`` is left out.
    """
    for statement in statements:
        kind = type(statement)
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name, kind
            case ast.Import() | ast.ImportFrom():
                yield from (
                    (alias.asname or alias.name.partition(".")[0], kind)
                    for alias in statement.names
                )
            case ast.If() if _is_main_guard(statement.test):
                yield from bound_names(statement.orelse)
            case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
                for block in ("body", "orelse", "finalbody"):
                    yield from bound_names(getattr(statement, block, []))
                for handler in getattr(statement, "handlers", []):
                    yield from bound_names(handler.body)
            case ast.Assign() | ast.AnnAssign():
                names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
                yield from ((name.id, kind) for name in names if isinstance(name.ctx, ast.Store))
            case _:
                pass


def _is_main_guard(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(test))


# The files of torch.export and AOTInductor.


MOST_JSON_NAMES = 40
"""Maximum number of characters of a version that are shown."""

PackageKind = Literal["exported_program", "aot_inductor"]


@dataclass(frozen=True, slots=True)
class Pt2Archive:
    path: Path
    kind: PackageKind
    members: tuple[Member, ...]
    torch_release: str = ""
    """For an exported program: the release that saved it."""
    schema_version: str = ""
    has_example_inputs: bool = False

    def models(self) -> list[str]:
        """Return the names of the compiled models of an AOTInductor package."""
        names = [member.name for member in self.members if member.name.startswith(AOT_FOLDER)]
        return list(dict.fromkeys(name.split("/")[2] for name in names if name.count("/") >= 3))

    def of_model(self, model: str) -> list[Member]:
        folder = f"{AOT_FOLDER}{model}/"
        return [member for member in self.members if member.name.startswith(folder)]

    def texts(self, members: Iterable[Member]) -> Iterator[str]:
        """Yield the text of each member. The file is opened once, because its table of contents may
        be long. Raises UnreadableProgramError for a damaged or too large one.
        """
        with opened(self.path) as archive:
            for member in members:
                yield content_of(self.path, archive, member).decode("utf-8", "replace")


def read_pt2(path: Path) -> Pt2Archive:
    """Return the content of a ``.pt2`` archive. Raises UnreadableProgramError for any other file,
    and for a damaged one.
    """
    kind = kind_of_file(path)
    if kind.kind == "broken_archive":
        check_archive(path)
    if not kind.is_of_export:
        raise UnreadableProgramError(
            f"{path} is {kind.words}, neither an ExportedProgram nor an AOTInductor package. "
            f"{kind.advice_for(path)}"
        )
    with opened(path) as archive:
        members = members_of(path, archive)
        names = {member.name: member for member in members}
        if kind.kind == "aot_inductor":
            return Pt2Archive(path, "aot_inductor", members)
        written = _json_of(path, archive, names[program_of({*names})])
        for member in members:
            if member.name.endswith(".json"):
                _json_of(path, archive, member)
        return Pt2Archive(
            path,
            "exported_program",
            members,
            str(written.get("torch_version", ""))[:MOST_JSON_NAMES],
            _version(written.get("schema_version")),
            any(
                name.startswith("data/sample_inputs/") or name == "serialized_example_inputs.pt"
                for name in names
            ),
        )


def _json_of(path: Path, archive: zipfile.ZipFile, member: Member) -> dict[str, Any]:
    try:
        content = json.loads(content_of(path, archive, member))
    except (ValueError, RecursionError) as error:
        raise UnreadableProgramError(
            f"{path} is damaged: {member.name} is not JSON ({error})"
        ) from error
    return content if isinstance(content, dict) else {}


def _version(version: object) -> str:
    if isinstance(version, dict):
        return f"{version.get('major', '?')}.{version.get('minor', '?')}"[:MOST_JSON_NAMES]
    return str(version or "")[:MOST_JSON_NAMES]
