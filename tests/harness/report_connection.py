"""An agent's reports, and a connection to them, as the probe in a training process has one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tfscale.agent.serving.report_server import ReportServer
from tfscale.agent.telemetry.probe_reports import ProbeReports
from tfscale.core.wire.framing import HEADER_BYTES, framed, length
from tfscale.v1 import report_pb2


@asynccontextmanager
async def serving(socket: Path, reports: ProbeReports) -> AsyncIterator[ReportServer]:
    """Serve this socket, and read its reports all the time, as if frames were made."""

    async def hear() -> None:
        while True:
            reports.hear()
            await asyncio.sleep(0.01)

    server = ReportServer(socket, reports, lambda: str(socket), lambda _: True)
    await server.start()
    hearing = asyncio.create_task(hear())
    try:
        yield server
    finally:
        hearing.cancel()
        await server.stop()


class Connection:
    """Connection that sends a test's messages, and receives the agent's replies."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def say(self, *reports: report_pb2.TaskReport) -> None:
        for report in reports:
            self.say_bytes(framed(report.SerializeToString()))

    def say_bytes(self, message: bytes) -> None:
        self._writer.write(message)

    async def reply(self) -> report_pb2.ReportReply:
        """Return the next reply. Raises asyncio.IncompleteReadError when the agent has closed its end."""
        async with asyncio.timeout(60):
            message = await self._reader.readexactly(length(await self._reader.readexactly(HEADER_BYTES)))
            return report_pb2.ReportReply.FromString(message)

    async def accepted(self) -> None:
        reply = await self.reply()
        assert reply.HasField("accepted"), reply

    async def refused(self) -> str:
        """Return why it was refused, after the agent has closed its end."""
        while not (reply := await self.reply()).HasField("refused"):
            pass
        await self.closed()
        return reply.refused

    async def waits(self) -> str:
        """Return why it has to wait, after the agent has closed its end."""
        while not (reply := await self.reply()).HasField("waits"):
            pass
        await self.closed()
        return reply.waits

    async def closed(self) -> None:
        async with asyncio.timeout(60):
            assert await self._reader.read() == b""

    async def end(self) -> None:
        """Send nothing more, and wait until the agent has read all."""
        self._writer.write_eof()
        await self.closed()

    def drop(self) -> None:
        self._writer.close()


@asynccontextmanager
async def connected(socket: Path) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_unix_connection(socket)
    connection = Connection(reader, writer)
    try:
        yield connection
    finally:
        connection.drop()


async def said(socket: Path, *reports: report_pb2.TaskReport) -> None:
    """Send these reports as one process that then ends, all of them read by the agent."""
    async with connected(socket) as connection:
        connection.say(*reports)
        await connection.accepted()
        await connection.end()
