"""Top-k gradients: what is sent, what is remembered, the bytes and the loss."""

from __future__ import annotations

from typing import Any

import pytest
from tfscale.trainer.techniques import top_k

pytestmark = pytest.mark.tensorflow


def test_the_largest_entries_are_summed_and_the_others_remembered(run_script: Any) -> None:
    script = """
from tfscale.trainer.techniques import top_k

strategy, top = strategy(), top_k.parse("0.5")

@tf.function
def exchange(gradients):
    return strategy.run(lambda each: top_k.exchange(top, [each[:4], each[4:]]), args=(gradients,))

def step(first, second):
    gradients = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant([first, second][context.replica_id_in_sync_group], tf.float32))
    summed = exchange(gradients)
    return [[each.values[replica].numpy().tolist() for each in summed] for replica in range(2)]

one = step([4, -3, 1, 0, 2, 1], [1, 0, -5, 2, 0, 1])
unsent = [[copy.numpy().tolist() for copy in each.values] for each in top.unsent]
two = step([0] * 6, [0] * 6)
print(json.dumps([one, unsent, two]))
"""
    one, unsent, two = run_script(script)
    # Two of the first four entries and one of the last two.
    assert one == [[[4, -3, -5, 2], [2, 1]]] * 2
    assert unsent == [[[0, 0, 1, 0], [1, 0, 0, 0]], [[0, 1], [0, 0]]]
    assert two == [[[1, 0, 1, 0], [0, 1]]] * 2


@pytest.mark.matrix
def test_nearly_all_entries_train_as_the_all_reduce(run_script: Any, keras: str) -> None:
    script = """
strategy = strategy()
def apart(loop):
    plain, top = (getattr(Training(strategy, each, optimizer="SGD", rate=0.1), loop)(10)
                  for each in (parts(), parts(top_k="0.9999999")))
    return float(abs(plain.weights - top.weights).max())
print(json.dumps([apart(loop) for loop in ("fit", "custom")]))
"""
    assert max(run_script(script, keras)) < 2e-6


@pytest.mark.matrix
def test_fewer_bytes_go_over_the_network_and_the_loss_stays_near(run_workers: Any, network: list[str]) -> None:
    script = """
strategy = strategy()
def measure(**techniques):
    training = Training(strategy, parts(**techniques), 128, "SGD", rate=0.05)
    step, iterator = training.step(), iter(training.data)
    float(step(iterator))
    before = sent()
    for _ in range(199):
        loss = step(iterator)
    float(loss)
    return (sent() - before) / 199, training.loss()
print(json.dumps([measure(), measure(top_k="0.01")]))
"""
    (full, loss), (top, top_loss) = run_workers(script, before=network)
    print(f"bytes of a step: {full:.0f}, top-k {top:.0f}; loss {loss:.4f}, top-k {top_loss:.4f}")
    # Two workers send 8 bytes for each hundredth entry, where the ring sends 4 for each.
    assert top < 0.05 * full
    assert top_loss < 1.5 * loss


@pytest.mark.parametrize("text", ["", "0", "1", "2", "-0.1", "nan", "few"])
def test_anything_but_a_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        top_k.parse(text)
