"""These tests check that what a change adds to a class counts as the change's, like a new global,
and that what a call adds does not.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from fx_explorer.instruments.fixes.measure.comparing import Comparison
from fx_explorer.instruments.fixes.measure.observing import names_of


def module_with(text: str) -> ModuleType:
    module = ModuleType("program")
    exec(text, vars(module))
    return module


BEFORE = "class Net:\n    def forward(self, x): return x\n"
AFTER = f"{BEFORE}    def forward_graph(self, x): return x\n"


def call_that_leaves(facts: dict[str, dict[str, str]]) -> dict[str, Any]:
    written: dict[str, list[str]] = {"printed": [], "errors": [], "effects": []}
    nothing = {
        "values": {},
        "same": [],
        "overlapping": [],
        "unreadable": {},
        "raised": "",
        "message": "",
    }
    return {"call": "the example inputs", "facts": facts, **written, **nothing}


def test_a_method_that_the_change_writes_is_told_apart_from_one_that_a_call_adds() -> None:
    before, after = (
        frozenset(names_of([module_with(text)], "program")) for text in (BEFORE, AFTER)
    )
    assert after - before == {"global Net.forward_graph"}
    seen = {"global Net": {"type": "type"}, "global Net.forward": {"type": "function"}}
    comparison = Comparison(ignored=after - before, known=before)
    written, added = (
        {f"global Net.{name}": {"type": "function"}}
        for name in ("forward_graph", "added_by_a_call")
    )
    comparison.add(call_that_leaves(seen), call_that_leaves({**seen, **written}))
    assert comparison.differences == []
    comparison.add(call_that_leaves(seen), call_that_leaves({**seen, **added}))
    assert comparison.differences == [
        "global Net.added_by_a_call (function) is new, with the example inputs"
    ]


def test_classes_of_others_are_not_looked_into() -> None:
    names = set(names_of([module_with("from collections import OrderedDict\n")], "program"))
    assert names == {"global OrderedDict"}
