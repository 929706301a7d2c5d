"""This module describes fixes. A fix is one change that may remove a graph break: edits of files,
options of torch, or marks of sizes. It is made for a site: the statements of the break's call stack
in the user's source, innermost first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from fx_explorer import model
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.code import Code, Splice, Statement, parsed, spliced
from fx_explorer.source_edit.user_files import FileEdit


@dataclass(frozen=True, slots=True)
class Fix:
    """A proposed change. It has ``edits``, ``settings`` or ``marks``; several fixes in one
    (``together``) have edits and settings.
    """

    title: str
    """The change as a request: ``take the print out of the compiled code``."""
    why: str
    risk: str = ""
    """Changes in the program's behaviour besides the break; empty when there are none."""
    line: int = 0
    """Line of the user's file at which the break is."""
    edits: tuple[FileEdit, ...] = ()
    """Edits of the user's files: first the file that has the break, then the files that must change
    with it.
    """
    settings: dict[str, object] = field(default_factory=dict)
    """Options by full name: ``dynamo.capture_scalar_outputs``."""
    marks: tuple[str, ...] = ()
    """Sizes and numbers to be treated as dynamic (``DynamicMark.source``); the user marks them with
    ``by_hand``.
    """
    by_hand: str = ""
    """Lines for the user's program that set the marks."""
    keeps_prints: bool = False
    """Whether the fix changes when something is printed: it is then refused if the printed text or
    its order differs.
    """
    unseen: str = ""
    """What the fix leaves out, and why calls may not show it. It is reported as not compared when
    all calls are equal.
    """
    untried: str = ""
    """A kind of call for which the fix changes the result, but which no trial makes."""
    refuted: str = ""
    """Evidence in the code against an assumption of the fix that no trial could refute; empty
    without any.
    """
    compiles_less: bool = False
    """Whether a function that is compiled now would run in eager mode as a whole."""
    broken_code: str = ""
    """The code that breaks the graph: a trial looks whether it still does."""

    @property
    def path(self) -> str:
        """Return the user's file with the break, if the fix edits it; else empty."""
        return self.edits[0].path if self.edits else ""

    @property
    def diff(self) -> str:
        """Return all edits, as ``FileEdit.diff``; empty for options."""
        return "".join(edit.diff for edit in self.edits)

    @property
    def effect(self) -> tuple[object, ...]:
        """Return a key of the changes. Fixes with the same key are one fix, even with different
        titles.
        """
        # ``distinct`` uses this as a key, which a dict cannot be.
        return self.edits, str(self.settings), self.marks

    @property
    def instruction(self) -> str:
        """Describe how its marks or options are set: by lines of the program or, for options, on
        the command line too. Empty for a fix that only edits files.
        """
        if self.by_hand:
            return self.by_hand
        # Spelled out, since torch is not imported here and could not be asked.
        modules = {
            "dynamo": "torch._dynamo.config",
            "inductor": "torch._inductor.config",
            "functorch": "torch._functorch.config",
        }
        lines = [
            f"{modules[name.partition('.')[0]]}.{name.partition('.')[2]} = {value!r}"
            for name, value in self.settings.items()
        ]
        options = " ".join(f"--setting {name}={value}" for name, value in self.settings.items())
        return "\n".join([*lines, f"# or: fx-explorer TARGET {options}"]) if lines else ""


def distinct(fixes: Iterable[Fix]) -> list[Fix]:
    """Return the fixes without duplicates: of fixes with the same changes, the first stays."""
    found: dict[object, Fix] = {}
    for fix in fixes:
        found.setdefault(fix.effect, fix)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Site:
    """One frame of the break's stack: the line it was at, with the statements on it."""

    path: str
    line: int
    is_user: bool
    """Whether the file is the user's, and not of an installed library."""
    depth: int
    """0 for the innermost frame that can be edited."""
    code: Code
    broken: DistinctBreak

    @property
    def statements(self) -> list[Statement]:
        return self.code.statements_at(self.line)

    def calls(self) -> Iterator[tuple[Statement, cst.Call, str]]:
        """Yield (statement, call, dotted name of the called function) for every call on the
        line.
        """
        for statement in self.statements:
            for call in self.code.find(statement, cst.Call):
                yield statement, call, self.code.name_of(call.func)

    def edit(self, title: str, why: str, splices: Sequence[Splice], risk: str = "") -> Fix:
        if not self.is_user:
            risk = " ".join(
                filter(
                    None,
                    [
                        risk,
                        (
                            "The file belongs to an installed library: an update of the library "
                            "undoes the edit."
                        ),
                    ],
                )
            )
        change = FileEdit(self.path, self.code.text, spliced(self.code.text, splices))
        return Fix(title, why, risk, self.line, (change,))


