"""Linear scaling of the learning rate, with warm-up and decay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tfscale.trainer.techniques import learning_rate

pytestmark = pytest.mark.tensorflow


def rates(text: str, *steps: int) -> list[float]:
    schedule = learning_rate.learning_rate(learning_rate.parse(text), 0.001, 4, 1000)
    return [float(schedule(step)) for step in steps]


def test_the_rate_rises_to_that_of_all_replicas() -> None:
    assert rates("100", 0, 50, 100, 999) == pytest.approx([0.001, 0.0025, 0.004, 0.004])


def test_without_warm_up_it_begins_there() -> None:
    assert rates("0", 0, 999) == pytest.approx([0.004, 0.004])


def test_after_the_warm_up_it_decays_to_the_last_step() -> None:
    assert rates("100:cosine", 100, 550, 1000) == pytest.approx([0.004, 0.002, 0.0], abs=1e-9)
    assert rates("100:exponential", 100, 550, 1000) == pytest.approx([0.004, 0.0004, 0.00004])
    assert rates("100:staircase", 100, 549, 552, 800) == pytest.approx([0.004, 0.004, 0.0004, 0.00004])


@pytest.mark.parametrize("text", ["", "cosine", "20:linear", "-1", "2.5"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write steps of warm-up"):
        learning_rate.parse(text)


@pytest.mark.matrix
def test_an_optimizer_with_it_is_saved_and_loaded(run_script: Any, keras: str, tmp_path: Path) -> None:
    script = """
each = parts(learning_rate="5:cosine")
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(each.learning_rate(0.001, 4, 20)), "mse")
model.save("FOLDER/model.keras")
loaded = keras.models.load_model("FOLDER/model.keras").optimizer
again = keras.optimizers.schedules.deserialize(loaded.get_config()["learning_rate"])
print(json.dumps([float(again(step)) for step in (0, 5, 20)]))
""".replace("FOLDER", str(tmp_path))
    assert run_script(script, keras) == pytest.approx([0.001, 0.004, 0.0], abs=1e-9)


@pytest.mark.matrix
def test_four_replicas_train_as_one_with_the_scaled_rate_and_not_without(run_script: Any) -> None:
    # As many examples for each: 800 steps of one replica, 200 of four.
    script = """
strategy = strategy(4)
def loss(replicas, **techniques):
    where = strategy if replicas == 4 else tf.distribute.OneDeviceStrategy("CPU:0")
    each, steps = parts(**techniques), 800 // replicas
    rate = each.learning_rate(0.05, replicas, steps)
    return Training(where, each, 32 * replicas, "SGD", rate=rate).custom(steps).loss()
print(json.dumps([loss(1), loss(4, learning_rate="0"), loss(4, learning_rate="10"), loss(4)]))
"""
    one, scaled, warmed_up, unscaled = run_script(script)
    print(f"loss: one replica {one:.4f}, four scaled {scaled:.4f}, with warm-up {warmed_up:.4f}, not {unscaled:.4f}")
    # Measured: equal to four digits. Other rates and optimizers are further apart (docs/how-to/techniques).
    assert scaled == pytest.approx(one, rel=0.15)
    # Ten steps of warm-up are missing in a training of 200.
    assert warmed_up == pytest.approx(one, rel=0.33)
    assert unscaled > 3 * one
