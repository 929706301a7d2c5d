"""Compare all calls of two programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fx_explorer.worker.verify import inductors_own
from fx_explorer.worker.verify.comparing import WITHOUT_COMPILING, Comparison, told_of_hidden
from fx_explorer.worker.verify.observed.lookups import told_of_lookups


def compared(
    before: Mapping[str, Any],
    seen: Sequence[Mapping[str, Any] | None],
    names: Sequence[str],
    words: Sequence[str],
    *,
    is_built: bool = False,
    is_uncompiled: bool = False,
) -> Comparison:
    """Compare the calls of two programs.

    ``before`` is the original's result. ``seen`` is what the changed program did in the same calls,
    None where it was not called. ``names`` are its globals before the first call, and ``words`` say
    what each call is made with, or in what it is unlike the example.
    """
    state = {
        f"{prefix}{name}": tensor
        for name, tensor in before["state"].items()
        for prefix in ("", "global ")
    }
    known = frozenset(before["names"])
    comparison = Comparison(
        is_built, is_uncompiled, frozenset(names) - known, known, at_first=state
    )
    for one, other in zip(before["seen"], seen, strict=False):
        if one and other:
            comparison.add(one, other)
    untried = []
    for position, call in enumerate(before["seen"]):
        if call is None and position not in before["unsupported"]:
            untried.append(f"a call with {words[position]}, which the original did not end in time")
        elif call is not None and seen[position] is None:
            untried.append(
                f"a call with {words[position]}, for which it would be compiled anew for long"
            )
    unsupported = {words[position] for position in before["unsupported"]}
    made = {word for word, call in zip(words, before["seen"], strict=True) if call}
    comparison.not_tried += [*dict.fromkeys(untried), *sorted(unsupported - made)]
    comparison.not_compared += told_of_hidden(before)
    return comparison


def add_uncompiled(
    comparison: Comparison,
    before: Mapping[str, Any],
    result: Mapping[str, Any],
    words: Sequence[str],
) -> None:
    """Add what the changed program does without torch.compile (``result``, of
    ``UncompiledProgram.result``).
    """
    if "problem" in result:
        comparison.not_compared.append(
            f"what the changed program does without torch.compile: {result['problem']}"
        )
    elif "failed" in result:
        comparison.differences.append(f"{result['failed']}{WITHOUT_COMPILING}")
    elif result:
        other = compared(before, result["seen"], result["names"], words, is_uncompiled=True)
        comparison.add_run_without_compiling(other)
        comparison.differences += told_of_lookups(before["lookups"], result["lookups"])
        for position, (one, changed) in enumerate(zip(before["seen"], result["seen"], strict=True)):
            if one and not changed:
                comparison.not_tried.append(
                    f"a call with {words[position]}{WITHOUT_COMPILING}: it did not end in time"
                )


def add_built(
    comparison: Comparison,
    before: Mapping[str, Any],
    result: Mapping[str, Any],
    words: Sequence[str],
    kinds: Sequence[str],
    build_original: Callable[[], Mapping[str, Any]],
) -> None:
    """Add what the changed program does as built code (``result``, of ``BuiltProgram.result``).
    ``kinds`` say of calls for which it would be built anew what they are unlike the example in.

    ``build_original`` builds and runs the original. That takes as long as a compile, so it is
    called only when there is a difference.
    """
    if "problem" in result:
        comparison.not_compared.append(f"what the built code computes: {result['problem']}")
    elif "failed" in result:
        original = build_original()
        inductors_own.add_failed(
            comparison, result["failed"], original.get("failed", ""), original.get("problem", "")
        )
    elif result:
        other = compared(before, result["seen"], result["names"], words, is_built=True)
        not_called = [
            kind
            for kind, one, run in zip(kinds, before["seen"], result["seen"], strict=True)
            if one and not run
        ]
        if not_called:
            comparison.not_tried.append(
                f"{' and '.join(dict.fromkeys(not_called))} with the code built"
            )
        comparison.is_run_built = True
        if other.differences:
            _add_differences(comparison, before, result, other, build_original(), words)


def _add_differences(
    comparison: Comparison,
    before: Mapping[str, Any],
    result: Mapping[str, Any],
    built: Comparison,
    original: Mapping[str, Any],
    words: Sequence[str],
) -> None:
    """Sort differences in built code (``built``) by whether the original's built code has them too."""
    if "seen" not in original:
        inductors_own.add_unknown(comparison, built, original.get("failed") or original["problem"])
        return
    of_original = compared(before, original["seen"], original["names"], words, is_built=True)
    built_before = {**before, "seen": original["seen"]}
    between = compared(built_before, result["seen"], result["names"], words, is_built=True)
    inductors_own.add_differences(comparison, built, of_original, between)
