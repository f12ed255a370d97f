import time
from pathlib import Path

from fake_nvml import FakeGpu, FakeNvml, samples_of
from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.agent.telemetry.sampler import Sampler
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.task import Task

ALONE = (parse_cluster({"cluster": "alone"}, name="x", where="x", base=Path.cwd()), Task.parse("worker:0"))


def test_the_sampler_holds_the_newest_of_all() -> None:
    gpus = GpuCollector(FakeNvml(FakeGpu()), period=0.01)
    sampler = Sampler(Path.cwd(), *ALONE, gpus.latest)
    assert (sampler.host, sampler.gpus) == (None, ())
    sampler.start()
    gpus.start()
    samples_of(gpus)
    for _ in range(200):
        sampler.sample(None)
        if sampler.host and sampler.host.disk:
            break
        time.sleep(0.01)
    sampler.stop()
    gpus.stop()
    assert sampler.host is not None and sampler.host.disk is not None and sampler.host.disk.free > 0
    assert sampler.gpus[0].name == "Fake H100"
