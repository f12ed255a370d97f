"""Energy and memory of a run's GPUs: each once, and nothing that no counter has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import fakes
from tfscale.core.metrics.run_resources import RunResources
from tfscale.core.records.host_sample import GpuSample
from tfscale.core.records.task_status import Exit, TaskState

KWH = 3.6e6


def noted(
    resources: RunResources, index: int, energies: Iterable[float | None], peaks: tuple[int, ...] = (), at: float = 0.0
) -> None:
    frame = fakes.frame(fakes.worker(index))
    assert frame.probe is not None
    gpus = tuple(GpuSample(place, f"GPU-{place}", "A100", energy=energy) for place, energy in enumerate(energies))
    probe = replace(frame.probe, memory_peaks=peaks)
    resources.note(fakes.worker(index), replace(frame, at=fakes.NOW + at, gpus=gpus, probe=probe))


def test_a_gpu_that_two_tasks_share_counts_once_and_samples_of_both_may_come_in_any_order() -> None:
    resources = RunResources()
    noted(resources, 0, [9 * KWH])
    noted(resources, 1, [9 * KWH + 1000])
    noted(resources, 0, [9 * KWH + 700])
    noted(resources, 1, [12 * KWH])
    assert resources.joules == 3 * KWH
    assert resources.facts() == {"energy": "3.00 kWh by the counters of 1 GPU; the rest of the hosts not counted"}


def test_a_counter_that_began_anew_with_its_driver_takes_nothing_back() -> None:
    resources = RunResources()
    for minute, energy in enumerate((5 * KWH, 6 * KWH, 0.0, 0.5 * KWH)):
        noted(resources, 0, [energy], at=60.0 * minute)
    assert resources.joules == 1.5 * KWH


def test_the_newest_sample_counts_at_once_but_not_that_of_a_task_that_was_lost_before_another() -> None:
    resources = RunResources()
    for second in range(3):
        noted(resources, 0, [(5 + second) * KWH], at=second)
    assert resources.joules == 2 * KWH
    noted(resources, 0, [7.5 * KWH], at=3.0)
    for minute in range(1, 4):
        noted(resources, 1, [(8 + minute) * KWH], at=60.0 * minute)
    assert resources.joules == 6 * KWH, "worker:0 told of less, long before"


def test_gpus_without_a_counter_are_said_to_have_none() -> None:
    resources = RunResources()
    assert (resources.joules, resources.facts()) == (None, {}), "no GPU, no word"
    noted(resources, 0, [None, None])
    assert resources.joules is None
    assert resources.facts() == {"energy": "not measured: no counter in 2 GPUs"}
    noted(resources, 1, [KWH, None])
    noted(resources, 1, [1.5 * KWH, None])
    whose = "by the counters of 1 GPU; 1 GPU without a counter and the rest of the hosts not counted"
    assert resources.facts() == {"energy": f"500 Wh {whose}"}


def test_a_task_that_has_ended_takes_nothing_more() -> None:
    resources, frame = RunResources(), fakes.frame(fakes.worker(0))
    noted(resources, 0, [KWH])
    ended = replace(frame, status=fakes.status(TaskState.EXITED, pid=None, exit=Exit(0, None, fakes.NOW)))
    resources.note(fakes.worker(0), replace(ended, gpus=(GpuSample(0, "GPU-0", "A100", energy=2 * KWH),)))
    assert resources.joules == 0


def test_the_largest_peak_of_memory_is_named() -> None:
    resources = RunResources()
    noted(resources, 0, [], peaks=(20_000_000_000, 21_000_000_000))
    noted(resources, 1, [], peaks=(31_300_000_000, 1))
    noted(resources, 1, [], peaks=(5,))
    told = "at most 31.3 GB on a GPU (worker:1 GPU:0), by TensorFlow's own counter"
    assert resources.facts() == {"memory": told}, "also after a restart, which counts anew"
