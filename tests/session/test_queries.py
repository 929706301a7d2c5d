"""These tests check that SQL stays in the session package: other code calls a query by its name
(``session/queries/``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import fx_explorer
from fx_explorer import model
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.kernels import names_of_kernels_of

PACKAGE = Path(fx_explorer.__file__).parent

WITHOUT_A_SESSION = {"commands/doctor.py"}
"""It asks SQLite what SQLite can do."""


def sql_in(module: ast.Module) -> Iterator[int]:
    """The lines that hold SQL or hand it to a reader."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.lstrip().startswith(("SELECT ", "WITH RECURSIVE ")):
                yield node.lineno
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "query"
        ):
            yield node.lineno


def test_only_the_session_package_holds_sql() -> None:
    names = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    others = {
        name: ast.parse(path.read_text(encoding="utf-8"))
        for name, path in names.items()
        if not name.startswith("session/")
    }
    found = [
        f"{name}:{line}"
        for name, module in others.items()
        if name not in WITHOUT_A_SESSION
        for line in sql_in(module)
    ]
    assert len(others) > 500
    assert not found


def test_sql_is_seen_where_it_stands() -> None:
    asking = ast.parse(
        "def asked(reader, table):\n    return reader.query(f'SELECT 1 FROM {table}')"
    )
    assert set(sql_in(asking)) == {2}


def test_the_kernels_of_a_line_are_named_with_those_of_the_forward_first(tmp_path: Path) -> None:
    with SessionWriter(tmp_path / "s.fxs") as writer:
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1))
        for name, direction in (("late", "backward"), ("early", "forward")):
            text = writer.text("void kernel() {}")
            kernel = model.Artifact(
                0, compilation, "kernel", "kernel", direction, name, "cpp", text, 1
            )  # type: ignore[arg-type]
            artifact = writer.add(kernel)
            writer.add(model.Kernel(0, compilation, direction, 0, name, "cpp", artifact, 0))  # type: ignore[arg-type]
            writer.add_all(
                [
                    model.LineNode(artifact, 0, 7, "codegen"),
                    model.LineNode(artifact, 1, 7, "codegen"),
                ]
            )
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert [name for _, name in names_of_kernels_of(reader, [7])] == ["early", "late"]
