"""These tests check that the user's names are found for torch's new names. The second source is the
model itself.
"""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest

from fx_explorer import model
from fx_explorer.analysis.input_names import result_name
from fx_explorer.analysis.naming import (
    function_of,
    plain_code,
    plain_function,
    plain_source,
    resumed_at,
    size_name,
    with_names_of_function,
)

REST = "Net.torch_dynamo_resume_in_forward_at_12"

RESUMED = model.Compilation(1, "0/0", 0, 0, REST, "net.py", 12)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("L['x']", "x"),
        ("L['kwargs']['input_ids']", "input_ids"),
        ("L['kwargs']['cache'].layers[0].keys", "cache.layers[0].keys"),
        ("kwargs['input_ids']", "input_ids"),  # as torch writes it in reasons of recompiles
        ("self.kwargs['input_ids']", "self.kwargs['input_ids']"),
        ("object.__getattribute__(L['self'].config, 'problem_type')", "self.config.problem_type"),
        ("L['kwargs'][0]", "kwargs[0]"),
        ("G['F'].gelu", "F.gelu"),
        ("L['self']._modules['fc']._parameters['weight']", "self.fc.weight"),
        (
            "G['__import_torch_dot_nn_dot_modules_dot_module']._global_forward_hooks",
            "torch.nn.modules.module._global_forward_hooks",
        ),
        ("G['__builtins_dict___11']['super']", "super"),
        (
            "list(dict.keys(L['self']._modules['layers']._modules))[1]",
            "key 1 of self.layers._modules",
        ),
        (
            "dict(type(L['self'].config).__dict__)['attribute_map']",
            "type(self.config).attribute_map",
        ),
        ("L['größe']", "größe"),
    ],
)
def test_a_source_is_named_as_the_program_names_it(source: str, name: str) -> None:
    assert plain_source(source) == name


def test_a_value_of_an_unfinished_expression_is_told_by_its_line() -> None:
    assert plain_source("L['___stack0']", RESUMED) == "the value computed at line 12"
    assert plain_source("L['___stack0']") == "a value of an unfinished expression"
    assert with_names_of_function("___stack2 was 6.1 and now is 6.8", RESUMED) == (
        "the value computed at line 12 was 6.1 and now is 6.8"
    )


def test_an_argument_that_a_decorator_hands_on_has_the_name_that_the_function_has_for_it() -> None:
    known = replace(
        RESUMED,
        argument_names={
            "L['args'][0]": "input_ids",
            "L['args'][1]['mask']": r"mask\1",
            "L['args'][1]": "extra",
        },
    )
    assert plain_source("L['args'][0]", known) == "input_ids"
    assert plain_source("L['args'][1]['mask'].shape", known) == r"mask\1.shape"
    assert (
        plain_code("L['args'][0].size()[1] <= L['args'][10].size()[0]", known)
        == "size 1 of input_ids <= size 0 of args[10]"
    )
    assert plain_source("L['self'].args[0]", known) == "self.args[0]"
    assert (
        with_names_of_function("size 0 of args[1] was 2 and now is 3", known)
        == "size 0 of extra was 2 and now is 3"
    )


def test_conditions_are_written_without_functions_of_torchs_own() -> None:
    assert (
        plain_code("not ___dict_contains('return_dict', L['kwargs'])")
        == "'return_dict' not in kwargs"
    )
    assert plain_code("L['x'].size()[0] < L['___stack1'].size()[1]", RESUMED) == (
        "size 0 of x < size 1 of the value computed at line 12"
    )


def test_a_view_and_what_a_dataclass_generates_are_named_in_words() -> None:
    assert plain_code("L['x']._base.size()[1] == 4") == "size 1 of the base of x == 4"
    assert plain_source("L['self']._basement") == "self._basement"
    assert plain_function("__create_fn__.<locals>.__init__") == "the __init__ of a dataclass"


def test_a_rest_and_a_lambda_are_named_by_what_the_user_wrote() -> None:
    assert plain_function(REST) == "rest of Net.forward after line 12"
    assert resumed_at(REST) == 12
    assert resumed_at("Net.forward") == 0

    class Net:
        activation = staticmethod(lambda x: x)

    written = inspect.unwrap(Net.activation)
    row = model.Compilation(
        1, "0/0", 0, 0, written.__qualname__, __file__, written.__code__.co_firstlineno
    )
    told = function_of(row)
    assert told.startswith("a lambda in ")
    assert told.endswith(f"test_naming.py:{written.__code__.co_firstlineno}")
    assert "<lambda>" not in told


def test_sizes_are_named_by_where_they_come_from() -> None:
    def symbol(name: str, source: str) -> model.Symbol:
        return model.Symbol(1, 1, name, source, "4", "")

    assert size_name(symbol("s23", "L['input_ids'].size()[1]")) == "input_ids.size(1)"
    assert size_name(symbol("zf2", "L['scale']")) == "scale"
    assert size_name(symbol("u0", ""), line=7) == "‹computed at line 7›"
    assert size_name(symbol("zf2", "L['___stack0']"), RESUMED) == "‹value computed at line 12›"


def test_results_of_an_operation_are_counted_and_gradients_are_told() -> None:
    def node(name: str, op: str, target: str, arguments: str) -> model.Node:
        return model.Node(1, 1, 0, name, op, target, arguments)

    assert (
        result_name(node("getitem_3", "call_function", "operator.getitem", "sort_2, 1"))
        == "result 1 of sort_2"
    )
    assert result_name(node("tangents_1", "placeholder", "tangents_1", "")) == "incoming gradient 1"
    assert result_name(node("mm", "call_function", "aten.mm.default", "a, b")) == "mm"
