"""An agent whose host has four GPUs by a fake NVML: the arguments are the agent's own."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "harness"))

from fake_nvml import FakeGpu, FakeNvml
from tfscale.agent import cli
from tfscale.agent.telemetry import gpu_collector

gpu_collector._pynvml = lambda: FakeNvml(*(FakeGpu() for _ in range(4)))
sys.exit(cli.main())
