"""Counters of a host and its GPUs: the samples that are kept, and the vitals condensed from them."""

from __future__ import annotations

from collections.abc import Callable

from tfscale.console.analysis.causes.vitals import KEEP_SECONDS, OLDER_SECONDS, WINDOW_SECONDS, Samples
from tfscale.core.records.frame import Frame
from tfscale.core.records.host_sample import GpuSample, HostSample, Interface


def sampled(frame: Callable[..., Frame], at: float, sent: float = 1e6, errors: int = 0) -> Frame:
    host = HostSample(0.5, 4, 1.0, 1, 2, 0, interfaces=(Interface("eth0", 0.0, sent, 1e9),))
    return frame(at=at, host=host, gpus=(GpuSample(0, "GPU-0", "A100", utilisation=0.9, ecc_errors=errors),))


def test_what_is_older_than_the_window_is_kept_more_sparsely(frame: Callable[..., Frame]) -> None:
    samples = Samples()
    for second in range(200):
        samples.add(sampled(frame, float(second), errors=second >= 150))
    kept = len(samples._older) + len(samples._recent)
    assert kept <= WINDOW_SECONDS + 1 + (KEEP_SECONDS - WINDOW_SECONDS) / OLDER_SECONDS + 1
    assert samples.vitals().ecc_errors == 1


def test_of_many_tasks_not_every_sample_is_kept(frame: Callable[..., Frame]) -> None:
    samples = Samples(spacing=2.5)
    for tenth in range(300):
        samples.add(sampled(frame, tenth / 10, errors=tenth >= 100))
    assert len(samples._recent) <= WINDOW_SECONDS / 2.5 + 1
    vitals = samples.vitals()
    assert (vitals.ecc_errors, vitals.gpu, vitals.cpu) == (1, 0.9, 0.5)


def test_a_clock_that_was_set_back_ends_no_samples(frame: Callable[..., Frame]) -> None:
    samples = Samples(spacing=2.5)
    for at in (1000.0, 1003.0, 5.0, 8.0):
        samples.add(sampled(frame, at))
    assert [sample.at for sample in samples._recent] == [1000.0, 1003.0, 5.0, 8.0]


def test_the_most_that_a_link_moved_is_remembered_for_good(frame: Callable[..., Frame]) -> None:
    samples = Samples()
    assert samples.most_moved is None
    for second in range(200):
        samples.add(sampled(frame, float(second), sent=5e6 if second == 20 else 1e6))
        if second % 10 == 0:
            samples.vitals()
    assert samples.most_moved == 5e6
