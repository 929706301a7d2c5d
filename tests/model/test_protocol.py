"""These tests check commands from outside: an invalid one is rejected as a whole, with a message."""

from __future__ import annotations

import json

import pytest

from fx_explorer.model import Changes, Command, Mark, PassFile

WHOLE = Command(
    "again",
    "partition",
    "0/0",
    "backward",
    "mlp",
    Changes(
        {"inductor.max_fusion_size": 8},
        (Mark("mlp", ("mul",), configs={"a": 1}),),
        (PassFile("joint", "a.py"),),
    ),
)


def test_a_command_comes_back_as_it_was_sent() -> None:
    assert Command.from_json(WHOLE.to_json()) == WHOLE
    assert Command.from_json(Command("go").to_json()) == Command("go")


NONE: dict[str, object] = {
    "dance": {"kind": "dance"},
    "nowhere": {"kind": "again", "gate": "nowhere"},
    "run_to needs a pause": {"kind": "run_to"},
    "direction": {"kind": "again", "direction": "sideways"},
    "compilation": {"kind": "again", "compilation": 3},
    "JSON object": ["go"],
    "changes are": {"kind": "set", "changes": [1]},
    "gate cannot be": {"kind": "pass", "changes": {"passes": [{"gate": "post", "path": "a.py"}]}},
    "path cannot be": {"kind": "pass", "changes": {"passes": [{"gate": "joint", "path": 3}]}},
    "first_line cannot be": {
        "kind": "mark",
        "changes": {"marks": [{"name": "a", "first_line": "1"}]},
    },
    "nodes cannot be": {"kind": "mark", "changes": {"marks": [{"name": "a", "nodes": [1]}]}},
    "mapping": {"kind": "mark", "changes": {"marks": ["a"]}},
    "unexpected keyword": {"kind": "go", "speed": 9},
}


@pytest.mark.parametrize("complaint", NONE)
def test_what_is_no_command_is_refused_with_its_reason(complaint: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError), match=complaint):
        Command.from_json(json.dumps(NONE[complaint]))
