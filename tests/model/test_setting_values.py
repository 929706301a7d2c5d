"""These tests check the values that an option accepts, as a person types them."""

from __future__ import annotations

import ast
import json
import re

import pytest

from fx_explorer.argument_types import option as option_of_the_command_line
from fx_explorer.model import Setting
from fx_explorer.model.setting_values import (
    choices_of,
    declared,
    fits,
    parse_value,
    plain_type,
    problem_of,
    python_text,
)


def option(type_text: str, name: str = "x", choices: tuple[str, ...] = ()) -> Setting:
    return Setting(
        1, "inductor", name, type_text, "null", "null", "", choices or choices_of(type_text)
    )


@pytest.mark.parametrize(
    ("annotation", "plain"),
    [
        ("bool", "bool"),
        ("NoneType", ""),
        ("typing.Optional[bool]", "bool | None"),
        ("typing.Union[bool, typing.Literal['a', 'b']]", "bool | Literal['a', 'b']"),
        ("dict[str, typing.Any]", "dict[str, Any]"),
        ("tuple[int, ...]", "tuple[int, ...]"),
        ("tuple[None, str]", "tuple[None, str]"),
        ("collections.abc.Callable[[int], int] | None", ""),
        ("list[str | collections.abc.Callable[..., None]]", "list[str]"),
        ("dict[torch._ops.OpOverload, list[str]]", ""),
        ("set[str]", ""),
        ("CUDAGraphPolicy | None", ""),
        ("<class 'object'>", ""),
        ("not a type", ""),
    ],
)
def test_the_plain_part_of_an_annotation(annotation: str, plain: str) -> None:
    assert plain_type(annotation) == plain


