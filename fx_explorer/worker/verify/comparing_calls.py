"""Compare all calls of two programs, and tell what differs in built code by the change from what
Inductor alone changes.

Built code may differ from PyTorch's own operators whatever was changed: then the original's built
code differs too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fx_explorer.worker.verify.comparing import IN_BUILT_CODE, WITHOUT_COMPILING, Comparison, told_of_hidden
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
    state = {f"{prefix}{name}": tensor for name, tensor in before["state"].items() for prefix in ("", "global ")}
    known = frozenset(before["names"])
    comparison = Comparison(is_built, is_uncompiled, frozenset(names) - known, known, state)
    for one, other in zip(before["seen"], seen, strict=False):
        if one and other:
            comparison.add(one, other)
    untried = []
    for position, call in enumerate(before["seen"]):
        if call is None and position not in before["unsupported"]:
            untried.append(f"a call with {words[position]}, which the original did not end in time")
        elif call is not None and seen[position] is None:
            untried.append(f"a call with {words[position]}, for which it would be compiled anew for long")
    unsupported = {words[position] for position in before["unsupported"]}
    made = {word for word, call in zip(words, before["seen"], strict=True) if call}
    comparison.not_tried += [*dict.fromkeys(untried), *sorted(unsupported - made)]
    comparison.not_compared += told_of_hidden(before)
    return comparison


def add_uncompiled(comparison: Comparison, before: Mapping[str, Any], result: Mapping[str, Any], words: Sequence[str]) -> None:
    """Add what the changed program does without torch.compile (``result``, of
    ``UncompiledProgram.result``).
    """
    if "problem" in result:
        comparison.not_compared.append(f"what the changed program does without torch.compile: {result['problem']}")
    elif "failed" in result:
        comparison.differences.append(f"{result['failed']}{WITHOUT_COMPILING}")
    elif result:
        other = compared(before, result["seen"], result["names"], words, is_uncompiled=True)
        comparison.add_run_without_compiling(other)
        comparison.differences += told_of_lookups(before["lookups"], result["lookups"])
        for position, (one, changed) in enumerate(zip(before["seen"], result["seen"], strict=True)):
            if one and not changed:
                comparison.not_tried.append(f"a call with {words[position]}{WITHOUT_COMPILING}: it did not end in time")


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
        _add_failed(comparison, result["failed"], build_original())
    elif result:
        other = compared(before, result["seen"], result["names"], words, is_built=True)
        not_called = [kind for kind, one, run in zip(kinds, before["seen"], result["seen"], strict=True) if one and not run]
        if not_called:
            comparison.not_tried.append(f"{' and '.join(dict.fromkeys(not_called))} with the code built")
        comparison.is_run_built = True
        if other.differences:
            _add_differences(comparison, before, result, other.differences, build_original(), words)


def _add_failed(comparison: Comparison, failed: str, original: Mapping[str, Any]) -> None:
    if original.get("failed") == failed:
        comparison.not_compared.append(f"what the built code computes: {failed}, and so it does with the code of the original")
        return
    comparison.differences.append(f"{failed}, in the built code{_why_not_told(original) or '; that of the original does not'}")


def _why_not_told(original: Mapping[str, Any]) -> str:
    """Return, as an addition to a message, why the original's built code is unknown; empty when it
    is known.
    """
    if "seen" in original:
        return ""
    return f" (whether that of the original differs too is not known: {original.get('failed') or original['problem']})"


def _add_differences(
    comparison: Comparison,
    before: Mapping[str, Any],
    result: Mapping[str, Any],
    differences: Sequence[str],
    original: Mapping[str, Any],
    words: Sequence[str],
) -> None:
    """Sort differences in built code by whether the original's built code has them too.

    ``differences`` are those between the original, run by PyTorch's own operators, and the changed
    program, built.
    """
    unknown = _why_not_told(original)
    if unknown:
        comparison.differences += [f"{told}{unknown}" for told in differences]
        return
    by_inductor = _places(compared(before, original["seen"], original["names"], words, is_built=True).differences)
    built_before = {**before, "seen": original["seen"]}
    by_change = _places(compared(built_before, result["seen"], result["names"], words, is_built=True).differences)
    by_inductor_alone = []
    for told in differences:
        if _place(told) not in by_inductor:
            comparison.differences.append(f"{told}; that of the original does not")
        elif _place(told) in by_change:
            comparison.differences.append(f"{told}; that of the original differs too, in another way")
        else:
            by_inductor_alone.append(told)
    if by_inductor_alone:
        comparison.is_run_built = False  # the built code was run, but what it computes is not equal
        first, *others = by_inductor_alone
        more = f", and {len(others)} more" if others else ""
        comparison.not_compared.append(f"what Inductor's own code changes, with the original too ({first}{more})")


def _places(differences: Sequence[str]) -> set[str]:
    return {_place(told) for told in differences}


def _place(told: str) -> str:
    """Return the value and the call that a difference is about: "the output, with zeros" for "the
    output, with zeros in the built code: differs by up to 3".
    """
    return told.partition(IN_BUILT_CODE)[0]
