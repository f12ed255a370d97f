from fake_nvml import FakeGpu, FakeNvml, samples_of
from tfscale.agent.telemetry.gpu_collector import GpuCollector
from tfscale.agent.telemetry.sampler import Sampler


def test_the_sampler_holds_the_newest_of_both() -> None:
    gpus = GpuCollector(FakeNvml(FakeGpu()), period=0.01)
    sampler = Sampler(gpus=gpus)
    assert (sampler.host, sampler.gpus) == (None, ())
    sampler.start()
    samples_of(gpus)
    sampler.sample(None)
    sampler.stop()
    assert sampler.host is not None
    assert sampler.gpus[0].name == "Fake H100"
