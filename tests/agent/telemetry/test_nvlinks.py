"""Links of a GPU as NVML tells them; tests of the collector have those of several GPUs."""

import pytest
from fake_nvml import FakeGpu, FakeNvml
from tfscale.agent.telemetry.nvlinks import NvLinks


def test_links_are_read_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(nvlinks=[True, True])
    links = NvLinks(FakeNvml(gpu), gpu)
    assert links.state() == (2, 2, 0)
    gpu.nvlinks[1], gpu.nvlink_errors = False, 1
    assert links.state() == (2, 2, 0), "read less than ten seconds ago"
    monkeypatch.setattr("tfscale.agent.telemetry.nvlinks._PERIOD", 0.0)
    assert links.state() == (2, 1, 6)
    gpu.nvlinks, gpu.unknown = [], frozenset({"nvlink_errors"})
    assert links.state() == (2, None, None), "a GPU that no longer answers has not lost its links"
