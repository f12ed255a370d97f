"""Program that tells its agent of 100 steps each second, as the probe of a training process does, without TensorFlow.

What it tells is serialised by hand-made batches of the same messages, so that the agent has the work of a fast program.
"""

from __future__ import annotations

import os
import socket
import time

from tfscale.core.report_schedule import PERIOD, READ_OFFSET, until_offset
from tfscale.core.wire.framing import framed
from tfscale.v1 import report_pb2, telemetry_pb2

STEPS = 100
"""Steps a second."""
PHASES = {"update": 0.0003, "host": 0.0004, "input": 0.0005, "compute": 0.0068, "reduce": 0.002}
"""Seconds of a step."""


def main() -> None:
    task, generation = os.environ["TFSCALE_TASK"], int(os.environ["TFSCALE_GENERATION"])
    attempt = int(os.environ["TFSCALE_ATTEMPT"])
    hello = report_pb2.Hello(
        schema_version=1, task=task, generation=generation, attempt=attempt, pid=os.getpid(), trains=True
    )
    probe = telemetry_pb2.ProbeStatus(
        state=telemetry_pb2.PROBE_STATE_MEASURING, strategy="MultiWorkerMirroredStrategy", replicas=1, ranks=1
    )
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(os.environ["TFSCALE_REPORT"])
        agent.sendall(framed(report_pb2.TaskReport(hello=hello, probe=probe).SerializeToString()))
        first = 0
        while True:
            time.sleep(until_offset(time.time(), READ_OFFSET, PERIOD))
            now, numbers = time.time(), range(first, first + STEPS)
            steps = telemetry_pb2.StepBatch(
                generation=generation, attempt=attempt, reporter=task, subject=task,
                sequence=numbers, global_step=numbers,
                end=[now - (STEPS - number) * PERIOD / STEPS for number in range(STEPS)],
                **{phase: [seconds] * STEPS for phase, seconds in PHASES.items()},
            )  # fmt: skip
            first += STEPS
            collective = telemetry_pb2.Collective(entered=first, left=first)
            agent.sendall(framed(report_pb2.TaskReport(collective=collective, steps=[steps]).SerializeToString()))


if __name__ == "__main__":
    main()
