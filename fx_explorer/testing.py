"""Assertions about torch.compile for test suites: what is compiled is recorded in the test's own
process, and judged as ``fx-explorer check`` does.

A failure names the user's line, what torch says and what to do, and the session that shows it.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fx_explorer.errors import UsageError
from fx_explorer.overview.checks import Check
from fx_explorer.overview.conditions import CONDITIONS

FLAGS = ("no_skipped_frames", "no_fallbacks")
"""Conditions without a number."""

NOT_IN_TESTS = ("close_to_eager",)
"""Conditions of the command that need runs of their own: ``assert_close_to_eager`` makes them."""

NAMES = tuple(
    name.replace("-", "_") for name in CONDITIONS if name.replace("-", "_") not in NOT_IN_TESTS
)
"""Conditions by their names in Python: ``max_graph_breaks``."""

OTHERS = ("expect_fused", "baseline", "own", "update", "build")
"""Further arguments: a pair of operators, files and folders, and how it is recorded."""


class NotAsExpected(AssertionError):
    """torch.compile did something else than a test expects."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What torch.compile did in a block."""

    session: Path
    """The session, for ``fx-explorer SESSION``."""

    def check(self, **conditions: Any) -> None:
        """Raise NotAsExpected where a condition is not met, or where nothing was compiled.

        Conditions are those of ``fx-explorer check``: ``max_graph_breaks=0``,
        ``no_fallbacks=True``, ``expect_fused=("layer_norm", "gelu")``, ``baseline="net.json"``,
        ``own="src"`` … Raises UsageError for one that is unknown.
        """
        __tracebackhide__ = True  # what pytest shows ends with the user's own line
        failures = failures_of(self.session, conditions)
        if any("graph break" in text for text in failures):
            from fx_explorer.fixes_of_tests import describe_proposals

            failures += describe_proposals(self.session)
        if failures:
            raise NotAsExpected("\n".join([*failures, f"session: fx-explorer {self.session}"]))


@contextlib.contextmanager
def recorded(session: str | Path = "", *, build: bool = True) -> Iterator[Recorded]:
    """Record what torch.compile does in the block. What was compiled before is forgotten first
    (``torch.compiler.reset``), so that it is compiled in the block and can be judged.

    ``session`` is the file to write, a temporary one without it. Raises UsageError where torch
    cannot be imported. ``build=False`` generates the code
    and builds none: compiled functions then run eagerly.
    """
    try:
        import torch

        from fx_explorer.capture.recorder import record
    except ImportError as error:
        raise UsageError(f"what torch.compile does cannot be recorded: {error}") from None
    if session:
        path = Path(session)
        path.unlink(missing_ok=True)
    else:
        path = Path(tempfile.mkdtemp(prefix="fx-explorer-test-")) / "test.fxs"
    torch.compiler.reset()
    with _without_trace_in_log(), record(path, build=build):
        yield Recorded(path)


@contextlib.contextmanager
def _without_trace_in_log() -> Iterator[None]:
    """Keep torch's structured trace out of the log that pytest shows of a failed test: it is
    thousands of empty lines. pytest 9.1 and newer listens to every logger (``catching_logs`` in
    _pytest/logging.py), and torch writes the trace where somebody listens.
    """
    log = logging.getLogger("torch.__trace")
    of_pytest = [
        handler for handler in log.handlers if type(handler).__module__.startswith("_pytest.")
    ]
    for handler in of_pytest:
        log.removeHandler(handler)
    try:
        yield
    finally:
        for handler in of_pytest:
            log.addHandler(handler)


def failures_of(session: Path, conditions: dict[str, Any]) -> list[str]:
    """Return a text for each condition that a session does not meet."""
    from fx_explorer.analysis.documents import place_of_path
    from fx_explorer.findings.every_kind import findings
    from fx_explorer.overview.baseline import compare, measure
    from fx_explorer.overview.baseline_file import read_baseline
    from fx_explorer.overview.checks import relative_to, unmet_requirements
    from fx_explorer.overview.conditions import checks, judge_fused
    from fx_explorer.session import SessionReader

    wanted, others = checked_conditions(conditions)
    own = Path(others["own"]) if others.get("own") else None
    # The block is a part of a program, which continues after it.
    allowed = {"early-exit", "unseen-children"}
    if wanted.get("expect-graphs") == 0:
        allowed.add("nothing")
    with SessionReader(session) as reader:
        judged = [*unmet_requirements(reader, allowed), *checks(reader, wanted, own)]
        if others.get("expect_fused"):
            judged.append(judge_fused(reader, *others["expect_fused"]))
        if others.get("baseline"):
            now = measure(reader, Path.cwd(), own)
            file = Path(others["baseline"])
            if others.get("update"):
                file.write_text(now.to_json(), encoding="utf-8")
            else:
                differences = compare(read_baseline(file), now)
                judged += [difference.check for difference in differences]
        texts = []
        lines: set[tuple[int, int]] = set()
        for check in judged:
            if check.is_met:
                continue
            texts.append(_description(relative_to(check, Path.cwd())))
            for part in check.findings:
                if place := place_of_path(reader, part.file, part.line):
                    lines.add((place.document.id, place.line))
        for finding in findings(reader) if texts else ():
            if finding.place and (finding.place.document.id, finding.place.line) in lines:
                texts += [finding.text, *(f"  {line}" for line in finding.detail.splitlines())]
        return texts


