"""This module adds the user's line and the reason to a difference between ranks, from the sessions
of one rank of each group.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.input_names import InputNames
from fx_explorer.analysis.naming import called_function, plain_code
from fx_explorer.analysis.words import counted, listed, value_text
from fx_explorer.instruments.ranks.path_taken import (
    OtherPath,
    nodes_of,
    other_path,
    path_of_another_part,
)
from fx_explorer.instruments.ranks.rank_finding import (
    Aspect,
    RankFinding,
    describe_others,
    format_ranks,
)
from fx_explorer.instruments.ranks.reading import Texts
from fx_explorer.instruments.ranks.summary import (
    checked,
    is_collective,
    short_target,
    without_identities,
)
from fx_explorer.instruments.recompiles.causes import causes
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file


class Sides(NamedTuple):
    """The two sessions, their compilations (row ids, 0 for none), and the names of the ranks."""

    reader: SessionReader
    compilation: int
    reference: SessionReader
    other: int
    these: str
    those: str

    def of_both(self) -> tuple[tuple[SessionReader, int], tuple[SessionReader, int]]:
        return (self.reader, self.compilation), (self.reference, self.other)


def explained(
    finding: RankFinding, reader: SessionReader, reference: SessionReader, among: int
) -> RankFinding:
    """Return the finding with its reason and the user's line, where the sessions have them.

    ``reader`` is the session of one of its ranks, ``reference`` that of one of the others;
    ``among`` how many ranks there are.
    """
    explain = _EXPLAIN.get(finding.aspect)
    sides = Sides(
        reader,
        _row(reader, finding.compilation),
        reference,
        _row(reference, finding.other_compilation),
        format_ranks(finding.ranks),
        describe_others(finding.others, finding.ranks, among),
    )
    if explain:
        return explain(finding, sides) or finding
    return finding


def _row(reader: SessionReader, name: str) -> int:
    if name:
        compilations = reader.rows(model.Compilation, name=name, limit=1)
    else:
        compilations = []
    return compilations[0].id if compilations else 0


def _graph(finding: RankFinding, sides: Sides) -> RankFinding | None:
    path = other_path(sides.reader, sides.compilation, sides.reference, sides.other, sides.those)
    return _took(path, finding, sides) if path else None


def _parts(finding: RankFinding, sides: Sides) -> RankFinding | None:
    """Return a divergence that is not explained by the graphs being different parts of a model;
    None without one.
    """
    if not sides.compilation or not sides.other:
        return None
    path = path_of_another_part(
        sides.reader, sides.compilation, sides.reference, sides.other, sides.those
    )
    if path:
        return replace(_took(path, finding, sides), aspect="graph")
    return None


def _took(path: OtherPath, finding: RankFinding, sides: Sides) -> RankFinding:
    way = "branch" if path.is_branch else "path"
    at = f" at {path.at}" if path.at else ""
    if path.decided_by:
        decided = f", where {sides.those} had {path.decided_by}"
    else:
        decided = ""
    if path.decided_by and path.decided_at != path.line:
        at = f" at {in_file(path.file, path.decided_at)}"
        words = (
            f"{sides.these} took a different {way}{at}{decided}: its graph {path.words} ({path.at})"
        )
    else:
        words = f"{sides.these} took a different {way}{at}{decided}: its graph {path.words}"
    if path.file:
        place = (path.file, path.decided_at or path.line)
    else:
        place = (finding.file, finding.line)
    return replace(finding, words=words, file=place[0], line=place[1])


def _inputs(finding: RankFinding, sides: Sides) -> RankFinding | None:
    differing = _differing(sides, _inputs_by_name)
    if not differing:
        return None
    text = listed(
        f"{name} is {ours} on {sides.these} and {theirs} on {sides.those}"
        for name, ours, theirs in differing
    )
    return replace(finding, words=f"{_function(finding)} was compiled for different inputs: {text}")


def _differing(
    sides: Sides, read: Callable[[SessionReader, int], dict[str, str]]
) -> list[tuple[str, str, str]]:
    """Return (name, its value on these ranks, its value on those) for each value that both sides
    have, and that differs. ``read`` returns the values of a compilation by name.
    """
    ours, theirs = (read(reader, compilation) for reader, compilation in sides.of_both())
    return [
        (name, value, theirs[name])
        for name, value in ours.items()
        if name in theirs and value != theirs[name]
    ]


def _inputs_by_name(reader: SessionReader, compilation: int) -> dict[str, str]:
    inputs = [node for node in nodes_of(reader, compilation) if node.op == "placeholder"]
    names = InputNames(reader).of(inputs)
    return {names[node.id].name: value_text(node) for node in inputs}


def _tensors(finding: RankFinding, sides: Sides) -> RankFinding | None:
    pairs = zip(
        *(nodes_of(reader, compilation) for reader, compilation in sides.of_both()), strict=False
    )
    differing = next(((one, two) for one, two in pairs if value_text(one) != value_text(two)), None)
    if differing is None:
        return None
    one, two = differing
    if one.file:
        file = sides.reader.get(model.SourceFile, one.file).path
    else:
        file = ""
    at = f" at {in_file(file, one.line)}" if file else ""
    text = (
        f"{short_target(one.target) or one.name}{at} returns {value_text(one)} on "
        f"{sides.these} and {value_text(two)}"
    )
    words = f"{text} on {sides.those}"
    if not file:
        return replace(finding, words=words)
    return replace(finding, words=words, file=file, line=one.line)


def _again(finding: RankFinding, sides: Sides) -> RankFinding | None:
    """Say why a function was recompiled, on the side that did."""
    reader, name = sides.reader, finding.compilation
    if finding.aspect == "missing":
        reader, name = sides.reference, finding.other_compilation
    why = next((recompile for recompile in causes(reader) if recompile.compilation == name), None)
    if why is None:
        return None
    if why.file:
        place = (why.file, why.line)
    else:
        place = (finding.file, finding.line)
    at = f" ({in_file(*place)})" if why.file and why.line else ""
    return replace(
        finding,
        words=f"{finding.words}: {without_identities(why.description)}{at}",
        file=place[0],
        line=place[1],
    )


def _breaks(finding: RankFinding, sides: Sides) -> RankFinding | None:
    ours, theirs = (_breaks_of(reader, compilation) for reader, compilation in sides.of_both())
    for who, whom, only in (
        (sides.these, sides.those, ours.keys() - theirs.keys()),
        (sides.those, sides.these, theirs.keys() - ours.keys()),
    ):
        if only:
            row = {**theirs, **ours}[min(only)]
            reason = row.reason.strip().partition("\n")[0]
            words = (
                f"{who} had a graph break at {in_file(row.file, row.line)} that {whom} did not "
                f"have: {reason}"
            )
            return replace(finding, words=words, file=row.file, line=row.line)
    return None


def _breaks_of(
    reader: SessionReader, compilation: int
) -> dict[tuple[str, int, str], model.GraphBreak]:
    """Return (file, line, number in torch's registry) → a break."""
    rows = reader.rows(model.GraphBreak, compilation=compilation)
    return {(row.file, row.line, row.registry_id): row for row in rows}


def _guards(finding: RankFinding, sides: Sides) -> RankFinding | None:
    ours, theirs = (_checks_of(reader, compilation) for reader, compilation in sides.of_both())
    of_ours, of_theirs = (
        reader.get(model.Compilation, compilation) for reader, compilation in sides.of_both()
    )
    for who, whom, only in (
        (sides.these, sides.those, _only(ours, theirs, of_ours)),
        (sides.those, sides.these, _only(theirs, ours, of_theirs)),
    ):
        if only:
            words = (
                f"before {_function(finding)} runs, {who} checked {listed(only)}, but {whom} did "
                "not"
            )
            return replace(finding, words=words)
    return None


Checks = Counter[tuple[str, str, str, str]]
"""Number of checks, by (checked property, kind, source and code of the guard)."""


def _checks_of(reader: SessionReader, compilation: int) -> Checks:
    rows = reader.rows(model.GuardCheck, compilation=compilation)
    return Counter((checked(row), row.kind, row.source, str(row.code)) for row in rows)


def _only(checks: Checks, others: Checks, compilation: model.Compilation) -> list[str]:
    """Return the code of the checks that the others do not make."""
    known = {what for what, *_ in others}
    codes = [code for what, _, _, code in checks if what not in known]
    return [plain_code(without_identities(code), compilation) for code in codes]


def _guard_values(finding: RankFinding, sides: Sides) -> RankFinding | None:
    differing = _differing(sides, _values_checked)
    if not differing:
        return None
    text = listed(
        f"{ours} on {sides.these}, {theirs} on {sides.those}" for _, ours, theirs in differing
    )
    return replace(finding, words=f"{_function(finding)} was compiled for {text}")


def _values_checked(reader: SessionReader, compilation: int) -> dict[str, str]:
    """Return source → the code that compares it with a value."""
    row = reader.get(model.Compilation, compilation)
    checks = reader.rows(model.GuardCheck, compilation=compilation, kind="EQUALS_MATCH")
    return {check.source: plain_code(str(check.code), row) for check in checks}


def _collectives(finding: RankFinding, sides: Sides) -> RankFinding | None:
    ours, theirs = (_collectives_of(reader, compilation) for reader, compilation in sides.of_both())
    if not ours or not theirs:
        if not ours:
            who, has, what = (sides.these, sides.those, theirs)
        else:
            who, has, what = (sides.those, sides.these, ours)
        words = f"{_function(finding)} has no collective on {who}, and on {has} {listed(what)}"
        return replace(finding, words=words)
    at = _first_difference(ours, theirs)
    one = ours[at] if at < len(ours) else "nothing more"
    two = theirs[at] if at < len(theirs) else "nothing more"
    if len(ours) != len(theirs):
        count = f"{len(ours)} against {len(theirs)}"
    else:
        count = f"{len(ours)} each"
    text = f"number {at + 1} is {one} on {sides.these} and {two} on {sides.those}"
    return replace(
        finding, words=f"the collectives of {_function(finding)} differ: {text} ({count})"
    )


def _collectives_of(reader: SessionReader, compilation: int) -> list[str]:
    scheduled = Texts(reader).collectives.get(compilation)
    if scheduled:
        return scheduled
    targets = [node.target for node in nodes_of(reader, compilation)]
    return [short_target(target) for target in targets if is_collective(target)]


def _first_difference(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return the first position at which the two differ, or at which one of them ends."""
    pairs = zip(ours, theirs, strict=False)
    differing = (at for at, (one, two) in enumerate(pairs) if one != two)
    return next(differing, min(len(ours), len(theirs)))


def _executed(finding: RankFinding, sides: Sides) -> RankFinding | None:
    ours, theirs = (Texts(reader).executed for reader in (sides.reader, sides.reference))
    at = _first_difference(ours, theirs)
    one = f"[{ours[at]}]" if at < len(ours) else "none"
    two = f"[{theirs[at]}]" if at < len(theirs) else "none"
    words = (
        f"{finding.words}: the compiled graph that ran as number {at + 1} is {one} on "
        f"{sides.these} and {two} on {sides.those}"
    )
    return replace(finding, words=words)


_COMPONENT = re.compile(r"\[(?P<hash>\w+)\] (?P<name>[^:]+): ?(?P<value>.*)", re.S)


def _cache(finding: RankFinding, sides: Sides) -> RankFinding | None:
    """Name the first component of the key in which the two sides differ."""
    ours, theirs = (_key_components(reader, compilation) for reader, compilation in sides.of_both())
    for title in ours:
        for name, (digest, value) in ours[title].items():
            known = theirs.get(title, {}).get(name)
            if known and known[0] != digest:
                text = (
                    f"{name}: {_short(value)} on {sides.these}, {_short(known[1])} on {sides.those}"
                )
                return replace(
                    finding, words=(f"{finding.words}. The difference in the key is {text}")
                )
    return None


def _key_components(
    reader: SessionReader, compilation: int
) -> dict[str, dict[str, tuple[str, str]]]:
    """Return cache → component of its key → (hash, value), as torch's record of a hit or miss lists
    them.
    """
    components_of: dict[str, dict[str, tuple[str, str]]] = {}
    listings = reader.rows(model.Artifact, compilation=compilation, kind="listing", language="json")
    of_caches = [artifact for artifact in listings if "_cache_" in artifact.title]
    for artifact, text in reader.texts_of(of_caches):
        cache = artifact.title.partition("_cache_")[0]
        if not cache:
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            continue  # a record that is cut off: the session counts it
        components = record.get("components") if isinstance(record, dict) else None
        if not isinstance(components, list):
            continue
        for component in components:
            part = _COMPONENT.match(str(component))
            if part:
                of_cache = components_of.setdefault(cache, {})
                of_cache[part["name"]] = (part["hash"], part["value"])
    return components_of


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    if len(one_line) <= 60:
        return one_line
    return f"{one_line[:59]}…"


def _results(finding: RankFinding, sides: Sides) -> RankFinding | None:
    ours, theirs = (
        Texts(reader).results.get(compilation, []) for reader, compilation in sides.of_both()
    )
    differing = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), None)
    if differing is None:
        return None
    names = [text.partition(" ")[0] for text in differing]
    if names[0] != names[1]:
        what = f"{names[0]} and {names[1]} are at the same place"
    else:
        what = f"{names[0]} is the first"
    return replace(
        finding,
        words=f"{finding.words}: {what} ({counted(len(ours), 'call')} against {len(theirs)})",
    )


def _function(finding: RankFinding) -> str:
    name = called_function(finding.function) if finding.function else ""
    if name and finding.file:
        return f"{name} at {in_file(finding.file, finding.line)}"
    return name or "the compiled code"


_EXPLAIN: dict[Aspect, Callable[[RankFinding, Sides], RankFinding | None]] = {
    "graph": _graph,
    "parts": _parts,
    "inputs": _inputs,
    "tensors": _tensors,
    "extra": _again,
    "missing": _again,
    "reasons": _again,
    "breaks": _breaks,
    "guards": _guards,
    "guard_values": _guard_values,
    "collectives": _collectives,
    "executed": _executed,
    "cache": _cache,
    "results": _results,
}
