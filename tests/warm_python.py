"""This script is a Python that has imported torch before a worker is needed: it is forked, so that
a worker is ready in 0.1 s instead of 4.

``warm_python.py serve NAME FIFO`` imports and waits, for as long as somebody has the FIFO open to
write; ``warm_start.py NAME FILE …`` then stands for ``python FILE …``, with the arguments,
variables, directory and descriptors that it was given. ``serve NAME FIFO gpu`` is for virtual GPUs:
it loads the C++ part before torch, and imports nothing of torch's compiler, which must find the GPU
when it is imported. ``serve NAME FIFO h100`` has set up a virtual H100 and imported the compiler
after it, for workers that are asked for that GPU. ``serve NAME FIFO bare`` imports torch, and nothing
of fx-explorer; ``serve NAME FIFO commands`` the command line, and not torch.

What a test claims of a process itself (what it imports and when, how it dies), or of variables that
torch reads when it is imported, is to be seen with a real Python. One such variable, which many
trials set, is read anew.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from warm_start import address

MODULES = (
    "torch",
    "torch._dynamo",
    "torch._dynamo.backends.inductor",
    "torch._inductor.choices",
    "torch._inductor.compile_fx",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "torch.utils.cpp_extension",
    "sympy.physics.units",
    "sympy.tensor.tensor",
    "fx_explorer.worker.job",
    "fx_explorer.worker.request_recording",
    "fx_explorer.worker.script_program",
    "fx_explorer.worker.job",
    "fx_explorer.instruments.fixes.measure.programs",
    "fx_explorer.instruments.fixes.measure.verifying",
    "fx_explorer.worker.script_program",
)
"""Those of sympy are imported by the first compilation of a process, which takes it half a second;
ours by every worker.
"""

FOR_VIRTUAL_GPUS = (
    "torch",
    "triton",
    "numpy",
    "sympy.physics.units",
    "sympy.tensor.tensor",
    "fx_explorer.worker.job",
)

LONGEST_MESSAGE, MOST_DESCRIPTORS = 1 << 18, 64


def serve(name: str, fifo: str, kind: str = "") -> None:
    """Until nobody has the FIFO open to write."""
    alive = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    if kind == "gpu":
        _import_for_virtual_gpus()
    elif kind == "h100":
        _set_up_an_h100()
    elif kind == "bare":
        importlib.import_module("torch")
    elif kind == "commands":
        _import_commands()
    else:
        _import_with_compiler()
    gc.set_threshold(
        20_000, 20, 20
    )  # to look through a young process for garbage again and again took a tenth of its time
    gc.freeze()  # or the first collection of each child would copy what torch has made
    frozen = gc.get_freeze_count()
    # Asked at the end of each compile, it counts them one by one. More or none is all that matters.
    gc.get_freeze_count = lambda: frozen
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as waiting:
        waiting.bind(address(name))
        waiting.listen()
        print("ready", flush=True)
        _Processes(waiting, alive).supervise()


@dataclass(frozen=True)
class _Forked:
    """A process, and who asked for it."""

    pid: int
    ended: int
    """A descriptor that can be read when the process has ended."""
    connection: socket.socket

    def close(self) -> None:
        os.close(self.ended)
        self.connection.close()


class _Processes:
    """The forked processes that have not ended. The server itself supervises them: to fork a
    supervisor for each took as long as to fork the process.
    """

    def __init__(self, waiting: socket.socket, alive: int) -> None:
        self._waiting = waiting
        self._alive = alive
        self._running: dict[object, _Forked] = {}
        """By either thing that is waited for: its end, or the end of who asked for it."""

    def supervise(self) -> None:
        """Fork what is asked for; report how each process ended; end it, and its group, when its
        starter is gone.
        """
        while True:
            ready = select.select([self._waiting, self._alive, *self._running], [], [])[0]
            for descriptor in ready:
                if descriptor in self._running:
                    self._end(self._running[descriptor])
            if self._waiting in ready:
                self._fork(self._waiting.accept()[0])
            elif self._alive in ready:
                break
        for forked in set(self._running.values()):
            self._end(forked)

    def _fork(self, connection: socket.socket) -> None:
        message, descriptors = b"", []
        with contextlib.suppress(ConnectionError):
            message, descriptors, _, _ = socket.recv_fds(
                connection, LONGEST_MESSAGE, MOST_DESCRIPTORS
            )
        if not message:  # whoever asked is gone already
            connection.close()
            return
        pid = os.fork()
        if pid == 0:
            self._forget_all()
            connection.close()
            _become(marshal.loads(message), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        forked = _Forked(pid, os.pidfd_open(pid), connection)
        self._running[forked.ended] = self._running[connection] = forked
        _tell(connection, pid)

    def _forget_all(self) -> None:
        """Close what belongs to the server, in a forked process."""
        self._waiting.close()
        os.close(self._alive)
        for forked in set(self._running.values()):
            forked.close()

    def _end(self, forked: _Forked) -> None:
        del self._running[forked.ended], self._running[forked.connection]
        for kill in (os.killpg, os.kill):  # the group is there when the process has begun
            with contextlib.suppress(ProcessLookupError):
                kill(forked.pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(forked.pid, 0)[1])
        _tell(forked.connection, status)
        forked.close()


def _tell(connection: socket.socket, number: int) -> None:
    """Whoever asked may be gone, with what was sent before unread or read."""
    with contextlib.suppress(ConnectionError):
        connection.send(str(number).encode())


def _import_commands() -> None:
    """Of the command line, without the app and without torch."""
    cli = importlib.import_module("fx_explorer.cli")
    for command in cli.COMMANDS:
        if command != "explore":
            importlib.import_module(cli.module_of(command))
    assert "torch" not in sys.modules


def _import_with_compiler() -> None:
    hooks = importlib.import_module("fx_explorer.capture.recorder").HOOKS.values()
    for module in (*MODULES, *(f"fx_explorer.capture.{module}" for module, _ in hooks)):
        importlib.import_module(module)
    guards = importlib.import_module("torch._dynamo.guards")
    guards.profile_guard_manager = lambda *_: 1.0  # as in guard_latency.py
    rounds = importlib.import_module("fx_explorer.instruments.ledger.measure.rounds")
    rounds.MAX_ROUNDS = rounds.MIN_ROUNDS  # of a ledger; beside other tests more say nothing more
    uncompiled = importlib.import_module("fx_explorer.instruments.fixes.measure.uncompiled")
    uncompiled.LONG_S = 2.0  # a call without an end is waited for so long
    place = importlib.import_module("fx_explorer.program.place")
    place.UsersCode().modules()  # looks at the files of all modules, once
    importlib.import_module(
        "torch._inductor.codecache"
    ).CacheBase.get_system()  # hashes all of triton, once
    importlib.import_module(
        "torch._inductor.cpu_vec_isa"
    ).valid_vec_isa_list()  # asks the processor and the C++ compiler, once
    importlib.import_module(
        "torch._inductor.fx_passes.post_grad"
    ).lazy_init()  # traces its patterns, once
    torch = importlib.import_module("torch")
    importlib.import_module("torch._inductor.fx_passes.joint_graph").lazy_init(
        torch.device("cpu")
    )  # the same, for each kind of device
    importlib.import_module(
        "fx_explorer.capture.option_catalogue"
    ).list_settings()  # reads the sources of torch's options, once


def _import_for_virtual_gpus() -> None:
    importlib.import_module("fx_explorer.capture.virtual_gpu.shim").load()
    for module in FOR_VIRTUAL_GPUS:
        importlib.import_module(module)


def _set_up_an_h100() -> None:
    """Take the steps of a worker that has been asked for this GPU; those it takes itself do nothing
    any more.
    """
    gpu = importlib.import_module("fx_explorer.gpus").find_gpu("h100")
    installing = importlib.import_module("fx_explorer.capture.virtual_gpu.installing")
    installing.before_torch(gpu)
    for module in FOR_VIRTUAL_GPUS:
        importlib.import_module(module)
    emulation = installing.install(gpu)
    _import_with_compiler()

    def install(asked: object) -> object:
        if asked != gpu:
            raise ValueError(f"this Python has an H100, and is asked for {asked}")
        return emulation

    importlib.import_module("fx_explorer.worker.virtual_gpu").install = install


def _become(message: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """``python FILE …`` in a session of its own, to its end."""
    import runpy

    os.setsid()
    _put(descriptors, message["numbers"])
    os.environ.clear()
    os.environ.update(message["environment"])
    os.chdir(message["directory"])
    _read_anew(os.environ)
    sys.argv = message["arguments"]
    status = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - what python does with one that nobody caught
        sys.excepthook(*sys.exc_info())
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it is closed
            stream.flush()
    os._exit(status)


def _read_anew(variables: Mapping[str, str]) -> None:
    """Take over the variables that trials set and torch has read when it was imported, and those
    that Python itself reads when it starts.
    """
    for place in reversed(variables.get("PYTHONPATH", "").split(os.pathsep)):
        if place and place not in sys.path:
            sys.path.insert(0, place)
    sources = variables.get("TORCH_COMPILE_DYNAMIC_SOURCES")
    compiler = sys.modules.get("torch.compiler.config")
    if sources and compiler is not None:
        compiler._config["dynamic_sources"].env_value_default = sources


def _put(descriptors: list[int], numbers: list[int]) -> None:
    """Each to the number it had where it came from."""
    import fcntl

    out_of_the_way = [
        fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 1 + max(*numbers, *descriptors))
        for descriptor in descriptors
    ]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(out_of_the_way, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


if __name__ == "__main__":
    serve(*sys.argv[2:])
