"""This script stands for ``python FILE …``, which a server of warm_python.py runs in a forked
process: ``warm_start.py NAME FILE …``. Signals are passed on, and it ends as the forked one does.

Hundreds of processes begin here, so it imports what takes Python no time: modules written in C.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import marshal
import os
import sys


def address(name: str) -> str:
    """Return an address outside the file system: a path may be too long for a socket."""
    return f"\0fx-explorer-tests-{name}"


def _is_open(number: int) -> bool:
    """The directory that was listed is not, any more."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _start(name: str, arguments: list[str]) -> None:
    numbers = [number for number in map(int, os.listdir("/proc/self/fd")) if _is_open(number)]
    message = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "numbers": numbers,
    }
    descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    connection.connect(address(name))
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)]
    connection.sendmsg([marshal.dumps(message)], rights)
    pid = int(connection.recv(32))
    for number in (_signal.SIGTERM, _signal.SIGINT):
        _signal.signal(number, lambda got, _: os.kill(pid, got))
    status = int(connection.recv(32))
    if status < 0:
        if -status not in (_signal.SIGKILL, _signal.SIGSTOP):  # which have no handler
            _signal.signal(-status, _signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    _start(sys.argv[1], sys.argv[2:])
