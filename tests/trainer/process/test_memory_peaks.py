"""Peaks of TensorFlow's memory: a fake stands for the allocator of GPUs."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.tensorflow


def test_each_gpu_has_its_peak_rounded_up_so_that_it_is_seldom_news(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf
    from tfscale.trainer.probe.process.memory_peaks import memory_peaks

    peaks = {"GPU:0": 12_341_000_001, "GPU:1": 999}
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda name: {"current": 1, "peak": peaks[name]})
    assert memory_peaks(2) == (12_400_000_000, 999)
    assert memory_peaks(3) == (), "TensorFlow does not know one of them"


def test_without_a_gpu_nothing_is_told() -> None:
    from tfscale.trainer.probe.process.memory_peaks import memory_peaks

    assert memory_peaks(0) == ()
    assert memory_peaks(1) == (), "a GPU that is not there"
