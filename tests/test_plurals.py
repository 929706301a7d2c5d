"""This test checks that a count is not followed by a fixed plural: ``1 options``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "fx_explorer"

PLURAL = re.compile(r"^ (?:more |other |further )?([a-z]+s)\b")

NO_NOUNS = frozenset(
    ("is", "was", "has", "does", "this", "as", "its", "less", "times", "bytes", "characters")
)
"""Words that end like a plural, and of what there is more than one."""

AT_LEAST_TWO = frozenset(
    (
        "analysis/function_versions.py", "analysis/plugin_panes.py", "analysis/step_record.py",
        "answers/answer.py", "answers/of_node.py", "answers/of_text.py",
        "answers/what_was_compiled.py", "capture/backends/asking.py", "capture/backends/entries.py",
        "capture/backends/given.py", "capture/dynamo/bytecode_steps.py",
        "capture/inductor/failed_matches.py", "capture/inductor/ir_text.py",
        "capture/stepping/after_the_program.py", "capture/stepping/custom_pass.py",
        "capture/stepping/editing.py", "client/console.py", "client/interrupted.py",
        "command_line/attached.py", "command_line/given_files.py", "command_line/mcp_server.py",
        "command_line/several_targets.py", "commands/graph.py", "findings/lost_cuda_graphs.py",
        "findings/compiled_results.py", "findings/recompiles.py", "findings/unrolled_loops.py",
        "instruments/bench/measure/agreement.py", "instruments/bench/verdict.py",
        "instruments/bench/measure/path_while_compiling.py",
        "instruments/decisions/reasons.py", "instruments/dynamic/trial.py",
        "instruments/fusion/tried_fusions.py", "instruments/guards/view.py",
        "instruments/kernels/command.py", "instruments/kernels/kernel_times.py",
        "instruments/kernels/launched.py", "instruments/kernels/measure/kernel_timing.py",
        "instruments/kernels/view.py", "instruments/memory/verdict.py",
        "instruments/modules/folded_listing.py", "instruments/modules/view.py",
        "instruments/numerics/measure/bisecting.py", "instruments/numerics/measure/smallest.py",
        "instruments/passes/near_match_reasons.py", "instruments/ranks/rank_files.py",
        "instruments/ranks/sentences.py", "model/setting_values.py", "overview/graph_tables.py",
        "overview/overview.py", "precompile/phases.py", "program/equal_results.py",
        "program/file_functions.py", "readers/torch_trace/growing.py",
        "readers/torch_trace/other_records.py", "readers/tritonparse_kernels.py",
        "report/check_formats.py", "session/bounds.py", "session/packed_rows.py",
        "session/reader.py", "session/untrusted/packed.py", "testing.py",
        "tui/content/folded_rows.py", "tui/panes/table_rows.py",
    )
)  # fmt: skip
"""Modules that write a plural only where the count is at least two, or a large limit."""

NAMES_OF_COUNTS = re.compile(r"(count|number|total|more|nodes|operations|rows|graphs|steps)$")


def counts_followed_by_plurals(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:], strict=False):
                if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                    continue
                match = PLURAL.match(str(after.value))
                if match and match[1] not in NO_NOUNS and is_count(value):
                    yield f"{path.relative_to(PACKAGE)}:{value.lineno}: {ast.unparse(value.value)}"


def is_count(value: ast.FormattedValue) -> bool:
    """Return whether a value is a count that the code does not bound: constants are limits."""
    if isinstance(value.value, ast.Name) and value.value.id.isupper():
        return False
    if isinstance(value.format_spec, ast.JoinedStr):
        return ast.unparse(value.format_spec) in ("f','", 'f","')
    if isinstance(value.value, ast.Call):
        return isinstance(value.value.func, ast.Name) and value.value.func.id in ("len", "sum")
    name = getattr(value.value, "id", getattr(value.value, "attr", ""))
    return bool(NAMES_OF_COUNTS.search(name))


def test_a_count_is_not_followed_by_a_fixed_plural() -> None:
    """``counted`` and ``plural`` of analysis/words.py write the form for the number."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if str(path.relative_to(PACKAGE)) not in AT_LEAST_TWO:
            found += counts_followed_by_plurals(path)
    assert not found


def test_the_search_finds_a_fixed_plural(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text('text = f"{len(names)} options"\n')
    text = (tmp_path / "one.py").read_text()
    (joined,) = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.JoinedStr)]
    value, after = joined.values
    assert isinstance(value, ast.FormattedValue)
    assert is_count(value)
    assert isinstance(after, ast.Constant)
    assert PLURAL.match(str(after.value))
