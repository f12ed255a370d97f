"""gRPC's own lines: none on the console's stderr, and nothing left in the environment."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

SETTINGS = b"\0\0\0\4\0\0\0\0\0"
GOAWAY = b"\0\0\x08\7\0\0\0\0\0" + b"\0\0\0\0" + b"\0\0\0\2"
"""HTTP/2 frame by which a server says that it ends the connection because of an error of its own."""


async def _say_goaway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1000)
    writer.write(SETTINGS + GOAWAY)
    await writer.drain()
    await asyncio.sleep(0.2)
    writer.close()


async def _stderr_of_a_console(folder: Path, **variables: str) -> str:
    """Return the stderr of `--once` with an agent that ends the connection."""
    server = await asyncio.start_server(_say_goaway, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    cluster = folder / "cluster.toml"
    cluster.write_text(f'[cluster]\nworker = ["127.0.0.1:1"]\n[agents]\n"worker:0" = "127.0.0.1:{port}"\n')
    command = [sys.executable, "-m", "tfscale.console.cli", "--cluster", str(cluster), "--once"]
    async with server:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "XDG_CONFIG_HOME": "/nonexistent", **variables},
        )
        _, err = await asyncio.wait_for(process.communicate(), 40)
    return err.decode()


async def test_a_connection_that_ends_in_an_error_is_no_line_of_grpcs(tmp_path: Path) -> None:
    assert "chttp2" not in await _stderr_of_a_console(tmp_path)


async def test_grpcs_lines_are_there_for_the_user_who_asks_for_them(tmp_path: Path) -> None:
    assert "chttp2_transport.cc" in await _stderr_of_a_console(tmp_path, GRPC_VERBOSITY="INFO")


def test_the_environment_is_left_as_it_was() -> None:
    program = "import tfscale.core.quiet_grpc, os; print(os.environ.get('GRPC_VERBOSITY'))"
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    assert subprocess.check_output([sys.executable, "-c", program], env=environment, text=True) == "None\n"
