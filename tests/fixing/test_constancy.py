"""These tests check which calls are recognised, by their text, as possibly giving a different
result at another call.
"""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from fx_explorer.instruments.fixes.causes.constants import Constancy
from fx_explorer.source_edit.code import Code, parsed

PROGRAM = """
import config, datetime, functools, json, math, os, time, zlib
from config import GAIN
from pathlib import Path

SETTINGS = {"gain": 2.0}
NAMES = ["a", "b"]
TEXT, SIZES = "abc", (1, 2, 3)
WIDTH = 4 * 2
COUNT = 0
RATE = 0.1
RATE = 0.2
OPTIONS = Options()

class Options:
    gain = 2.0
    def value(self):
        return self.gain

def bump():
    global COUNT
    COUNT += 1

def gain():
    return SETTINGS["gain"]

def twice(n):
    return n * 2

def deeper():
    return twice(gain())

def remembering(seen=[]):
    return len(seen)

def when():
    return datetime.datetime.now().hour

def of_object(c):
    return c.gain

def around(n):
    def inner(x):
        return x * {call}
    return inner
"""

CAN_CHANGE = {
    "a dict of the file": ("json.loads(json.dumps(SETTINGS))", "SETTINGS is a dict"),
    "an element of it": ("zlib.crc32(SETTINGS['gain'])", "SETTINGS is a dict"),
    "a list": ("zlib.crc32(NAMES[0])", "NAMES is a list"),
    "a global that a function assigns": ("twice(COUNT)", "COUNT is assigned"),
    "a global with two values": ("twice(RATE)", "RATE is assigned"),
    "an attribute of a class": ("twice(Options.gain)", "Options.gain can be assigned"),
    "an object": ("json.dumps(OPTIONS)", "OPTIONS is an object"),
    "a method of the user's": ("OPTIONS.value()", "self.gain can be assigned"),
    "a setting of another file": ("twice(config.GAIN)", "config.GAIN can be assigned"),
    "a name of another file": ("twice(GAIN)", "GAIN, from another file"),
    "the environment": ("json.loads(os.environ['A'])", "os.environ"),
    "a variable of it": ("os.getenv('A')", "os.getenv()"),
    "a file": ("open('settings').read()", "read()"),
    "a file by its path": ("Path('settings').read_text()", "read_text()"),
    "the time": ("when()", "datetime.datetime.now()"),
    "the date": ("datetime.date.today()", "datetime.date.today()"),
    "a function that reads a dict": ("gain()", "SETTINGS is a dict"),
    "a function below a function": ("deeper()", "SETTINGS is a dict"),
    "a default that is kept": ("remembering()", "the default of seen"),
    "a closure": ("twice(n)", "n is a variable of the enclosing function"),
}

STAYS = [
    "zlib.crc32(b'abc')",
    "zlib.crc32(TEXT.encode()) % WIDTH",
    "twice(SIZES[0])",
    "math.sqrt(math.pi)",
    "functools.reduce(max, [1, 2, 3])",
    "os.path.join('a', 'b')",
    "sum(n * 2 for n in SIZES)",
]


def code_and_call(expression: str) -> tuple[Code, cst.BaseExpression]:
    code = parsed(textwrap.dedent(PROGRAM).replace("{call}", expression))
    (inner,) = code.functions_named("inner")
    product = next(node for node in code.find(inner.body.body[0], cst.BinaryOperation))
    return code, product.right


@pytest.mark.parametrize("kind", CAN_CHANGE)
def test_what_can_change_is_seen_in_the_code(kind: str) -> None:
    expression, reason = CAN_CHANGE[kind]
    code, call = code_and_call(f"({expression})")
    assert reason in Constancy([]).why_not(code, call)


@pytest.mark.parametrize("expression", STAYS)
def test_nothing_is_held_against_what_stays(expression: str) -> None:
    code, call = code_and_call(f"({expression})")
    assert Constancy([]).why_not(code, call) == ""


def test_an_argument_may_be_given_but_not_what_can_be_assigned_on_it() -> None:
    code, call = code_and_call("(zlib.crc32(n.encode()))")
    assert Constancy([]).why_not(code, call, ["n"]) == ""
    for expression in ("(twice(n.gain))", "(of_object(n))", "(n.value())"):
        code, call = code_and_call(expression)
        assert "gain can be assigned" in Constancy([]).why_not(code, call, ["n"])


def test_functions_of_other_files_are_looked_into() -> None:
    other = parsed("TABLE = {}\ndef look_up():\n    return TABLE['a']\n")
    code, call = code_and_call("(config.look_up())")
    assert "TABLE is a dict" in Constancy([other]).why_not(code, call)
