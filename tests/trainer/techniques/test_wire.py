"""Gradients in bfloat16 on the wire: bytes, and the loss beside float32."""

from __future__ import annotations

from typing import Any

import pytest
from tfscale.trainer.techniques import wire

pytestmark = pytest.mark.tensorflow


@pytest.mark.slow
def test_half_the_bytes_are_handed_to_the_all_reduce(handed_bytes: Any, keras: str) -> None:
    handed = handed_bytes(keras)
    assert handed["plain"] == {"CollectiveReduceV2": 4 * 188_234 + 4}
    assert handed["wire"] == {"CollectiveReduceV2": 2 * 188_234 + 4}  # the loss stays in float32


@pytest.mark.matrix
def test_half_the_bytes_go_over_the_network(run_workers: Any, network: list[str]) -> None:
    script = """
strategy = strategy()
def bytes_of(**techniques):
    training = Training(strategy, parts(**techniques))
    step, iterator = training.step(), iter(training.data)
    float(step(iterator))
    before = sent()
    for _ in range(20):
        loss = step(iterator)
    float(loss)
    return (sent() - before) / 20
print(json.dumps([bytes_of(), bytes_of(wire="bfloat16"), bytes_of(mixed="bfloat16")]))
"""
    full, narrow, policy = run_workers(script, before=network)
    print(f"bytes of a step on the loopback: {full:.0f}, wire {narrow:.0f}, mixed {policy:.0f}")
    # Both workers send as much as the gradients have; the rest is what gRPC adds.
    assert 0.48 < narrow / full < 0.55
    assert 0.95 < policy / full < 1.05


@pytest.mark.matrix
def test_the_loss_after_300_steps_is_within_two_percent(run_script: Any, keras: str) -> None:
    script = """
strategy = strategy()
def losses(loop):
    return [getattr(Training(strategy, each, 128, "SGD", rate=0.05), loop)(300).loss()
            for each in (parts(), parts(wire="bfloat16"))]
print(json.dumps({loop: losses(loop) for loop in ("fit", "custom")}))
"""
    for loop, (full, narrow) in run_script(script, keras).items():
        print(f"loss after 300 steps, {loop}: float32 {full:.5f}, bfloat16 {narrow:.5f}")
        assert full < 1.0
        assert narrow == pytest.approx(full, rel=0.02)


def test_float16_is_refused() -> None:
    with pytest.raises(ValueError, match="write bfloat16"):
        wire.parse("float16")