def sites(reader: SessionReader, broken: DistinctBreak) -> list[Site]:
    """Return the user's frames; a library's where there are no others. Frames without source that
    can be parsed are left out.
    """
    files = {row.path: row for row in reader.rows(model.SourceFile)}
    places = [(path, line) for path, line in _places(broken) if path in files]
    mine = [(path, line) for path, line in places if files[path].is_user]
    not_torch = [(path, line) for path, line in places if not _is_torch(path)]
    theirs = [(path, line) for path, line in not_torch if not _is_pythons(path)]
    stack: list[Site] = []
    for path, line in mine or theirs:
        code = _code(reader, files[path])
        if code is not None:
            stack.append(Site(path, line, files[path].is_user, len(stack), code, broken))
    return stack


def obstacle(reader: SessionReader, broken: DistinctBreak) -> str:
    """Return why no edit of the source can be proposed; empty when one can."""
    if sites(reader, broken):
        return ""
    files = {row.path: row for row in reader.rows(model.SourceFile)}
    path = broken.file
    if not path:
        return "torch does not say where this break is, so there is nothing to edit."
    if path.startswith("<") or "/ipykernel_" in path:
        if path.startswith("<ipython") or "/ipykernel_" in path:
            kind = "a notebook cell"
        else:
            kind = "code created with exec"
        return f"{path} is {kind}: no file to edit. Move the code to a .py file, and capture that."
    row = files.get(path)
    if row is None or not row.text:
        if row and row.note:
            note = row.note
        else:
            note = "the session does not have its text"
        return f"{path}: {note}, so no edit can be made. Capture again where the file can be read."
    if _is_torch(path):
        return f"{path} is part of torch: the break cannot be fixed in your source."
    if _is_pythons(path):
        return (
            f"{path} is part of Python: the break cannot be fixed there. Look at the call in your "
            "source."
        )
    return f"{path} cannot be parsed, so no edit can be made."


def other_files(reader: SessionReader, site: Site) -> Iterator[Site]:
    """Yield the user's other files of the session, as sites without a line."""
    for row in reader.rows(model.SourceFile):
        if row.is_user and row.path != site.path:
            code = _code(reader, row)
            if code is not None:
                # No line is 0, so no statement of that file is taken for the one that breaks.
                yield Site(row.path, 0, True, site.depth, code, site.broken)


def _places(broken: DistinctBreak) -> list[tuple[str, int]]:
    """Return (file, line) of the frames that torch was compiling, innermost first. Their callers
    are left out, since a fix does not change them.
    """
    places = [(frame.file, frame.line) for frame in reversed(broken.chain)]
    own = (broken.file, broken.line)
    return places if own in places else [own, *places]


def _code(reader: SessionReader, row: model.SourceFile) -> Code | None:
    text = reader.text(row.text)
    try:
        return parsed(text) if text else None
    # ``parsed`` says RecursionError of what is too long or nested too deeply.
    except (cst.ParserSyntaxError, RecursionError):
        return None


def _is_torch(path: str) -> bool:
    return "/site-packages/torch/" in path


def _is_pythons(path: str) -> bool:
    """Return whether a file belongs to Python's standard library, which no program may change."""
    return bool(_OF_PYTHON.search(path))


_OF_PYTHON = re.compile(r"/lib/python3\.\d+/(?!(site|dist)-packages/)")
