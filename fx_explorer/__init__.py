"""fx-explorer: see what torch.compile did to your model, in your terminal.

Importing this package is instant: nothing below imports torch until it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fx_explorer.publishing import is_looked_at, publish, publish_run

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from fx_explorer.notebook.recorded_block import record
    from fx_explorer.notebook.session_file import SessionFile
    from fx_explorer.precompile import Precompile
    from fx_explorer.stages import Stages

__all__ = [
    "Precompile",
    "SessionFile",
    "Stages",
    "__version__",
    "is_looked_at",
    "load_ipython_extension",
    "publish",
    "publish_run",
    "record",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Resolve the names that need torch when they are first used (PEP 562)."""
    if name == "record":
        from fx_explorer.notebook.recorded_block import record

        return record
    if name == "SessionFile":
        from fx_explorer.notebook.session_file import SessionFile

        return SessionFile
    if name == "Precompile":
        from fx_explorer.precompile import Precompile

        return Precompile
    if name == "Stages":
        from fx_explorer.stages import Stages

        return Stages
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add the cell magic ``%%fx`` to IPython or Jupyter: what ``%load_ext fx_explorer`` calls."""
    from fx_explorer.notebook.magics import load

    load(shell)
