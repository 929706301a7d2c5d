"""Compare all calls of two programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fx_explorer.worker.verify import inductors_own
from fx_explorer.worker.verify.comparing import WITHOUT_COMPILING, Comparison, told_of_hidden
from fx_explorer.worker.verify.observed.lookups import told_of_lookups
from fx_explorer.worker.verify.observed.outside import asks_for_what_varies
from fx_explorer.worker.verify.varying import VariesByItself, Varying


class CallsOfTheOriginal:
    """Compares calls of a changed program with the original's, without what is something else in each run of it."""

    def __init__(
        self,
        before: Mapping[str, Any],
        words: Sequence[str],
        runs_again: Sequence[Callable[[], Mapping[str, Any]]] = (),
    ) -> None:
        """``before`` is the original's result, and ``words`` say what each call is made with, or in what it is unlike the
        example. Each of ``runs_again`` runs the original once more.
        """
        self.before = before
        self.words = words
        self._varies_by_itself = VariesByItself(
            [functools.partial(self._varying_in, run) for run in runs_again],
            is_of_chance=asks_for_what_varies(before),
        )

    def compared(
        self,
        seen: Sequence[Mapping[str, Any] | None],
        names: Sequence[str],
        *,
        is_built: bool = False,
        is_uncompiled: bool = False,
        of_original: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> Comparison:
        """Compare what was seen of the calls with the original's, or with ``of_original``."""
        before = self.before if of_original is None else {**self.before, "seen": of_original}
        return self._varies_by_itself.compared(
            lambda varying: compared(
                before,
                seen,
                names,
                self.words,
                varying,
                is_built=is_built,
                is_uncompiled=is_uncompiled,
            )
        )

    def _varying_in(self, run_again: Callable[[], Mapping[str, Any]]) -> Varying | None:
        again = run_again()
        if "seen" not in again:
            return None
        varying = Varying()
        for one, other in zip(self.before["seen"], again["seen"], strict=True):
            if one and other:
                comparison = Comparison(at_first=_state_at_first(self.before))
                comparison.add(one, other)
                varying |= comparison.varies(one, other)
        return varying


def _state_at_first(before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters and buffers that calls begin with, by all their names."""
    return {
        f"{prefix}{name}": tensor
        for name, tensor in before["state"].items()
        for prefix in ("", "global ")
    }


def compared(
    before: Mapping[str, Any],
    seen: Sequence[Mapping[str, Any] | None],
    names: Sequence[str],
    words: Sequence[str],
    varying: Varying = Varying(),  # noqa: B008 - it is never changed
    *,
    is_built: bool = False,
    is_uncompiled: bool = False,
) -> Comparison:
    """Compare the calls of two programs.

    ``before`` is the original's result. ``seen`` is what the changed program did in the same calls,
    None where it was not called. ``names`` are its globals before the first call, and ``words`` say
    what each call is made with, or in what it is unlike the example.
    """
    known = frozenset(before["names"])
    comparison = Comparison(
        is_built,
        is_uncompiled,
        frozenset(names) - known,
        known,
        varying,
        at_first=_state_at_first(before),
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
    comparison.not_compared += [*varying.told(), *told_of_hidden(before)]
    return comparison


def add_uncompiled(
    comparison: Comparison, original: CallsOfTheOriginal, result: Mapping[str, Any]
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
        before = original.before
        other = original.compared(result["seen"], result["names"], is_uncompiled=True)
        comparison.add_run_without_compiling(other)
        comparison.differences += told_of_lookups(before["lookups"], result["lookups"])
        for position, (one, changed) in enumerate(zip(before["seen"], result["seen"], strict=True)):
            if one and not changed:
                comparison.not_tried.append(
                    f"a call with {original.words[position]}{WITHOUT_COMPILING}: it did not end in time"
                )


def add_built(
    comparison: Comparison,
    original: CallsOfTheOriginal,
    result: Mapping[str, Any],
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
        built = build_original()
        inductors_own.add_failed(
            comparison, result["failed"], built.get("failed", ""), built.get("problem", "")
        )
    elif result:
        other = original.compared(result["seen"], result["names"], is_built=True)
        not_called = [
            kind
            for kind, one, run in zip(kinds, original.before["seen"], result["seen"], strict=True)
            if one and not run
        ]
        if not_called:
            comparison.not_tried.append(
                f"{' and '.join(dict.fromkeys(not_called))} with the code built"
            )
        comparison.is_run_built = True
        if other.differences:
            _add_differences(comparison, original, result, other, build_original())


def _add_differences(
    comparison: Comparison,
    original: CallsOfTheOriginal,
    result: Mapping[str, Any],
    built: Comparison,
    built_original: Mapping[str, Any],
) -> None:
    """Sort differences in built code (``built``) by whether the original's built code has them too."""
    if "seen" not in built_original:
        why = built_original.get("failed") or built_original["problem"]
        inductors_own.add_unknown(comparison, built, why)
        return
    seen = built_original["seen"]
    of_original = original.compared(seen, built_original["names"], is_built=True)
    between = original.compared(result["seen"], result["names"], is_built=True, of_original=seen)
    inductors_own.add_differences(comparison, built, of_original, between)
