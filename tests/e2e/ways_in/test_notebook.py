"""A notebook below an agent: a real Jupyter server and its kernels, as a page in a browser drives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_cluster import ENVIRONMENT, wait_until
from loopback import free_addresses

pytest.importorskip("jupyter_server")
websocket = pytest.importorskip("websocket")
BIN = Path(sys.executable).parent
_MODEL = """
import numpy as np
import keras

x = np.ones([6400, 8], "float32")
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
"""
_FIT = "model.fit(x, x[:, :1], epochs={}, verbose=0); print('trained')"
_HEADLINE = "from tfscale.trainer.notebook import headline\nheadline()"


class Server:
    """A Jupyter server that an agent has started."""

    def __init__(self, folder: Path) -> None:
        self._address = next(free_addresses(1))
        self._folder = folder
        self._kernels: list[Kernel] = []
        self.environment = os.environ | ENVIRONMENT | {"XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder)}
        self.environment.pop("TF_CONFIG", None)
        settings = {
            "token": "t",
            "port": self._address.rpartition(":")[2],
            "open_browser": False,
            "root_dir": str(folder),
        }
        flags = [f"--ServerApp.{name}={value}" for name, value in settings.items()]
        command = ["tfscale-agent", "--", sys.executable, "-m", "jupyter_server", "--allow-root", *flags]
        self.agent = subprocess.Popen(
            [BIN / command[0], *command[1:]], cwd=folder, env=self.environment, stdout=subprocess.DEVNULL
        )
        wait_until(self._answers)

    def call(self, path: str, data: object = None) -> Any:
        """Ask the server as its page does."""
        body = None if data is None else json.dumps(data).encode()
        headers = {"Authorization": "token t", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self._address}/api/{path}", body, headers)
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.loads(reply.read() or b"null")

    def once(self) -> dict[str, Any]:
        done = subprocess.run(
            [BIN / "tfscale-console", "--once"],
            env=self.environment,
            cwd=self._folder,
            capture_output=True,
            check=False,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def _answers(self) -> bool:
        try:
            self.call("status")
        except OSError:
            return False
        return True

    @property
    def steps(self) -> int:
        """Number of the newest step, -1 before the first."""
        summary = self.once()["tasks"][0]["summary"]
        return -1 if summary is None or summary["step"] is None else int(summary["step"])

    def kernel(self) -> Kernel:
        """Start a kernel."""
        made = Kernel(self, str(self.call("kernels", {"name": "python3"})["id"]), self._address)
        self._kernels.append(made)
        return made

    def close(self) -> None:
        """End the agent, and with it the server and its kernels."""
        for kernel in self._kernels:
            kernel.close()
        self.agent.terminate()
        self.agent.wait(60)


class Kernel:
    """A kernel of the server, in which cells run."""

    def __init__(self, server: Server, name: str, address: str) -> None:
        self._server, self._name = server, name
        self._url = f"ws://{address}/api/kernels/{name}/channels?token=t"
        self._socket = websocket.create_connection(self._url)

    def begin(self, code: str) -> str:
        """Run a cell, and do not wait for it."""
        identity = uuid.uuid4().hex
        header = {"msg_id": identity, "username": "", "session": "s", "msg_type": "execute_request", "version": "5.3"}
        content = {"code": code, "silent": False, "stop_on_error": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self._socket.send(json.dumps(message))
        return identity

    def run(self, code: str) -> str:
        """Run a cell to its end, and return what it has printed."""
        identity, printed = self.begin(code), ""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            message = json.loads(self._socket.recv())
            if message["parent_header"].get("msg_id") != identity:
                continue
            if message["header"]["msg_type"] == "stream":
                printed += message["content"]["text"]
            if message["header"]["msg_type"] == "execute_reply":
                assert message["content"]["status"] == "ok", message["content"]
                return printed
        raise AssertionError(printed)

    def interrupt(self) -> None:
        self._server.call(f"kernels/{self._name}/interrupt", {})

    def close(self) -> None:
        self._socket.close()

    def restart(self) -> None:
        self.close()
        self._server.call(f"kernels/{self._name}/restart", {})
        self._socket = websocket.create_connection(self._url)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
@pytest.mark.tensorflow
def test_cells_are_measured_again_and_again(server: Server) -> None:
    kernel = server.kernel()
    kernel.run(_MODEL)
    for newest in (399, 799):
        assert "trained" in kernel.run(_FIT.format(2))
        wait_until(lambda newest=newest: server.steps == newest)  # type: ignore[misc]
    assert "worker:0" in kernel.run(_HEADLINE)

    kernel.begin(_FIT.format(10_000))
    wait_until(lambda: server.steps > 1000)
    told = server.once()
    assert "steps/s" in told["headline"] and told["healthy"]
    kernel.interrupt()
    assert "still here" in kernel.run("print('still here')")
    interrupted = server.steps
    assert "trained" in kernel.run(_FIT.format(2))
    wait_until(lambda: server.steps >= interrupted + 399)


@pytest.mark.matrix
@pytest.mark.tensorflow
def test_a_restarted_kernel_is_measured_and_of_two_the_other_is_named(server: Server) -> None:
    kernel = server.kernel()
    kernel.run(_MODEL + _FIT.format(2))
    wait_until(lambda: server.steps == 399)
    kernel.restart()
    kernel.run(_MODEL + _FIT.format(1))
    wait_until(lambda: server.steps == 199)
    other = server.kernel()
    other.run(_MODEL + _FIT.format(1))
    told = server.once()
    assert "trains as well" in told["headline"] and not told["healthy"]


def test_without_an_agent_a_cell_says_so() -> None:
    code = "from tfscale.trainer.notebook import headline; headline()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TFSCALE_")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "no agent started this process: start the notebook with tfscale-agent -- jupyter lab\n"
