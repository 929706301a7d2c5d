"""These tests check that values that can be reached in several ways have the name that the
program's author would give them.
"""

from __future__ import annotations

import torch

from fx_explorer.instruments.fixes.measure.reachable import ReachableWalk, ReachedValues
from fx_explorer.program.place import is_users_file


def reached(**values: object) -> ReachedValues:
    walk = ReachableWalk(lambda path: False)
    for name, value in values.items():
        walk.add("global", name, value)
    return walk.reached()


def test_a_parameter_has_its_name_in_the_module_also_where_an_optimizer_comes_first() -> None:
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2))))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    found = reached(optimizer=optimizer, model=model)
    assert set(found.values["gradient"]) == {
        f"the gradient of model.0.0.0.{name}" for name in ("weight", "bias")
    }
    assert "model.0.0.0.weight" in found.values["global"]


def test_a_key_of_a_dict_has_its_other_name_if_it_has_one() -> None:
    key, other = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    found = reached(by_tensor={key: 1, other: 2}, holder=[[[key]]])
    assert set(found.values["gradient"]) == {
        "the gradient of holder[0][0][0]",
        "the gradient of by_tensor, key 1",
    }


def test_the_code_of_a_graph_is_no_file_of_the_users() -> None:
    """What is warned of while a graph runs by PyTorch's operators is not the program's."""
    code = torch.fx.symbolic_trace(torch.nn.Linear(2, 2)).forward.__code__
    assert not is_users_file(code.co_filename), code.co_filename
    assert is_users_file("<string>")
