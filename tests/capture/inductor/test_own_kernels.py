"""These tests find lines of the user's own kernels in the text that Inductor makes of them: no
Triton is needed.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.capture.inductor.kernel_text import definitions
from fx_explorer.capture.own_kernels import copied_lines

KERNELS = '''"""Kernels."""


def decorated(function):
    return function


@decorated
def helper(x):
    return x + 1

@decorated
def kernel(x, y):
    """A text with \\\\ and \\"quotes\\"."""
    first = helper(x)

    return first * y


def outer():
    @decorated
    def nested(x):
        if x:
            return x
        return helper(x)

    return nested


def twin_one(x):
    return x


def twin_two(x):
    return x


def of_twins(x):
    return twin_one(x) + twin_two(x)


def of_one(x):
    return twin_two(x)
'''

Loaded = Callable[[str], Any]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return path


@pytest.fixture
def jit(file: Path) -> Loaded:
    """Return what ``@triton.jit`` records of a function of the file, and of the functions it names."""
    module: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), module)
    written = {name: value for name, value in module.items() if inspect.isfunction(value)}
    module.update(
        {
            name: noted(value)
            for name, value in written.items()
            if name not in ("outer", "decorated")
        }
    )
    return lambda name: noted(written["outer"]()) if name == "nested" else module[name]


def noted(function: types.FunctionType) -> types.SimpleNamespace:
    """``JITCallable.__init__``, triton/runtime/jit.py."""
    raw, first = inspect.getsourcelines(function)
    text = textwrap.dedent("".join(raw))
    text = text[re.search(r"^def\s+\w+\s*\(", text, re.MULTILINE).start() :]  # type: ignore[union-attr]
    return types.SimpleNamespace(fn=function, raw_src=raw, starting_line_number=first, src=text)


def as_inductor_writes(*functions: Any) -> str:
    head = "import triton\n\n@user_autotune(\n    meta={},\n)\n"
    return head + "\n".join(f"@triton.jit\n{function.src.rstrip()}\n" for function in functions)


@pytest.mark.parametrize(
    "names", [("kernel", "helper"), ("nested", "helper"), ("of_twins", "twin_one", "twin_two")]
)
def test_every_line_is_that_of_the_file(jit: Loaded, names: tuple[str, ...]) -> None:
    source = as_inductor_writes(*map(jit, names))
    found = copied_lines(jit(names[0]), source)
    assert found.problems == ()
    assert len(found.lines) == len(names)
    made, written = source.split("\n"), KERNELS.split("\n")
    for one in found.lines:
        for i in range(one.count):
            assert made[one.line - 1 + i].strip() == written[one.file_line - 1 + i].strip()
    spans = {
        node.name: node
        for node in ast.walk(ast.parse(KERNELS))
        if isinstance(node, ast.FunctionDef)
    }
    for name, one in zip(names, found.lines, strict=True):
        assert (one.file_line, one.count) == (
            spans[name].lineno,
            (spans[name].end_lineno or 0) - spans[name].lineno + 1,
        )


def test_a_kernel_that_was_given_another_name_is_known_by_its_text(jit: Loaded) -> None:
    source = as_inductor_writes(jit("kernel"), jit("helper")).replace(
        "def kernel(", "def kernel_3("
    )
    assert [one.file_line for one in copied_lines(jit("kernel"), source).lines] == [13, 9]


def test_a_text_that_is_not_the_files_is_linked_to_nothing_and_that_is_said(
    jit: Loaded, file: Path
) -> None:
    source = as_inductor_writes(jit("kernel"), jit("helper")).replace("first * y", "first * y + 1")
    found = copied_lines(jit("kernel"), source)
    assert [one.file_line for one in found.lines] == [9]
    assert found.problems == (
        f"kernel ({file}:13) is missing from the generated kernel in this form: its lines are not "
        "linked to it",
    )


def test_a_file_that_changed_since_is_linked_to_nothing(jit: Loaded, file: Path) -> None:
    kernel = jit("kernel")
    source = as_inductor_writes(kernel, jit("helper"))
    file.write_text(KERNELS.replace("first * y", "y * first"))
    inspect.linecache.checkcache(str(file))  # type: ignore[attr-defined]
    assert len(copied_lines(kernel, source).lines) == 1


def test_what_stands_there_twice_is_linked_to_nothing(jit: Loaded, file: Path) -> None:
    line = KERNELS.split("\n").index("def twin_two(x):") + 1
    of_one, twin = jit("of_one"), jit("twin_two")
    found = copied_lines(of_one, as_inductor_writes(of_one, twin, twin))
    assert [one.count for one in found.lines] == [2]
    assert found.problems[0].startswith(
        f"twin_two ({file}:{line}) occurs more than once in the generated kernel"
    )


@pytest.mark.parametrize("text", ['a = "\\n"', "b = '\\\\'", "'''text'''", "c = 1 \\\n    + 2"])
def test_the_source_of_a_kernel_is_what_python_makes_of_the_text_in_the_output_code(
    text: str,
) -> None:
    escaped = text.replace("\\", "\\\\").replace(
        "'''", "\\'\\'\\'"
    )  # as define_user_defined_triton_kernel does
    code = f"import triton\n\nk_0 = async_compile.triton('k', '''\n{escaped}\n''', device_str='cuda')\n"
    (statement,) = (node for node in ast.parse(code).body if isinstance(node, ast.Assign))
    assert isinstance(statement.value, ast.Call)
    compiled = ast.literal_eval(statement.value.args[1])
    found = definitions(code)["k_0"]
    assert "\n" + found.source == compiled
    assert code.split("\n")[found.first_line - 1] == escaped.split("\n")[0]


def test_a_raw_text_is_left_as_it_is() -> None:
    code = "k_0 = async_compile.cpp_pybinding(['float*'], r'''\nchar c = '\\\\';\n''')\n"
    assert definitions(code)["k_0"].source == "char c = '\\\\';\n"