NOTHING = (
    "nothing was compiled, so the conditions cannot be judged: torch.compile, or the object it "
    "returned, was not called (if this is intended: expect_graphs=0)"
)


def _description(check: Check) -> str:
    """Return a failure in the words of a test: conditions are arguments, not options."""
    if check.allowed_by == "allow-nothing":
        return NOTHING
    text = check.description.replace(f" (if that is meant: --{check.allowed_by})", "")
    return _OPTION.sub(_as_argument, text)


_OPTION = re.compile(r"\(--([a-z][a-z-]*)(?: (\d+))?\)")
"""An option of ``fx-explorer check`` in a failure: ``(--max-graph-breaks 0)``."""


def _as_argument(option: re.Match[str]) -> str:
    name, number = option.groups()
    return f"({name.replace('-', '_')}={number or True})"


def checked_conditions(conditions: dict[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the conditions of ``fx-explorer check``, name → limit, and the other arguments. Raises
    UsageError for an unknown name or a value that is none.
    """
    wanted: dict[str, int] = {}
    others: dict[str, Any] = {}
    for name, value in conditions.items():
        if name in OTHERS:
            others[name] = value
        elif name not in NAMES:
            known = ", ".join([*NAMES, *OTHERS])
            raise UsageError(f"there is no condition {name!r}; there are: {known}")
        elif name in FLAGS:
            if value:
                wanted[name.replace("_", "-")] = 0
        elif value is not None:
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise UsageError(f"{name}={value!r} is not a number from 0 on")
            wanted[name.replace("_", "-")] = value
    if others.get("expect_fused") and len(others["expect_fused"]) != 2:
        raise UsageError(f"expect_fused={others['expect_fused']!r} is not a pair of operators")
    return wanted, others


# Assertions on one function.


def assert_no_graph_breaks(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Compile and call ``fn``, and return its result. Raises NotAsExpected for a graph break."""
    __tracebackhide__ = True
    with recorded() as what:
        result = _compiled(fn)(*args, **kwargs)
    what.check(max_graph_breaks=0)
    return result


def assert_no_recompiles(fn: Callable[..., Any], *calls: Sequence[Any]) -> None:
    """Compile ``fn`` and call it with each of ``calls``, tuples of arguments. Raises NotAsExpected
    where it is recompiled.
    """
    __tracebackhide__ = True
    with recorded() as what:
        compiled = _compiled(fn)
        for arguments in calls:
            compiled(*arguments)
    what.check(max_recompiles=0)


def assert_fused(
    fn: Callable[..., Any], *args: Any, operators: tuple[str, str], **kwargs: Any
) -> Any:
    """Compile and call ``fn``, and return its result. Raises NotAsExpected where no generated
    kernel computes both ``operators``, such as ``("layer_norm", "gelu")``.
    """
    __tracebackhide__ = True
    with recorded() as what:
        result = _compiled(fn)(*args, **kwargs)
    what.check(expect_fused=operators)
    return result


def assert_not_worse(
    fn: Callable[..., Any],
    *args: Any,
    baseline: str | Path,
    update: bool = False,
    own: str | Path = "",
    **kwargs: Any,
) -> Any:
    """Compile and call ``fn``, and return its result. Raises NotAsExpected where a figure is worse
    than in the file ``baseline``, which ``update`` writes.
    """
    __tracebackhide__ = True
    with recorded() as what:
        result = _compiled(fn)(*args, **kwargs)
    what.check(baseline=baseline, update=update, own=own)
    return result


def assert_same_code(
    fn: Callable[..., Any],
    *args: Any,
    baseline: str | Path,
    update: bool = False,
    **kwargs: Any,
) -> Any:
    """Compile and call ``fn``, and return its result. Raises NotAsExpected where the kernels that
    are generated differ from those in the file ``baseline``, which ``update`` writes.
    """
    __tracebackhide__ = True
    import difflib

    with recorded() as what:
        result = _compiled(fn)(*args, **kwargs)
    what.check()
    code = _kernels(what.session)
    file = Path(baseline)
    if update:
        file.write_text(code, encoding="utf-8")
        return result
    if not file.exists():
        raise UsageError(f"there is no {file}: update=True writes it")
    before = file.read_text(encoding="utf-8")
    if code != before:
        lines = difflib.unified_diff(
            before.splitlines(), code.splitlines(), str(file), "generated now", lineterm="", n=1
        )
        shown = "\n".join(list(lines)[:MOST_LINES])
        raise NotAsExpected(f"different kernels are generated\n{shown}\nfx-explorer {what.session}")
    return result


MOST_LINES = 60
"""Number of lines of a difference that a failure shows."""


def assert_close_to_eager(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``fn`` in eager mode and compiled on equal arguments with the same random numbers, and
    return the compiled result. Raises NotAsExpected where they differ by PyTorch's own rule
    (``same`` in torch/_dynamo/utils.py), with float64 as the judge where ``fn`` runs in it.

    Inductor draws random numbers of its own in what was given to torch.compile before, unless
    ``fallback_random`` is set there.
    """
    __tracebackhide__ = True
    import torch

    torch.compiler.reset()
    original = _uncompiled(fn)
    compiled = fn
    if original is fn:
        compiled = torch.compile(fn, options={"fallback_random": True})
    eager = _seeded(original, copy.deepcopy(args), copy.deepcopy(kwargs))
    result = _seeded(compiled, copy.deepcopy(args), copy.deepcopy(kwargs))
    exact, why_not = _in_float64(original, args, kwargs)
    difference = _difference(result, eager, exact)
    if difference:
        judge = (
            f" It does not run in float64, which would be the reference: {why_not}."
            if why_not
            else ""
        )
        raise NotAsExpected(
            f"results differ from eager mode's by PyTorch's own rule: {difference}.{judge} "
            "fx-explorer numerics names the first operator that differs"
        )
    return result


def _seeded(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call ``fn`` with the same random numbers as any other, on each device."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return fn(*args, **kwargs)


def _in_float64(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, str]:
    """Return the result in float64 and an empty text; or None, and the error for which there is
    none.
    """
    import torch

    try:
        wide = copy.deepcopy(fn)
        if isinstance(wide, torch.nn.Module):
            wide.double()
        return _seeded(wide, _widened(args), _widened(kwargs)), ""
    except Exception as error:  # noqa: BLE001 - whatever the program raises
        return None, f"{type(error).__name__}: {error}".partition("\n")[0]


def _widened(value: Any) -> Any:
    """Return a copy with its tensors in float64."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().double() if value.is_floating_point() else value.clone()
    if isinstance(value, dict):
        return {name: _widened(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_widened(item) for item in value)
    return copy.deepcopy(value)


def _difference(compiled: Any, eager: Any, exact: Any) -> str:
    """Return how the first of the results differs; empty where all are equal."""
    from fx_explorer.program.equal_results import Precision, compare_result, rounding_of

    results, references = list(_tensors("the result", compiled)), list(_tensors("", eager))
    judges: list[Any] = [tensor for _, tensor in _tensors("", exact)]
    if len(results) != len(references):
        return f"{len(results)} tensors instead of {len(references)}"
    if len(judges) != len(references):
        judges = [None] * len(references)
    precision = Precision(rounding_of([tensor for _, tensor in references]))
    for (name, result), (_, reference), judge in zip(results, references, judges, strict=True):
        found = compare_result(result, reference, judge, precision)
        if found.kind == "differs":
            note = f" ({found.note})" if found.note else ""
            return f"{name} by up to {found.largest:.3g}{note}"
    return ""


def _tensors(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the tensors in a result, copied to the CPU, by their names."""
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value.detach().cpu()
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(f"{name}[{key!r}]", item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _tensors(f"{name}[{index}]", item)


def _compiled(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fn`` compiled; itself where it is the result of torch.compile."""
    import torch

    if _uncompiled(fn) is not fn:
        return fn
    compiled: Callable[..., Any] = torch.compile(fn)
    return compiled


def _uncompiled(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return what was given to torch.compile; ``fn`` itself where it is no result of it."""
    of_module = getattr(fn, "_orig_mod", None)
    if of_module is not None:
        module: Callable[..., Any] = of_module
        return module
    original: Callable[..., Any] = getattr(fn, "_torchdynamo_orig_callable", fn)
    return original


def _kernels(session: Path) -> str:
    """Return the code of all kernels, the calls of libraries by their names."""
    from fx_explorer import model
    from fx_explorer.session import SessionReader

    parts = []
    with SessionReader(session) as reader:
        artifacts = {row.id: row for row in reader.rows(model.Artifact, kind="kernel")}
        for kernel in reader.rows(model.Kernel):
            parts.append(f"# {kernel.name} ({kernel.direction or 'inference'})")
            if kernel.artifact in artifacts:
                parts.append(reader.text(artifacts[kernel.artifact].text).rstrip())
    return "\n".join(parts) + "\n"