@pytest.mark.parametrize(
    ("type_text", "typed", "value"),
    [
        ("bool", "true", True),
        ("bool", " False ", False),
        ("bool | None", "None", None),
        ("int", "8", 8),
        ("str", "8", "8"),
        ("str", '"8"', "8"),
        ("str", "ATEN,TRITON", "ATEN,TRITON"),
        ("str", "", ""),
        ("str | None", "null", None),
        ("bool | str", "true", True),
        ("float", "1", 1),
        ("float", "1e-3", 0.001),
        ("Literal['none', 'all']", "all", "all"),
        ("Literal['0', '1']", "1", "1"),
        ("Literal[0, 1]", "1", 1),
        ("list[str]", "['a', 'b']", ["a", "b"]),
        ("tuple[int, int, int]", "(2, 1, 1)", [2, 1, 1]),
        ("dict[str, Any]", "{'a': (1, None)}", {"a": [1, None]}),
        ("Any", "anything", "anything"),
    ],
)
def test_json_python_and_bare_words_are_read(type_text: str, typed: str, value: object) -> None:
    read = parse_value(option(type_text), typed)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("type_text", "typed", "message"),
    [
        ("bool", "1", "inductor.x takes True or False, not 1"),
        ("bool", "yes", 'inductor.x takes True or False, not the text "yes"'),
        ("int", "lots", 'inductor.x takes a whole number, not the text "lots"'),
        ("int", "", 'inductor.x takes a whole number, not the text ""'),
        ("int", "true", "inductor.x takes a whole number, not True"),
        ("int | None", "1.5", "inductor.x takes a whole number or None, not 1.5"),
        ("float", "NaN", "inductor.x takes a number, not nan"),
        ("list[int]", "[1, 'a']", 'inductor.x takes list[int], not [1, "a"]'),
        ("tuple[int, int]", "[1]", "inductor.x takes tuple[int, int], not [1]"),
        ("dict[str, int]", "{1: 2}", 'inductor.x takes dict[str, int], not the text "{1: 2}"'),
        (
            "Literal['none', 'all']",
            "al",
            'inductor.x takes "none" or "all", not the text "al"; did you mean "all"?',
        ),
        (
            "list",
            "[1, 2",
            (
                "inductor.x takes a list, such as [1, 2]; Python cannot parse this: '[' was never "
                "closed (character 1)"
            ),
        ),
        (
            "str",
            '"a" + f()',
            "inductor.x takes a text; only plain values are allowed: numbers, strings in quotes, "
            "True, False, None, lists and dicts",
        ),
        (
            "",
            "1",
            (
                "inductor.x takes a Python object and cannot be set from here; set it in your own "
                "program"
            ),
        ),
    ],
)
def test_a_wrong_value_says_what_the_option_takes(type_text: str, typed: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_value(option(type_text), typed)


@pytest.mark.parametrize(
    "typed",
    ["[" * 5_000, "9" * 5_000, "(" * 500 + ")" * 500, "\x00", "'\\d", "b'x'", "1+2j", "{1, 2}"],
)
def test_whatever_is_typed_ends_in_a_message(typed: str) -> None:
    with pytest.raises(ValueError, match="takes a list"):
        parse_value(option("list"), typed)


def test_many_choices_are_counted_and_the_nearest_named() -> None:
    names = (
        "inductor",
        "eager",
        "aot_eager",
        "cudagraphs",
        "openxla",
        "tvm",
        "ts",
        "aot_ts",
        "pre_dispatch_eager",
    )
    backend = option("str", choices=tuple(map(json.dumps, names)))
    assert problem_of(backend, "inducter") == (
        'inductor.x takes one of 9 names, not the text "inducter"; did you mean "inductor"?'
    )
    assert problem_of(backend, "zzz") == 'inductor.x takes one of 9 names, not the text "zzz"'


def test_only_closed_types_have_choices() -> None:
    assert choices_of("bool | None") == ("true", "false", "null")
    assert choices_of("Literal['a'] | None") == ('"a"', "null")
    assert choices_of("str | None") == ()
    assert choices_of("") == ()


def test_a_tuple_travels_as_a_list_and_becomes_one_again() -> None:
    wanted = option("dict[str, tuple[int, ...]] | None")
    sent = json.loads(json.dumps(parse_value(wanted, "{'a': (1, 2)}")))
    assert declared(wanted.type, sent) == {"a": (1, 2)}
    assert declared("list[tuple[int, str]]", [[1, "a"]]) == [(1, "a")]
    assert declared("tuple", [1, 2]) == (1, 2)
    assert declared(wanted.type, None) is None


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        "true",
        "8",
        "",
        " a ",
        "it's",
        '"',
        "[a",
        None,
        True,
        1.5,
        1e-30,
        ["a", None],
        {"a": [True]},
    ],
)
def test_what_is_shown_for_editing_is_python_and_reads_back_as_the_same_value(
    value: object,
) -> None:
    kind = "str" if isinstance(value, str) else "Any"
    assert parse_value(option(kind), python_text(value)) == value
    assert ast.literal_eval(python_text(value)) == value


def test_a_bare_text_may_begin_with_a_bracket_and_none_with_a_quote_that_has_no_end() -> None:
    assert parse_value(option("str"), "[a-z]+") == "[a-z]+"
    with pytest.raises(ValueError, match="unterminated string literal"):
        parse_value(option("str"), '"ATEN,TRITON')


def test_true_is_not_the_number_one() -> None:
    assert not fits("int", True)
    assert not fits("Literal[0, 1]", True)
    assert fits("float", 1)
    assert not fits("bool", 1)


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("null", None),
        ("None", None),
        ("true", True),
        ("TRUE", True),
        ('{"max_autotune": true}', {"max_autotune": True}),
        ("{'max_autotune': True}", {"max_autotune": True}),
        ("max-autotune", "max-autotune"),
        ("[1,", "[1,"),
    ],
)
def test_a_value_of_the_command_line_is_python_or_json_as_it_is_shown(
    typed: str, value: object
) -> None:
    assert option_of_the_command_line(f"compile.options={typed}") == ("compile.options", value)
