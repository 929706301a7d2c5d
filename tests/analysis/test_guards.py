"""These tests check the description of guards (what each requires, its source and whether it can
fail), and of dynamic sizes.
"""

from __future__ import annotations

import pytest

from fx_explorer import model
from fx_explorer.analysis.naming import plain_code, plain_source
from fx_explorer.instruments.guards.guard_tree import (
    asks,
    can_fail,
    explained,
    explained_checks,
    format_check_cost,
    guard_groups,
    most_expensive,
    verdicts,
)
from fx_explorer.instruments.guards.symbols import describe_symbol_event, plain_range, symbols
from fx_explorer.session import SessionWriter
from tests.sessions import Written

TENSOR = (
    "check_tensor(L['x'], Tensor, DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU), torch.float32, "
    "device=None, requires_grad=False, size=[None, 8], stride=[8, 1])"
)


def check(
    kind: str, source: str, origin: model.Origin, code: str = "", **more: object
) -> model.GuardCheck:
    return model.GuardCheck(0, 1, 0, 0, kind, source, origin, code, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("L['x']", "x"),
        ("L['self']._modules['fc']._parameters['weight']", "self.fc.weight"),
        ("L['self']._modules['layers']._modules['0'].eps", "self.layers.0.eps"),
        ("G['F'].gelu", "F.gelu"),
        ("G['__import_torch_dot_nn_dot_modules_dot_linear'].F", "torch.nn.modules.linear.F"),
        ("G['__builtins_dict___2']['len']", "len"),
        ("L['batch']['ids']", "batch['ids']"),
    ],
)
def test_a_source_is_named_as_the_program_names_it(source: str, plain: str) -> None:
    assert plain_source(source) == plain


def test_a_relation_between_sizes_is_put_in_the_names_of_the_program() -> None:
    assert plain_code("L['x'].size()[0] < 2*L['y'].size()[1]") == "size 0 of x < 2*size 1 of y"
    assert (
        plain_code("L['x']._base.size()[0] < L['y'].grad.size()[1]")
        == "size 0 of the base of x < size 1 of y.grad"
    )


def test_a_tensor_is_asked_for_shape_dtype_stride_and_device() -> None:
    assert asks(check("TENSOR_MATCH", "L['x']", "argument", TENSOR)) == (
        "shape [any, 8], dtype float32, stride (8, 1), device cpu, no grad"
    )
    on_gpu = TENSOR.replace("(CPU,", "(CUDA,").replace("device=None", "device=0")
    assert "device cuda:0" in asks(check("TENSOR_MATCH", "L['x']", "argument", on_gpu))


def test_an_unknown_kind_shows_torchs_own_code() -> None:
    assert asks(check("SOMETHING_NEW", "L['x']", "argument", "L['x'].frobs == 2")) == "x.frobs == 2"


@pytest.mark.parametrize(
    ("one", "chance"),
    [
        (check("TENSOR_MATCH", "L['x']", "argument", TENSOR), "inputs"),
        (check("EQUALS_MATCH", "L['n']", "argument"), "inputs"),
        (check("LAMBDA_GUARD", "", "shapes", "2 <= L['x'].size()[0]"), "inputs"),
        (check("LAMBDA_GUARD", "", "shapes", "not math.isnan(G['s'])"), "program"),
        (check("TRUE_MATCH", "L['self'].training", "module"), "program"),
        (check("TENSOR_MATCH", "L['self']._parameters['w']", "module"), "program"),
        (check("EQUALS_MATCH", "G['SCALE']", "global"), "program"),
        (check("EQUALS_MATCH", "L['factor']", "closure"), "program"),
        (check("GLOBAL_STATE", "", "state"), "program"),
        (check("TYPE_MATCH", "L['self']._modules['fc']", "module"), "hardly"),
        (check("TYPE_MATCH", "L['self'].table", "module"), "program"),
        (check("ID_MATCH", "G['F'].gelu", "global"), "hardly"),
        (check("ID_MATCH", "G['__import_torch'].nn", "library"), "hardly"),
        (check("ID_MATCH", "L['activation']", "argument"), "inputs"),
    ],
)
def test_whether_a_check_can_fail_follows_from_what_it_looks_at(
    one: model.GuardCheck, chance: str
) -> None:
    found, why = can_fail(one)
    assert found == chance
    assert why


def test_a_value_from_before_a_graph_break_is_said_to_be_computed() -> None:
    assert can_fail(
        check("TENSOR_MATCH", "L['___stack0']", "argument"),
        of=model.Compilation(1, "0/0", 0, 0, "torch_dynamo_resume_in_forward_at_12", "net.py", 12),
    )[1].startswith("computed before")


