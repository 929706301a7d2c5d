"""This module says in a few words what an instruction of Python's bytecode does (the module
``dis`` of Python's documentation has all of them).
"""

from __future__ import annotations

_WORDS: dict[str, str] = {
    "RESUME": "the function begins, or continues",
    "LOAD_FAST": "pushes the variable",
    "LOAD_FAST_BORROW": "pushes the variable",
    "LOAD_FAST_CHECK": "pushes the variable",
    "LOAD_DEREF": "pushes the variable of an outer function",
    "LOAD_CLOSURE": "pushes the cell of a variable that an inner function uses",
    "LOAD_GLOBAL": "pushes the global, after a NULL if a call follows",
    "LOAD_NAME": "pushes the name",
    "LOAD_CONST": "pushes the constant",
    "LOAD_ATTR": "replaces the top by its attribute",
    "LOAD_METHOD": "replaces the top by its method, ready to be called",
    "STORE_FAST": "pops the top into the variable",
    "STORE_DEREF": "pops the top into the variable of an outer function",
    "STORE_GLOBAL": "pops the top into the global",
    "STORE_ATTR": "sets an attribute of the top to the value below it",
    "STORE_SUBSCR": "sets an item",
    "DELETE_FAST": "deletes the variable",
    "BINARY_OP": "replaces the top two values by an item",
    "BINARY_SUBSCR": "replaces a container and an index on top by the item",
    "COMPARE_OP": "compares the two on top",
    "IS_OP": "checks whether the top two values are the same object",
    "CONTAINS_OP": "checks whether one is in the other",
    "UNARY_NOT": "negates the top",
    "UNARY_NEGATIVE": "negates the top",
    "PRECALL": "prepares the call",
    "KW_NAMES": "gives the names of the call's keyword arguments",
    "CALL": "calls a function with this many arguments from the top",
    "CALL_KW": "calls a function with keyword arguments",
    "CALL_FUNCTION_EX": "calls a function with *args or **kwargs",
    "RETURN_VALUE": "returns the top",
    "RETURN_CONST": "returns a constant",
    "YIELD_VALUE": "yields the top and suspends the generator",
    "RETURN_GENERATOR": "returns a generator whose body has not started",
    "GET_ITER": "replaces the top by an iterator over it",
    "FOR_ITER": "pushes the next item, or ends the loop",
    "JUMP_BACKWARD": "goes back to the head of the loop",
    "JUMP_FORWARD": "jumps",
    "BUILD_TUPLE": "makes a tuple from the top values",
    "BUILD_LIST": "makes a list from the top values",
    "BUILD_MAP": "makes a dict from the top values",
    "BUILD_SLICE": "makes a slice from the top values",
    "LIST_APPEND": "appends the top to a list",
    "LIST_EXTEND": "extends a list by the top",
    "UNPACK_SEQUENCE": "replaces the top by its items",
    "MAKE_FUNCTION": "makes a function from the code on top",
    "POP_TOP": "drops the top",
    "PUSH_NULL": "pushes NULL, which is below a called function",
    "COPY": "pushes a copy of a value further down",
    "SWAP": "exchanges two values",
    "NOP": "does nothing",
    "BEFORE_WITH": "enters the context manager on top",
    "WITH_EXCEPT_START": "leaves a with block because of an exception",
    "PUSH_EXC_INFO": "an except block begins",
    "CHECK_EXC_MATCH": "checks whether the exception has the class on top",
    "POP_EXCEPT": "the exception is handled",
    "RERAISE": "raises the exception again",
    "RAISE_VARARGS": "raises an exception",
    "COPY_FREE_VARS": "copies in variables of an outer function",
    "MAKE_CELL": "makes a cell for a variable that an inner function uses",
    "IMPORT_NAME": "imports a module",
}


_OPERATORS = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")
"""The operators of ``BINARY_OP`` by its argument; those in place follow, in the same order
(``_nb_ops`` of Python's module ``opcode``).
"""


def explain_instruction(instruction: str) -> str:
    """Return what ``LOAD_FAST x`` does in words; empty for a rare one."""
    opcode, _, argument = instruction.partition(" ")
    if opcode == "BINARY_OP" and argument.isdecimal() and int(argument) < 2 * len(_OPERATORS):
        sign = _OPERATORS[int(argument) % len(_OPERATORS)]
        in_place = "=" if int(argument) >= len(_OPERATORS) else ""
        return f"replaces the top two values by the result of {sign}{in_place}"
    if opcode.startswith(("POP_JUMP_", "JUMP_IF_")):
        return "the branch depends on the top"
    return _WORDS.get(opcode, "")
