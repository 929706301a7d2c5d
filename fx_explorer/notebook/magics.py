"""This module has the cell magic ``%%fx``, for IPython and Jupyter: it records what torch.compile
does while the cell runs, in the notebook's own process, and shows the overview.
"""

from __future__ import annotations

from pathlib import Path

import torch
from IPython.core.error import UsageError as MagicUsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from fx_explorer.client.session_files import place_session, session_file
from fx_explorer.errors import UsageError
from fx_explorer.model import Compilation
from fx_explorer.notebook.recorded_block import record
from fx_explorer.notebook.session_file import SessionFile, temporary_session
from fx_explorer.session import SessionReader

VARIABLE = "fx_session"
"""The user's variable that has the last recorded session."""


NOTHING_COMPILED = (
    "Code that an earlier cell compiled is not compiled again for the same kind of inputs; %%fx "
    "--reset first discards it."
)


class CellRaised(Exception):
    """Ends a recorded cell whose own error IPython has shown already."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@magics_class
class FxMagics(Magics):
    """The magic of fx-explorer."""

    @magic_arguments()
    @argument("-o", "--output", metavar="FILE", help="save the session in this file")
    @argument(
        "--no-build",
        action="store_true",
        help="generate code without building it: compiled functions of the cell run in eager "
        "mode, also later",
    )
    @argument(
        "--use-caches", action="store_true", help="let torch use its compile caches, as usual"
    )
    @argument(
        "--reset",
        action="store_true",
        help="first discard everything that this process has compiled (torch.compiler.reset), so "
        "that this cell compiles it again",
    )
    @argument("--page", action="store_true", help="also show the page with the linked view")
    @cell_magic
    def fx(self, line: str, cell: str) -> None:
        """Run the cell, record what torch.compile does meanwhile, and show the overview.

        The cell runs as without the magic, with your variables. The session is afterwards in
        ``fx_session``: ``fx_session.page()`` shows the linked view. Functions that an earlier cell
        has compiled for such inputs are not compiled again, unless ``--reset`` is given.
        """
        arguments = parse_argstring(self.fx, line)
        kept = session_file(Path(arguments.output).expanduser()) if arguments.output else None
        try:
            if kept:
                kept.check()
        except UsageError as error:
            raise MagicUsageError(str(error)) from error
        session = temporary_session()
        if arguments.reset:
            torch.compiler.reset()
        raised = self._run(cell, session, arguments.no_build, arguments.use_caches)
        if kept:
            place_session(session, kept)
            session = SessionFile(kept.path)
        self.shell.user_ns[VARIABLE] = session
        display(session)
        with SessionReader(session) as reader:
            if not reader.count(Compilation):
                print(NOTHING_COMPILED)
        if raised is not None:
            raise CellRaised(
                f"The cell raised {type(raised).__name__}; its traceback is above, and the part "
                f"recorded before it is in {session}."
            ) from raised
        if arguments.page:
            display(session.page())

    def _run(
        self, cell: str, session: Path, no_build: bool, use_caches: bool
    ) -> BaseException | None:
        """Run the cell and return what it raised, which IPython has shown."""
        raised: BaseException | None = None
        try:
            with record(session, build=not no_build, use_caches=use_caches):
                result = self.shell.run_cell(cell)
                raised = result.error_before_exec or result.error_in_exec
                if raised is not None:
                    raise raised  # the session is to know how the cell ended
        except BaseException as error:
            if error is not raised:
                raise
        return raised


def load(shell: InteractiveShell) -> None:
    """Add the magic to a shell."""
    shell.register_magics(FxMagics)
