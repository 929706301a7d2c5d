"""This module finds what the user changed between two captures: source files and options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from fx_explorer.analysis.diff import describe_difference, text_diff
from fx_explorer.model import SourceFile
from fx_explorer.model.setting_values import python_text
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import sources_to_read


@dataclass(frozen=True, slots=True)
class ChangedSource:
    """A source file whose text has changed."""

    path: str
    before: str
    after: str

    @property
    def edit(self) -> str:
        """Return ``3 lines added``."""
        rows = text_diff(self.before.splitlines(), self.after.splitlines())
        return describe_difference(rows, "line")


def changed_sources(before: SessionReader, after: SessionReader) -> list[ChangedSource]:
    """Return the files whose text has changed. A file that only one of the sessions read is left
    out.
    """
    old, new = (_texts(reader) for reader in (before, after))
    return [
        ChangedSource(path, old[path], new[path])
        for path in sorted({*old} & {*new})
        if old[path] != new[path]
    ]


def _texts(reader: SessionReader) -> dict[str, str]:
    rows = reader.by_ids(SourceFile, sources_to_read(reader))
    return {row.path: reader.text(row.text) for row in rows if row.text}


NO_OPTIONS = ("session", "pause", "stay", "trusts_target", "raised_inspecting")
"""Fields of a request that do not affect what is compiled: the path of the session, where the
compiler pauses.
"""


@dataclass(frozen=True, slots=True)
class ChangedOption:
    """An option of the request that differs, with its values as Python writes them."""

    name: str
    """``no_weights``; of a setting of torch's compiler its full name, ``inductor.max_autotune``."""
    left: str
    right: str


NOT_SET = "not set"
"""The value of a setting that a request leaves as torch has it."""


def changed_options(before: SessionReader, after: SessionReader) -> list[ChangedOption]:
    """Return the options of the request that differ; of settings each by its own name."""
    old, new = before.request(), after.request()
    if old is None or new is None:
        return []
    changed: list[ChangedOption] = []
    for field in fields(old):
        if field.name in NO_OPTIONS:
            continue
        left, right = getattr(old, field.name), getattr(new, field.name)
        if isinstance(left, dict) and isinstance(right, dict):
            changed += _changed_settings(left, right)
        elif left != right:
            changed.append(ChangedOption(field.name, python_text(left), python_text(right)))
    return changed


def _changed_settings(
    left: Mapping[str, object], right: Mapping[str, object]
) -> Iterator[ChangedOption]:
    """Yield the settings that are given on one side alone, or with another value."""
    for name in sorted({*left, *right}):
        of_left, of_right = _value_of(left, name), _value_of(right, name)
        if of_left != of_right:
            yield ChangedOption(name, of_left, of_right)


def _value_of(settings: Mapping[str, object], name: str) -> str:
    return python_text(settings[name]) if name in settings else NOT_SET