def write(writer: SessionWriter) -> None:
    compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "forward", "/p/m.py", 6))
    guard = writer.add(model.Guard(0, compilation, 0, "TENSOR_MATCH", "L['x']", "", ""))
    rows = (
        check("GLOBAL_STATE", "", "state", "___check_global_state()", cost_ns=300.0),
        check("TENSOR_MATCH", "L['x']", "argument", TENSOR, cost_ns=60.0, file="/p/m.py", line=7),
        check("TYPE_MATCH", "L['x']", "argument", "___check_type_id(L['x'], 1)", cost_ns=-1.0),
        check(
            "TRUE_MATCH", "L['self'].training", "module", "L['self'].training == True", cost_ns=5.0
        ),
        check("LAMBDA_GUARD", "", "shapes", "2 <= L['x'].size()[0]"),
    )
    for row in rows:
        writer.add(
            row if row.kind != "TENSOR_MATCH" else model.GuardCheck(0, 1, guard, 0, *_rest(row))
        )
    writer.add_all(
        [
            model.GuardAnswer(0, 1, "torch.ones(8)", 1, "rejected", "size mismatch", 2),
            model.GuardAnswer(0, 2, "torch.ones(4)", 1, "accepted"),
        ]
    )
    for attempt in (0, 1):
        writer.add(
            model.Symbol(
                0,
                1,
                "s77",
                "L['x'].size()[0]",
                "4",
                "[2, int_oo]",
                0,
                ("L['x'].size()[0]",),
                "[2, int_oo]",
                "",
                attempt,
            )
        )
        writer.add(model.SymbolEvent(0, 1, "constrained", ("s77",), "s77 >= 2", attempt=attempt))


def _rest(row: model.GuardCheck) -> tuple[object, ...]:
    return (
        row.kind,
        row.source,
        row.origin,
        row.code,
        "",
        "",
        "",
        row.file,
        row.line,
        0,
        row.cost_ns,
    )


def test_checks_are_grouped_by_what_they_look_at_those_of_inputs_first(written: Written) -> None:
    groups = guard_groups(written(write))
    assert [(group.title, len(group.checks)) for group in groups] == [
        ("argument x", 2),
        ("relations between sizes", 1),
        ("module self", 1),
        ("settings of torch", 1),
    ]
    assert groups[0].cost_ns == 60.0


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("float32", ["x"]),
        ("TRAINING", ["self.training"]),
        ("x m.py:7", ["x"]),
        ("nothing here", []),
    ],
)
def test_checks_are_found_by_words_of_any_kind(
    written: Written, search: str, found: list[str]
) -> None:
    assert [
        one.name for group in guard_groups(written(write), search=search) for one in group.checks
    ] == found


def test_a_check_knows_the_guard_it_is_for(written: Written) -> None:
    kinds = {one.check.kind: one.guard_kind for one in explained_checks(written(write))}
    assert (kinds["TENSOR_MATCH"], kinds["GLOBAL_STATE"]) == ("TENSOR_MATCH", "")


def test_questions_are_answered_the_latest_first(written: Written) -> None:
    answered = [
        (one.inputs, [answer.answer for answer in one.answers]) for one in verdicts(written(write))
    ]
    assert [inputs for inputs, _ in answered] == ["torch.ones(4)", "torch.ones(8)"]
    assert "accepted" in answered[0][1]
    assert "accepted" not in answered[1][1]


@pytest.mark.parametrize(
    ("cost", "words"), [(-1.0, "not measured"), (0.0, "0 ns"), (62.4, "62 ns"), (1320.0, "1.3 µs")]
)
def test_a_cost_is_said_with_its_unit(cost: float, words: str) -> None:
    assert format_check_cost(cost) == words


# dynamic sizes


def test_a_symbol_of_an_attempt_that_was_restarted_is_left_out(written: Written) -> None:
    (one,) = symbols(written(write))
    assert (one.symbol.attempt, one.comes_from, one.state) == (1, "size 0 of x", "free, at least 2")
    assert [event.attempt for event in one.events] == [1]
    assert [guard.code for guard in one.guards] == ["2 <= L['x'].size()[0]"]


@pytest.mark.parametrize(
    ("reach", "words"),
    [
        ("[2, int_oo]", "at least 2"),
        ("[2, 4096]", "2 to 4096"),
        ("[-int_oo, 7]", "at most 7"),
        ("[-int_oo, int_oo]", "any value"),
        ("[-oo, oo]", "any value"),
    ],
)
def test_a_range_is_said_in_words(reach: str, words: str) -> None:
    assert plain_range(reach) == words


def test_what_was_decided_about_a_size_is_said_in_words() -> None:
    fixed = model.SymbolEvent(0, 1, "specialized", ("s27",), "8", "range_refined_to_singleton")
    same = model.SymbolEvent(0, 1, "same_as", ("s27",), "L['y'].size()[0]")
    assert describe_symbol_event(fixed) == "specialized to 8 (range refined to singleton)"
    assert (
        describe_symbol_event(same)
        == "size 0 of y had the same value, and must have it from now on"
    )


def test_the_most_expensive_groups_of_checks_are_named_once_each_with_their_sum() -> None:
    costs = [
        ("L['x']", 60.0),
        ("L['x']", 80.0),
        ("L['y']", 70.0),
        ("L['z']", 5.0),
        ("L['w']", -1.0),
    ]
    rows = [
        explained(check("TENSOR_MATCH", source, "argument", TENSOR, cost_ns=cost))
        for source, cost in costs
    ]
    assert most_expensive(rows) == "argument x (140 ns) and argument y (70 ns)"
