"""This script is a Python that has imported torch before a worker is needed: it is forked, so that
a worker is ready in 0.1 s instead of 4.

``warm_python.py serve NAME FIFO`` imports and waits, for as long as somebody has the FIFO open to
write; ``warm_python.py start NAME FILE …`` then stands for ``python FILE …``, with the arguments,
variables, directory and descriptors that it was given. ``serve NAME FIFO gpu`` is for virtual GPUs:
it loads the C++ part before torch, and imports nothing of torch's compiler, which must find the GPU
when it is imported. ``serve NAME FIFO h100`` has set up a virtual H100 and imported the compiler
after it, for workers that are asked for that GPU. ``serve NAME FIFO bare`` imports torch, and nothing
of fx-explorer.

What a test claims of a process itself (what it imports and when, how it dies), or of variables that
torch reads when it is imported, is to be seen with a real Python. One such variable, which many
trials set, is read anew.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

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
    else:
        _import_with_compiler()
    gc.set_threshold(
        20_000, 20, 20
    )  # to look through a young process for garbage again and again took a tenth of its time
    gc.freeze()  # or the first collection of each child would copy what torch has made
    frozen = gc.get_freeze_count()
    # Asked at the end of each compile, it counts them one by one. More or none is all that matters.
    gc.get_freeze_count = lambda: frozen
    with _socket() as waiting:
        waiting.bind(_address(name))
        waiting.listen()
        print("ready", flush=True)
        while waiting in select.select([waiting, alive], [], [])[0]:
            connection, _ = waiting.accept()
            if os.fork() == 0:
                waiting.close()
                os.close(alive)
                _supervise(connection)
            connection.close()
            _forget_the_ended()


def _import_with_compiler() -> None:
    hooks = importlib.import_module("fx_explorer.capture.recorder").HOOKS.values()
    for module in (*MODULES, *(f"fx_explorer.capture.{module}" for module, _ in hooks)):
        importlib.import_module(module)
    guards = importlib.import_module("torch._dynamo.guards")
    guards.profile_guard_manager = lambda *_: 1.0  # as in guard_latency.py
    rounds = importlib.import_module("fx_explorer.instruments.ledger.measure.rounds")
    rounds.MAX_ROUNDS = rounds.MIN_ROUNDS  # of a ledger; beside other tests more say nothing more
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


def start(name: str, arguments: list[str]) -> NoReturn:
    """Be the process that the caller started: signals are passed on, and it ends as the forked one
    does.
    """
    numbers = [number for number in map(int, os.listdir("/proc/self/fd")) if _is_open(number)]
    message = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "numbers": numbers,
    }
    with _socket() as connection:
        connection.connect(_address(name))
        socket.send_fds(connection, [json.dumps(message).encode()], numbers)
        pid = int(connection.recv(32))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda got, _: os.kill(pid, got))
        status = int(connection.recv(32))
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _supervise(connection: socket.socket) -> NoReturn:
    """Report how the process ended; end it, and its group, when its starter is gone."""
    message, descriptors, _, _ = socket.recv_fds(connection, LONGEST_MESSAGE, MOST_DESCRIPTORS)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(json.loads(message), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    connection.send(str(pid).encode())
    select.select([os.pidfd_open(pid), connection], [], [])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(BrokenPipeError):
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
    os._exit(0)


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
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except BaseException:  # noqa: BLE001 - what python does with one that nobody caught
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def _read_anew(variables: Mapping[str, str]) -> None:
    """Take over the variables that trials set and torch has read when it was imported."""
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


def _forget_the_ended() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _is_open(number: int) -> bool:
    """The directory that was listed is not, any more."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _address(name: str) -> str:
    """Return an address outside the file system: a path may be too long for a socket."""
    return f"\0fx-explorer-tests-{name}"


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


if __name__ == "__main__":
    action, *others = sys.argv[1:]
    if action == "serve":
        serve(*others)
    else:
        start(others[0], others[1:])
