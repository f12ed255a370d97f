"""gRPC's own lines: none on the console's stderr, and nothing left in the environment."""

from __future__ import annotations

import os
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path

SETTINGS = b"\0\0\0\4\0\0\0\0\0"
GOAWAY = b"\0\0\x08\7\0\0\0\0\0" + b"\0\0\0\0" + b"\0\0\0\2"
"""HTTP/2 frame by which a server says that it ends the connection because of an error of its own."""


class _Goaway(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.recv(1000)
        self.request.sendall(SETTINGS + GOAWAY)
        time.sleep(0.2)


def _stderr_of_a_console(folder: Path, **variables: str) -> str:
    """Return the stderr of `--once` with an agent that ends the connection."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Goaway) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cluster = folder / "cluster.toml"
        agent = f"127.0.0.1:{server.server_address[1]}"
        cluster.write_text(f'[cluster]\nworker = ["127.0.0.1:1"]\n[agents]\n"worker:0" = "{agent}"\n')
        command = [sys.executable, "-m", "tfscale.console.cli", "--cluster", cluster, "--once"]
        environment = {**os.environ, "XDG_CONFIG_HOME": "/nonexistent", **variables}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        server.shutdown()
    return ran.stderr


def test_a_connection_that_ends_in_an_error_is_no_line_of_grpcs(tmp_path: Path) -> None:
    assert "chttp2" not in _stderr_of_a_console(tmp_path)


def test_grpcs_lines_are_there_for_the_user_who_asks_for_them(tmp_path: Path) -> None:
    assert "chttp2_transport.cc" in _stderr_of_a_console(tmp_path, GRPC_VERBOSITY="INFO")


def test_the_environment_is_left_as_it_was() -> None:
    program = "import tfscale.core.quiet_grpc, os; print(os.environ.get('GRPC_VERBOSITY'))"
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    assert subprocess.check_output([sys.executable, "-c", program], env=environment, text=True) == "None\n"
