"""What is known of a request while it is worked on, and how the client and the session's readers
hear of it.
"""

from __future__ import annotations

from os import getpid  # as it is before the program can put something else in its place
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.model import CaptureRequest, Notice
from fx_explorer.worker.channel import Channel
from fx_explorer.worker.child_processes import children
from fx_explorer.worker.child_processes.guarded_writer import GuardedWriter
from fx_explorer.worker.child_processes.recording_children import request_of_children
from fx_explorer.worker.target.place import TargetPlace
from fx_explorer.worker.users.replaced_functions import OriginalFunctions

if TYPE_CHECKING:
    from fx_explorer.worker.target.target import Target


IMPORTING_TORCH = "importing torch"
"""The activity during which the client takes an ended process for torch's fault
(client/outcomes.py).
"""


class RequestProgress:
    """The request, the session, the pipes and what is being done. ``activity`` is shown to the user
    and in error messages.
    """

    def __init__(self, request: CaptureRequest, writer: GuardedWriter, channel: Channel) -> None:
        self.request = request
        self.writer = writer
        self.channel = channel
        self.place = TargetPlace(request.target)
        self.activity = ""
        self.original_functions = OriginalFunctions()
        self._process = getpid()

    def say(self, activity: str) -> None:
        """Tell the client what happens now."""
        self.activity = activity
        self.writer.set_meta("progress", activity)
        self.channel.send(Notice("worker", text=activity))

    def note(self, text: str) -> None:
        self.channel.send(Notice("note", text=text))

    def describe(self, target: Target, train: bool) -> None:
        """Record what is compiled; ``train`` says whether backward is run."""
        name = f"{Path(self.place.shown).name}:{target.name}"
        self._describe(
            name, target.kind, train, target.name, sum(p.numel() for p in target.parameters())
        )

    def describe_script(self, name: str) -> None:
        self._describe(name, "script", train=False)

    @property
    def is_in_fork(self) -> bool:
        """Return whether this process is a child that the program forked, and no worker."""
        return getpid() != self._process

    def watch_children(self) -> None:
        """Notice the processes that the program starts or forks from now on. They record what they
        compile.
        """
        request = request_of_children(self.request).to_json()
        self.writer.children = children.watch(Path(self.request.session), request)

    def _describe(
        self, name: str, kind: str, train: bool, object_name: str = "", parameters: int = 0
    ) -> None:
        file = str(self.place.file or "")
        self.writer.set_meta(
            "target",
            {
                "name": name,
                "kind": kind,
                "file": file,
                "object": object_name,
                "train": train,
                "parameters": parameters,
            },
        )
