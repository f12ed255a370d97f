"""Port of a task: the process that holds it, and, while the task does not live, a listener in its place."""

from __future__ import annotations

import contextlib
import errno
import selectors
import shlex
import socket
import threading

import psutil
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Role, Task

_CHUNK = 1 << 20
_MOST_CONNECTIONS = 64
"""Most connections at a time to a listener: agents try to reach it, and close at once."""
_MOST_NAMED = 80
"""Characters of a command in a message."""


def served_port(spec: ClusterSpec, task: Task) -> int | None:
    """Return the port that the task itself will serve; None where nobody connects to the task."""
    return None if spec.is_alone or len(spec.tasks) == 1 or task.role is Role.EVALUATOR else spec.tasks[task].port


def port_problem(port: int) -> str:
    """Return why a port cannot be served: `taken by process 12 (python serve.py): end that first`."""
    try:
        listening_socket(port).close()
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        return f"taken by {_listener(port)}: end that first" if is_taken else f"not to be had ({error.strerror})"
    return ""


def _listener(port: int) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        for each in psutil.net_connections("tcp"):
            if each.laddr and each.laddr.port == port and each.pid:
                words = shlex.join(psutil.Process(each.pid).cmdline())[:_MOST_NAMED]
                return f"process {each.pid} ({words})"
    return "a process of another user"


def listening_socket(port: int) -> socket.socket:
    """Return a socket that listens on all addresses, as TensorFlow's server does. Raises OSError."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


class Sink:
    """Listener in a thread that discards all data until it is closed. Raises OSError."""

    def __init__(self, port: int) -> None:
        self._listening = listening_socket(port)
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]
        self._waker, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Free the port."""
        self._waker.close()
        self._thread.join()

    def _run(self) -> None:
        buffer = bytearray(_CHUNK)
        with selectors.DefaultSelector() as selector, self._listening, self._woken:
            selector.register(self._woken, selectors.EVENT_READ)
            selector.register(self._listening, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._woken in ready:
                    for key in list(selector.get_map().values()):
                        key.fileobj.close()  # type: ignore[union-attr]
                    return
                for each in ready:
                    assert isinstance(each, socket.socket)
                    if each is self._listening:
                        self._accept(selector)
                    elif not _received(each, buffer):
                        selector.unregister(each)
                        each.close()

    def _accept(self, selector: selectors.DefaultSelector) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listening.accept()
            connection.setblocking(False)
            if len(selector.get_map()) < _MOST_CONNECTIONS:
                selector.register(connection, selectors.EVENT_READ)
            else:
                connection.close()


def _received(connection: socket.socket, buffer: bytearray) -> int:
    try:
        return connection.recv_into(buffer)
    except BlockingIOError:
        return 1
    except OSError:
        return 0
