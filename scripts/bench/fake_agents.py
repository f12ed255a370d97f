"""Fake agents of scripts/bench/console.py: real gRPC servers, 500 a process, whose frames cost little CPU to make."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
from tfscale.core.records.step_batch import PHASES
from tfscale.core.report_schedule import until_next
from tfscale.core.wire.fields import delimited
from tfscale.v1 import agent_pb2, telemetry_pb2

STEPS = 100
"""Steps of each task a second."""
VARIANTS = 97
"""Number of different measurements, made once and then drawn at random."""
SERVICE = agent_pb2.DESCRIPTOR.services_by_name["Agent"].full_name
PER_PROCESS = 500


class BenchAgent:
    """One agent, whose frames are joined from pieces that are serialised once.

    So a thousand agents leave the console's core alone.
    """

    def __init__(self, index: int, workers: int) -> None:
        name = f"worker:{index}"
        self._index = index
        self._sequence = 0
        self._description = agent_pb2.Description(
            schema_version=1, version="bench", run="bench", task=name, lead="worker:0", host=f"node-{index:04}",
            cluster="{}", generation=1, started=time.time(), pid=1000 + index,
        )  # fmt: skip
        self._same = telemetry_pb2.Frame(
            status=telemetry_pb2.TaskStatus(
                state=telemetry_pb2.TASK_STATE_RUNNING, generation=1, attempt=1, pid=1000, started=time.time()
            ),
            probe=telemetry_pb2.ProbeStatus(
                state=telemetry_pb2.PROBE_STATE_MEASURING, strategy="MultiWorkerMirroredStrategy",
                replicas=workers, ranks=workers, examples_per_step=64, reduced_bytes_per_step=7_450_000,
            ),
        ).SerializeToString()  # fmt: skip
        self._owner = telemetry_pb2.StepBatch(
            generation=1, attempt=1, reporter=name, subject=name
        ).SerializeToString()  # fmt: skip

    async def watch(self, _request: agent_pb2.WatchRequest, _context: object) -> AsyncIterator[bytes]:
        snapshot = agent_pb2.Snapshot(
            description=self._description, recent=[telemetry_pb2.Frame.FromString(self.frame())]
        )
        yield agent_pb2.WatchReply(schema_version=1, snapshot=snapshot).SerializeToString()
        while True:
            await asyncio.sleep(until_next(time.time(), self._index))
            yield b"\x08\x01" + delimited(agent_pb2.WatchReply.FRAME_FIELD_NUMBER, self.frame())

    def frame(self) -> bytes:
        """Return the next frame: serialised messages, one after the other, are one message with the fields of all."""
        self._sequence += 1
        at, count = time.time(), self._sequence * STEPS
        now = telemetry_pb2.Frame(
            sequence=self._sequence, at=at, collective=telemetry_pb2.Collective(entered=count, left=count)
        )
        steps = self._owner + _numbers(int(at)) + _phases(random.randrange(VARIANTS))
        counters = _counters(random.randrange(VARIANTS))
        batch = delimited(telemetry_pb2.Frame.STEPS_FIELD_NUMBER, steps)
        return now.SerializeToString() + self._same + counters + batch


@functools.cache
def _counters(variant: int) -> bytes:
    """Serialise one sample of a host and its eight GPUs."""
    chance = random.Random(variant)
    host = telemetry_pb2.HostSample(
        cpu=chance.random(), cores=16, load=6.2, memory_used=21 << 30, memory_total=64 << 30,
        interfaces=[telemetry_pb2.Interface(name="eth0", received=118e6, sent=117e6, speed=10e9)],
    )  # fmt: skip
    gpus = [_gpu(index, chance) for index in range(8)]
    return telemetry_pb2.Frame(host=host, gpus=gpus).SerializeToString()


def _gpu(index: int, chance: random.Random) -> telemetry_pb2.GpuSample:
    return telemetry_pb2.GpuSample(
        index=index, uuid=f"GPU-5f1c2a{index:04}-9d1e-4c55-8a{index}", name="NVIDIA A100-SXM4-40GB",
        utilisation=chance.uniform(0.9, 1.0), memory_used=chance.randrange(30 << 30, 34 << 30),
        memory_total=40 << 30, power=chance.uniform(350.0, 400.0), power_limit=400.0,
        temperature=chance.uniform(55.0, 65.0), clock=chance.randrange(1_350_000_000, 1_410_000_000),
        clock_max=1_410_000_000, clock_event_reasons=0, ecc_errors=0,
    )  # fmt: skip


@functools.lru_cache(maxsize=4)
def _numbers(second: int) -> bytes:
    """Serialise numbers and ends of one second's steps, numbered by the clock, so that all processes agree on them."""
    first = (second - 1_700_000_000) * STEPS
    return telemetry_pb2.StepBatch(
        sequence=range(first, first + STEPS),
        global_step=range(first, first + STEPS),
        end=(second - 1 + np.arange(1, STEPS + 1) / STEPS).tolist(),
    ).SerializeToString()


@functools.cache
def _phases(variant: int) -> bytes:
    """Serialise the phases of one second's steps, all of one length, with a little noise in them."""
    chance = np.random.default_rng(variant)
    own = {"update": 0.0003, "host": 0.0004, "input": 0.0005, "compute": 0.0068}
    rows = {phase: seconds * chance.uniform(0.97, 1.03, STEPS) for phase, seconds in own.items()}
    rows["reduce"] = 1 / STEPS - sum(rows.values())
    return telemetry_pb2.StepBatch(**{name: rows[name].tolist() for name in PHASES}).SerializeToString()


async def serve(first: int, count: int, ports: Path, workers: int) -> None:
    """Serve agents until killed, and write their ports to a file."""
    servers, bound = [], []
    for index in range(first, first + count):
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        watch = grpc.unary_stream_rpc_method_handler(
            BenchAgent(index, workers).watch, request_deserializer=agent_pb2.WatchRequest.FromString
        )
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"Watch": watch})])
        bound.append(server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        servers.append(server)
    await asyncio.to_thread(ports.write_text, json.dumps(bound))
    await asyncio.Event().wait()


@contextlib.contextmanager
def agents(tasks: int, folder: Path) -> Iterator[Path]:
    """Run fake agents in processes of their own; yield their cluster file."""
    addresses = [f"10.{n // 62_500}.{n // 250 % 250}.{n % 250 + 2}:2222" for n in range(tasks)]
    processes, files = [], []
    try:
        for first in range(0, tasks, PER_PROCESS):
            ports = folder / f"ports-{tasks}-{first}"
            count = min(PER_PROCESS, tasks - first)
            arguments = [str(first), str(count), str(ports), str(tasks)]
            processes.append(subprocess.Popen([sys.executable, __file__, *arguments]))
            files.append(ports)
        bound = [port for ports in files for port in _ports(ports)]
        path = folder / f"cluster-{tasks}.toml"
        lines = "\n".join(f'"worker:{index}" = "127.0.0.1:{port}"' for index, port in enumerate(bound))
        path.write_text(f'name = "bench"\n[cluster]\nworker = {json.dumps(addresses)}\n[agents]\n{lines}\n')
        yield path
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _ports(path: Path) -> list[int]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()).endswith("]"):
            ports: list[int] = json.loads(text)
            return ports
        time.sleep(0.1)
    raise SystemExit(f"bench/console: the fake agents of {path.name} did not come up in 120 s")


if __name__ == "__main__":
    first, count, ports, workers = sys.argv[1:]
    asyncio.run(serve(int(first), int(count), Path(ports), int(workers)))
