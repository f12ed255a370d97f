"""Questions for GPUs that are answered with none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tfscale.trainer.compat.listings import no_training


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a watched stand-in for TensorFlow on a host that has one CPU."""
    monkeypatch.setattr(no_training, "_asked_in_vain", False)

    def listed(kind: str | None = None) -> list[str]:
        return [] if kind == "GPU" else ["CPU:0"]

    def gpu_device_name() -> str:
        return ""

    config = SimpleNamespace(list_physical_devices=listed, list_logical_devices=listed)
    config.experimental = SimpleNamespace(list_physical_devices=listed, list_logical_devices=listed)
    test = SimpleNamespace(gpu_device_name=gpu_device_name, is_gpu_available=gpu_device_name)
    made = SimpleNamespace(config=config, test=test)
    no_training.watch(made)
    return made


def test_nothing_is_said_unless_gpus_were_asked_for_in_vain(asked: Any) -> None:
    assert asked.config.list_physical_devices("CPU") == asked.config.list_logical_devices() == ["CPU:0"]
    assert no_training.sentence() is None


@pytest.mark.parametrize(
    "question",
    [
        lambda tf: tf.config.list_physical_devices("GPU"),
        lambda tf: tf.config.experimental.list_logical_devices(kind="GPU"),
        lambda tf: tf.test.gpu_device_name(),
    ],
)
def test_each_way_to_ask_counts(question: Any, asked: Any) -> None:
    question(asked)
    assert (no_training.sentence() or "").startswith("nothing was trained: the script asks for GPUs")


def test_a_library_that_asks_for_itself_does_not_count(asked: Any) -> None:
    names = {"__name__": "tfscale.trainer.strategies.mirrored", "tf": asked}
    exec("tf.config.list_physical_devices('GPU')", names)
    assert no_training.sentence() is None
