"""Ways between the GPUs of a host."""

import pytest
from fake_nvml import FakeGpu, FakeNvml
from tfscale.agent.telemetry.gpu_topology import ways_of


@pytest.mark.parametrize(
    ("peers", "ways"),
    [
        ([{}], [""]),
        ([{1: 50}, {}], ["bus between sockets with 1", ""]),
        (
            [{1: -1, 2: -1, 3: -1, 4: 50}, {0: 10, 2: 20, 3: 30, 4: 40}, {0: 10, 1: 10, 4: 10}, {}, {}],
            [
                "NVLink with 1-3, bus between sockets with 4",
                "PCIe switch with 0, PCIe switches with 2, PCIe host bridge with 3, NUMA node with 4",
                "PCIe switch with 0-1, 4",
                "",
                "",
            ],
        ),
    ],
)
def test_a_gpu_tells_its_ways_to_the_others(peers: list[dict[int, int]], ways: list[str]) -> None:
    nvml = FakeNvml(*(FakeGpu(peers=each) for each in peers))
    assert ways_of(nvml, list(enumerate(nvml.gpus))) == ways
