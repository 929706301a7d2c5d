"""The answer about lines of the user's functions: which are in graphs, and which run in eager
mode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from fx_explorer import model
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.words import counted, listed
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.answers.of_line import sources
from fx_explorer.answers.references import PLACE, SUGGESTED, is_file
from fx_explorer.errors import UsageError
from fx_explorer.overview.compiled_lines import CompiledLine, compiled_lines, functions_of
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import source_paths

KNOWN_FROM = (
    "stack traces of the nodes of Dynamo's graphs; Dynamo's records of graph breaks, of frames "
    "that it skipped and of the lines that it traced; the links from nodes to kernels"
)


def of_lines(reader: SessionReader, where: str) -> Answer:
    """Return each statement of the functions that Dynamo met: of a file, of a range of its lines,
    or of a function; without a name, of the user's own files. Raises UsageError where none fits.
    """
    if not where:
        own = _own(reader)
        answer = _answer(reader, [line for file in own for line in _of_file(reader, file)])
        others = [file.title for file in sources(reader) if file not in own]
        return replace(answer, figures={"other_files": others[:SUGGESTED]}) if others else answer
    match = PLACE.fullmatch(where)
    name = match["name"] if match else where
    files = [file for file in sources(reader) if is_file(reader, file, name)]
    if not files:
        return _answer(reader, _of_function(reader, where))
    rows = _of_file(reader, files[0])
    if match and match["first"]:
        first = int(match["first"])
        last = int(match["last"] or first)
        rows = [row for row in rows if row[1].statement.last >= first]
        rows = [row for row in rows if row[1].statement.first <= last]
    return _answer(reader, rows)


Row = tuple[str, CompiledLine]
"""The path of a file, and a line of it."""


def _own(reader: SessionReader) -> list[Document]:
    """Return the user's files, the target's first; all files where none is known as the user's."""
    users = {file.id for file in reader.rows(model.SourceFile, is_user=True)}
    target = str((reader.meta("target") or {}).get("file") or "")
    paths = source_paths(reader)
    own = [file for file in sources(reader) if file.id in users]
    own.sort(key=lambda file: paths[file.id] != target)
    return own


def _of_file(reader: SessionReader, file: Document) -> list[Row]:
    path = source_paths(reader)[file.id]
    return [(path, line) for line in compiled_lines(reader, file)]


def _of_function(reader: SessionReader, name: str) -> list[Row]:
    """Return the lines of the functions of this name: ``forward``, ``Net.forward``. Functions of
    libraries count where none of the user's has the name.
    """
    own = _own(reader)
    others = [file for file in sources(reader) if file not in own]
    rows = _functions_in(reader, own, name) or _functions_in(reader, others, name)
    if rows:
        # Dynamo may have met one of several functions of a name.
        runs = {(path, line.statement.function.name): False for path, line in rows}
        for path, line in rows:
            runs[path, line.statement.function.name] |= line.runs not in ("", "not traced")
        rows.sort(key=lambda row: not runs[row[0], row[1].statement.function.name])
        return rows
    files = ", ".join(file.title for file in own[:SUGGESTED])
    functions = [function.name for file in own for function in functions_of(reader, file)]
    names = ", ".join(list(dict.fromkeys(functions))[:SUGGESTED])
    raise UsageError(
        f"there is no file or function called {name!r}; files: {files or 'none'}; functions: "
        f"{names or 'none'}"
    )


def _functions_in(reader: SessionReader, files: Sequence[Document], name: str) -> list[Row]:
    rows: list[Row] = []
    for file in files:
        functions = functions_of(reader, file)
        wanted = [each for each in functions if f".{each.name}".endswith(f".{name}")]
        if wanted:
            path = source_paths(reader)[file.id]
            rows += [(path, line) for line in compiled_lines(reader, file, wanted)]
    return rows


def _answer(reader: SessionReader, rows: Sequence[Row]) -> Answer:
    questions = []
    for path, line in rows:
        if line.runs.endswith("eager"):
            questions.append(f"line {path}:{line.statement.first}")
    return Answer(
        text=_sentence([line for _, line in rows]),
        rows=[_row(path, line) for path, line in rows],
        known_from=KNOWN_FROM,
        fields=("at", "code", "runs", "operations", "targets", "graphs", "kernels", "why"),
        next=[*questions[:2], "breaks"] if rows else ["compilations", "failures"],
    )


def _row(path: str, line: CompiledLine) -> Json:
    return {
        "at": f"{path}:{line.statement.first}",
        "function": line.statement.function.name,
        "code": line.text,
        "runs": line.runs or "not recorded",
        "operations": sum(line.operations.values()),
        "targets": dict(line.operations),
        "graphs": list(line.graphs),
        "kernels": list(line.kernels),
        "why": line.why,
    }


_STATES = {
    "in graphs": "in graphs",
    "in graphs and eager": "partly in graphs, partly in eager mode",
    "eager": "in eager mode",
    "while compiling": "evaluated at compile time, without an operation",
    "not traced": "not traced",
    "": "in no graph",
}
"""How a line runs → the same in a sentence."""


def _sentence(lines: Sequence[CompiledLine]) -> str:
    if not lines:
        return "Dynamo met no function there."
    counts = Counter(str(line.runs) for line in lines)
    parts = [f"{counts[runs]} {text}" for runs, text in _STATES.items() if counts[runs]]
    eager = [f"{line.statement.first}" for line in lines if line.runs.endswith("eager")]
    text = f"{counted(len(lines), 'line')}: {listed(parts, 6)}."
    if eager:
        text += f" Eager: line {listed(eager, 8)}."
    return text
