"""What Inductor is expected to decide about the planted functions: function → (kind, outcome)."""

from __future__ import annotations

GPU: dict[str, set[tuple[str, str]]] = {
    "multiplied": {("library call", "autotuning off")},
    "multiplied_integers": {("library call", "dtype")},
    "convolved_after_relu": {
        ("library call", "autotuning off"),
        # The result of relu is not in memory yet; the filters are an input, in the usual order.
        ("layout", "laid out so"),
        ("layout", "copied"),
    },
    "summed": {("reduction", "split")},
    "summed_rows": {("reduction", "not split")},
    "opaque": {("library call", "no lowering"), ("layout", "copied")},
    "sorted_long": {("library call", "lowering gives up")},
    "both_orders": {("tiles", "two dimensions")},
}

CPU: dict[str, set[tuple[str, str]]] = {
    "convolved": {("library call", "no template"), ("layout", "copied")},
    "multiplied": {("library call", "autotuning off")},
    "added_shorts": {("vectors", "dtype")},
    "bessel": {("vectors", "one by one")},
    "tiny": {("threads", "too small")},
    "large": {("threads", "parallel"), ("vectors", "vectorized")},
    "every_third": {("vectors", "not contiguous")},
    "solved": {("library call", "no lowering")},
    "rotated": {("library call", "unsupported type")},
    "odd": {("vectors", "vectorized with a tail")},
    "sorted_rows": {("library call", "lowering gives up")},
}
