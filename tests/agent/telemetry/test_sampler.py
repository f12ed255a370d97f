import time
from pathlib import Path

from fake_nvml import FakeGpu, FakeNvml, samples_of
from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.agent.telemetry.host_collector import HostCollector
from tfscale.agent.telemetry.sampler import Sampler
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.task import Task
from tfscale.core.records.host_sample import HostSample

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


class Counting(HostCollector):
    samples = 0

    def sample(self, task_pid: int | None, *, goes_on: bool = False) -> HostSample:
        self.samples += 1
        return super().sample(task_pid, goes_on=goes_on)


def test_the_host_of_a_task_that_makes_steps_is_sampled_at_each_second_call() -> None:
    host = Counting()
    sampler = Sampler(Path.cwd(), *ALONE, lambda: (), host)
    samples = []
    for goes_on in (True, True, True, True, False, False):
        sampler.sample(None, goes_on=goes_on)
        samples.append(host.samples)
    assert sampler.host is not None and samples == [1, 1, 2, 2, 3, 4]
