"""Local SGD: replicas that train apart, the mean of their weights, and the bytes."""

from __future__ import annotations

from typing import Any

import pytest
from tfscale.trainer.techniques import local_sgd

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("loop", ["fit", pytest.param("custom", marks=pytest.mark.matrix)])
def test_replicas_part_and_take_the_mean_of_their_weights_after_each_fourth_step(
    run_script: Any, keras: str, loop: str
) -> None:
    script = f"""
strategy = strategy()
def kernel(steps):
    training = Training(strategy, parts(local_sgd="4"), optimizer="SGD", rate=0.1)
    training.{loop}(steps)
    return replicas_of(training.model.trainable_variables[0])

def alone(replica):
    # What a replica would be after four steps on its half of each batch.
    training = Training(tf.distribute.OneDeviceStrategy("CPU:0"), parts(), optimizer="SGD", rate=0.1)
    features, labels = training.examples
    step, (variables, loss) = 0, (training.model.trainable_variables, training.module.loss(keras))
    for step in range(4):
        rows = slice(64 * step + 32 * replica, 64 * step + 32 * replica + 32)
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(loss.call(labels[rows], training.model(features[rows], training=True)))
        training.optimizer.apply_gradients(zip(tape.gradient(value, variables), variables))
    return training.model.trainable_variables[0].numpy()

three, four, mean = kernel(3), kernel(4), (alone(0) + alone(1)) / 2
print(json.dumps({{
    "apart": float(abs(three[0] - three[1]).max()),
    "together": float(abs(four[0] - four[1]).max()),
    "from the mean": float(abs(four[0] - mean).max()),
}}))
"""
    measured = run_script(script, keras)
    assert measured["apart"] > 1e-4
    assert measured["together"] == 0
    assert measured["from the mean"] < 2e-6


@pytest.mark.slow
def test_the_bytes_of_eight_steps_are_an_eighth(handed_bytes: Any, keras: str) -> None:
    plain, local, mean = (sum(handed_bytes(keras)[name].values()) for name in ("plain", "local_sgd", "mean"))
    assert plain == 4 * (188_234 + 1)
    assert local == 4  # the loss, which the loop tells
    assert mean == 4 * 188_234
    assert (8 * local + mean) / (8 * plain) == pytest.approx(1 / 8, rel=0.001)


@pytest.mark.matrix
def test_an_eighth_of_the_bytes_goes_over_the_network_and_the_loss_stays_near(
    run_workers: Any, network: list[str]
) -> None:
    script = """
strategy = strategy()
def measure(**techniques):
    training = Training(strategy, parts(**techniques), 128, "SGD", rate=0.05)
    training.custom(8)
    before = sent()
    training.custom(160)
    return sent() - before, training.loss()
print(json.dumps([measure(), measure(local_sgd="8")]))
"""
    (full, loss), (local, local_loss) = run_workers(script, before=network)
    print(
        f"bytes of a step: {full / 160:.0f}, local SGD {local / 160:.0f}; loss {loss:.4f}, local SGD {local_loss:.4f}"
    )
    assert local / full == pytest.approx(1 / 8, rel=0.1)
    assert local_loss < 1.3 * loss


def test_one_step_or_none_is_refused() -> None:
    with pytest.raises(ValueError, match="2 or more"):
        local_sgd.parse("1")
