"""Compiles modules inside what a program gives to torch.compile, in place of the whole: so a trial
shows what another place of torch.compile does, without an edit.

Modules are named by path as Dynamo names them in graphs: ``layers.0`` inside of a compiled module,
``G.model.layers.0`` for a global name of a compiled function, ``L.model`` for a name of a function
around it. ``layers.*`` is each module of a list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from fx_explorer.capture.torch_compat import private_names
from fx_explorer.errors import TargetError


def compile_inside(
    compiled: Any,
    paths: Sequence[str],
    compile_function: Callable[..., Any],
    arguments: Mapping[str, Any],
) -> Any:
    """Compile the modules at ``paths`` as ``nn.Module.compile`` does, those with a forward of
    torch's own by their forward, and return ``compiled`` itself. Raises TargetError where a path
    leads to no module.
    """
    for path in paths:
        for module in _modules_at(compiled, path):
            if has_forward_of_torchs(module):
                forward = compile_function(module.forward, **arguments)
                setattr(module, "forward", forward)  # noqa: B010
            else:
                module._compiled_call_impl = compile_function(module._call_impl, **arguments)
    return compiled


def has_forward_of_torchs(module: nn.Module) -> bool:
    """Return whether a module's forward is code of torch.nn, as that of a Sequential and its
    subclasses. Dynamo skips such code where it is not inlined, so ``module.compile()``, which
    compiles the module's call, compiles nothing.
    """
    forward = getattr(module.forward, "__func__", module.forward)
    return str(getattr(forward, "__module__", "")).startswith("torch.nn.")


def is_compiled(function: object) -> bool:
    """Return whether calling ``function`` calls compiled code: what torch.compile returned, or a
    module whose ``compile()`` was called.
    """
    if isinstance(function, nn.Module):
        is_wrapper = isinstance(function, private_names.OptimizedModule)
        return is_wrapper or function._compiled_call_impl is not None
    # torch.compiler.disable leaves the original in the same place.
    is_disabled = getattr(function, "_torchdynamo_disable", False)
    return hasattr(function, "_torchdynamo_orig_callable") and not is_disabled


def _modules_at(compiled: Any, path: str) -> Iterator[nn.Module]:
    name, is_each = path.removesuffix(".*"), path.endswith(".*")
    module = _module_at(compiled, name)
    if is_each:
        yield from module.children()
    else:
        yield module


def _module_at(compiled: Any, path: str) -> nn.Module:
    owner = getattr(compiled, "__self__", compiled)
    first, *rest = path.split(".")
    if isinstance(owner, nn.Module):
        found: Any = owner
        rest = [first, *rest]
    else:
        name, *rest = rest or [""]
        found = _names_of(inspect.unwrap(compiled), first).get(name)
    for part in rest:
        found = getattr(found, part, None)
    if not isinstance(found, nn.Module):
        raise TargetError(f"{path} is not known where torch.compile is called")
    return found


def _names_of(function: Any, scope: str) -> Mapping[str, Any]:
    """Return the global names of a function (``G``), or those of the functions around it
    (``L``).
    """
    if scope == "G":
        return getattr(function, "__globals__", {})
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    names = code.co_freevars if code else ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=False)}
