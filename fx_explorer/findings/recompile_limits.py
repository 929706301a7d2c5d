"""Functions that torch stopped compiling, since they had been compiled as often as the recompile
limit allows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fx_explorer import model
from fx_explorer.analysis.naming import plain_function
from fx_explorer.analysis.words import counted, seconds
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.findings.framework_hooks import is_of_hooks
from fx_explorer.findings.growing_containers import NO_LIMIT_SUFFICES, is_filled_inside
from fx_explorer.findings.recompile_remedies import group_remedies
from fx_explorer.findings.recompiles import (
    describe_group,
    group_caller,
    group_cost_s,
    recompile_groups,
)
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.instruments.recompiles.avoided_recompiles import NO_REMEDY
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile, LimitHit, limit_hits
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file


def find_limits(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for each function that torch stopped compiling. Its recompiles are part of
    it.
    """
    groups = recompile_groups(reader)
    for hit in limit_hits(reader):
        if is_of_hooks(hit.file):
            continue
        of_function = [group for group in groups if group[0].function == hit.function]
        yield _limit_finding(reader, hit, of_function)


def _set_elsewhere(reader: SessionReader, lines: SourceLines, hit: LimitHit) -> list[str]:
    """Return that a line of the user's sets the limit to another value than was in force; empty
    where none does.
    """
    for file in reader.rows(model.SourceFile):
        tree = lines.tree(file.path) if file.is_user else None
        if tree is None:
            continue
        for node in ast.walk(tree):
            value = _set_to(node, hit.option)
            if value is not None and value != hit.limit:
                return [
                    f"{in_file(file.path, getattr(node, 'lineno', 0))} sets it to {value}, but it "
                    f"was {hit.limit} where this was compiled. torch keeps options per thread: an "
                    "option set in one thread has no effect in another."
                ]
    return []


_NAMES = {"recompile_limit": ("recompile_limit", "cache_size_limit")}
"""Option → its names: an earlier one is still taken."""


def _set_to(node: ast.AST, option: str) -> int | None:
    """Return the number that a statement assigns to an option; None for anything else."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        return None
    names = _NAMES.get(option, (option,))
    is_option = any(isinstance(t, ast.Attribute) and t.attr in names for t in node.targets)
    value = node.value.value
    return value if is_option and isinstance(value, int) else None


def _lines_of(lines: SourceLines, recompile: ExplainedRecompile) -> Iterator[str]:
    """Yield the user's line that depends on what varies, with its code, and the one that calls."""
    file, line = recompile.file, recompile.line
    if line and lines.is_users(file):
        yield f"This value decides in {in_file(file, line)}: {lines.code(file, line)}"
    file, line = recompile.called_from
    if line and lines.is_users(file):
        yield f"It is called from {in_file(file, line)}: {lines.code(file, line)}"


def _higher_limit(hit: LimitHit, is_of_objects: bool) -> Remedy:
    """Return that more versions may be kept: one for each object, where those that live explain how
    many there are. Objects that were freed are not counted.
    """
    wanted = 2 * hit.limit
    if is_of_objects and hit.instances > hit.compiled:
        wanted = max(hit.instances, hit.limit + 1)
    return Remedy(
        f"Set torch._dynamo.config.{hit.option} = {wanted}: more versions are kept. Each version "
        "is compiled, and a call checks the guards of one version after the other.",
        changes={"settings": {f"dynamo.{hit.option}": wanted}},
    )


_ISOLATED = "compile.isolate_recompiles"


def _own_limits(reader: SessionReader) -> Iterator[Remedy]:
    """Yield torch.compile's argument that counts the versions of each call of it for themselves,
    where this release of torch has it.
    """
    if reader.rows(model.OptionInForce, name=_ISOLATED, limit=1):
        yield Remedy(
            "If each object is given to torch.compile separately, use torch.compile(…, "
            "isolate_recompiles=True): each call of torch.compile then has its own versions and "
            "limit.",
            changes={"settings": {_ISOLATED: True}},
        )


def _limit_finding(
    reader: SessionReader, hit: LimitHit, groups: Sequence[list[ExplainedRecompile]]
) -> Finding:
    lines = SourceLines(reader)
    why = hit.change or "no compiled version fits this call"
    evidence = [f"[{hit.compilation}] was not compiled: {why}."]
    set_elsewhere = _set_elsewhere(reader, lines, hit)
    evidence += set_elsewhere
    is_of_objects = any(group[0].is_another_object for group in groups)
    if is_of_objects and hit.instances > hit.compiled:
        evidence.append(
            f"There are {counted(hit.instances, 'object')} of the class. torch keeps one list of "
            f"versions for a method, shared by all objects: {hit.compiled} of them have compiled "
            f"code, and {hit.instances - hit.compiled} run in eager mode."
        )
    for group in groups:
        evidence += [f"{describe_group(group)}.", *_lines_of(lines, group[0])]
    remedies: list[Remedy] = []
    largest = max(groups, key=len) if groups else []
    is_growing = bool(largest) and is_filled_inside(lines, largest)
    if largest:
        remedies += group_remedies(reader, largest, group_caller(reader, largest[0]))
    elif hit.remedy and hit.remedy != NO_REMEDY:
        remedies.append(Remedy(hit.remedy))
    if set_elsewhere:
        # A trial sets options in the main thread, and so would the user: it changes nothing here.
        remedies.append(
            Remedy(
                f"Set torch._dynamo.config.{hit.option} at the beginning of the thread's "
                "function, or give the thread this thread's options: "
                "Thread(target=contextvars.copy_context().run, args=(function,))."
            )
        )
    elif is_growing:
        evidence.append(NO_LIMIT_SUFFICES)
    else:
        if is_of_objects:
            remedies += _own_limits(reader)
        remedies.append(_higher_limit(hit, is_of_objects))
    cost_s = sum(group_cost_s(reader, group) for group in groups)
    return Finding(
        kind="recompile limit",
        text=f"{hit.description}.",
        urgency="failed" if hit.is_error else "not compiled",
        topic="recompiles",
        place=hit.place,
        view="breaks",
        evidence=tuple(evidence),
        remedies=tuple(remedies),
        count=max(1, hit.instances - hit.compiled) if is_of_objects else 1,
        cost=f"{seconds(cost_s)} compiling" if cost_s else "",
        cost_s=cost_s,
        brief=f"{plain_function(hit.function)} reached the recompile limit of {hit.limit}",
    )
