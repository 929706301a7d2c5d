"""The backend that a request names: a registered one, or a function of the user's in a file."""

from __future__ import annotations

import functools

import torch

from fx_explorer.errors import TargetError
from fx_explorer.program.file_functions import function_of_file


def use_backend(name: str, option: str = "--backend") -> None:
    """Make the backend that is called ``name`` one that torch finds: that of ``file.py:function``
    is registered under these words. Raises TargetError when there is none, which torch itself would
    say only within the first call, and where its file raises. ``option`` is the one that named it.
    """
    known = torch._dynamo.list_backends(exclude_tags=())
    if name in known:
        return
    function = function_of_file(name, "backend")
    if function is None:
        there_are = f"this torch has: {', '.join(known)}"
        raise TargetError(
            f"there is no backend {name!r}; {there_are}. Choose one with {option}, or "
            "FILE.py:FUNCTION of yours."
        )
    try:
        function._tags = ()  # type: ignore[attr-defined]  # as torch does, after it has taken the name
    except AttributeError:  # a method, or an object with slots
        function = functools.partial(function)
    torch._dynamo.register_backend(function, name)
