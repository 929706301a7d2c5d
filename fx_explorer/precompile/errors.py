"""This module has the errors that a precompile may raise.

::

    PrecompileError            the model or its inputs cannot be captured
    ├── GraphBreakError        it is not one graph; ``.breaks`` has every break
    ├── GuardError             a compiled function was called with other inputs than it was made for
    ├── CompilerError          the compiler that was given raised, or returned what cannot be used
    └── SaveError              a compiled function cannot be saved, or a file not loaded
"""

from __future__ import annotations

from fx_explorer.errors import FxExplorerError
from fx_explorer.torch_texts.reports import BreakReport


class PrecompileError(FxExplorerError):
    pass


class GraphBreakError(PrecompileError):
    """A GraphBreakError is raised when the model does not become one graph.

    ``breaks`` are all graph breaks on the path that the example inputs take, in the order met. Each
    has ``file``, ``line``, ``reason``, ``explanation``, ``hints``, ``registry_id`` (torch's
    ``GB…``) and ``frames`` (the user's stack). ``note`` says how they were found, or why there may
    be more.
    """

    def __init__(self, breaks: tuple[BreakReport, ...], note: str) -> None:
        self.breaks = breaks
        self.note = note
        if len(breaks) == 1:
            count = "1 graph break"
        else:
            count = f"{len(breaks)} graph breaks"
        lines = [
            f"{count}; Precompile.dynamo needs a model that is one graph",
            *_numbered(breaks),
            note,
        ]
        super().__init__("\n".join(lines))


def _numbered(breaks: tuple[BreakReport, ...]) -> list[str]:
    lines: list[str] = []
    for number, report in enumerate(breaks, 1):
        identity = f" ({report.registry_id})" if report.registry_id else ""
        lines.append(f"  [{number}] {report.file}:{report.line}: {report.reason}{identity}")
        lines += [f"      {frame.code}" for frame in report.frames[-1:] if frame.code]
        lines += [f"      hint: {hint}" for hint in report.hints]
    return lines


class GuardError(PrecompileError):
    pass


class CompilerError(PrecompileError):
    pass


class SaveError(PrecompileError):
    pass


class PrecompileWarning(UserWarning):
    """A PrecompileWarning says that the compiled function is probably not what the caller meant."""
