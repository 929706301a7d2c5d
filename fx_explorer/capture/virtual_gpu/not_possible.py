"""This module explains, in place of torch's own message, which requests of a program a virtual GPU
cannot fulfil, and decides whether a program needs fake tensors from the beginning.

torch wraps what its compilers raise, so the explanation looks at all causes of an error. For the
question of fake tensors the program's file is parsed and not run.
"""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator
from pathlib import Path


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        seen.append(current)
        yield current
        current = current.__cause__ or current.__context__


NO_NCCL = (
    "NCCL sends data between GPUs: nothing can be sent on a virtual GPU. Choose the backend "
    '"gloo" for this run and keep the model on the CPU: its graphs are compiled for the virtual '
    "GPU."
)


def not_possible(error: BaseException) -> str:
    """Return the explanation of an error that a virtual GPU causes; empty for another error."""
    if any(_is_of_nccl(cause) for cause in chain(error)):
        return NO_NCCL
    return ""


def _is_of_nccl(error: BaseException) -> bool:
    """Return whether the error is about NCCL. A build without NCCL reports that; a build with it
    fails in making the group (torch/distributed/distributed_c10d.py).
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not any(frame.name == "_new_process_group_helper" for frame in frames):
        return False  # an error of the program's own may raise where its text is asked for
    text = str(error)
    return "NCCL" in text or "CUDA" in text


# Whether a program needs fake tensors from the beginning.


MOST_FILES = 200
"""Maximum number of files that are read, which takes a second or two."""


def needs_fake(file: Path | None, train: bool | None) -> str:
    """Return why everything must be on the GPU from the beginning; empty when it need not be."""
    tree = _parsed(file)
    if tree is None:
        return ""
    name = file.name if file else ""
    for other, its_tree in [(name, tree), *_imported(file, tree)]:
        for line in _kernels(its_tree):
            return (
                f"the program has its own Triton kernels ({other}:{line}), which run only on a GPU"
            )
    if train is not False:
        for line in _named(tree, "flex_attention"):
            return f"flex attention has no backward on the CPU ({name}:{line})"
    return ""


def insists_on_gpu(file: Path | None) -> str:
    """Return the line where the program ends if there is no GPU; empty when it does not."""
    tree = _parsed(file)
    if tree is None or file is None:
        return ""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assert | ast.If):
            continue
        stops = isinstance(node, ast.Assert) or _gives_up(node.body)
        if stops and "cuda.is_available()" in ast.unparse(node.test):
            return f"the program stops without a GPU ({file.name}:{node.test.lineno})"
    return ""


def _parsed(file: Path | None) -> ast.Module | None:
    if not file:
        return None
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # running the file will report the error better


def _kernels(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of functions under ``@triton.jit``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            decorators = {
                ast.unparse(expression).partition("(")[0] for expression in node.decorator_list
            }
            if decorators & {"triton.jit", "jit", "triton.autotune"} and _imports(tree, "triton"):
                yield node.lineno


def _imported(file: Path | None, tree: ast.Module) -> Iterator[tuple[str, ast.Module]]:
    """Yield (name, tree) of the files beside or below ``file`` that it imports, directly or through
    others.

    Libraries are left out: a program need not call what it imports from them.
    """
    folder = file.parent if file else Path()
    pending, seen = [(folder, tree)], {file}
    while pending and len(seen) < MOST_FILES:
        here, importing = pending.pop()
        for path in _files_of_imports(importing, here, folder):
            if path not in seen and (module := _parsed(path)):
                seen.add(path)
                pending.append((path.parent, module))
                yield path.name, module


def _files_of_imports(tree: ast.Module, here: Path, folder: Path) -> Iterator[Path]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(folder, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [here, *here.parents][node.level - 1] if node.level else folder
            module = f"{node.module}." if node.module else ""
            names = [(base, module + alias.name) for alias in node.names]
            if module:
                names.append((base, module.rstrip(".")))
        else:
            continue
        for base, name in names:
            path = base.joinpath(*name.split("."))
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file():
                    yield file


def _imports(tree: ast.Module, package: str) -> bool:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return any(name.partition(".")[0] == package for name in names)


def _named(tree: ast.Module, name: str) -> Iterator[int]:
    """Yield the lines that use ``name``, or contain it (``attn_implementation="flex_attention"``).
    An import alone does not count.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name | ast.Attribute | ast.Constant):
            continue
        written = (
            getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "value", None)
        )
        if written == name:
            yield node.lineno


def _gives_up(body: list[ast.stmt]) -> bool:
    for statement in body:
        if isinstance(statement, ast.Raise):
            return True
        if isinstance(statement, ast.Expr) and "exit(" in ast.unparse(statement.value):
            return True
    return False
