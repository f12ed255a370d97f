"""Time that checks of the gradients add to a step of two workers, whose model has millions of parameters.

    python scripts/bench/gradient_checks.py [--width 1024] [--batch 32] [--blocks 40]

Each worker traces the same step twice, with and without checks, and makes blocks of both in turns; each pair of blocks
gives one difference.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/harness"))

from loopback import free_addresses  # noqa: E402

LAYERS, STEPS = 4, 20


def main() -> None:
    """Run both workers and print what the first one says; or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=40)
    options = parser.parse_args()
    if "TF_CONFIG" in os.environ:
        _work(options.width, options.batch, options.blocks)
        return
    addresses = list(free_addresses(2))
    tasks = [{"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}} for index in range(2)]
    base = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    workers = [
        subprocess.Popen([sys.executable, *sys.argv], env=base | {"TF_CONFIG": json.dumps(task)}) for task in tasks
    ]
    sys.exit(max(worker.wait() for worker in workers))


def _work(width: int, batch: int, blocks: int) -> None:
    from tfscale.trainer.measure import measure

    with tempfile.TemporaryDirectory() as folder, measure(Path(folder) / "lines.jsonl"):
        checked, plain = _steps(width, batch)
        pairs = []
        for block in range(blocks + 2):
            order = (checked, plain) if block % 2 else (plain, checked)
            seconds = {step: _timed(step) for step in order}
            pairs.append((seconds[checked], seconds[plain]))
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        _print(pairs[2:], LAYERS * width * width)


def _steps(width: int, batch: int) -> list[Callable[[], Any]]:
    """Return the step with checks and the one without."""
    import tensorflow as tf
    from tfscale.trainer.probe.rows.row_buffer import RowBuffer

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = [tf.Variable(tf.random.normal((width, width)) / width) for _ in range(LAYERS)]
        optimizer = tf.keras.optimizers.Adam(1e-4)
        optimizer.build(weights)
    inputs = tf.random.normal((batch, width))

    def replica_step() -> None:
        with tf.GradientTape() as tape:
            made = inputs
            for weight in weights:
                made = tf.nn.relu(made @ weight)
            loss = tf.reduce_mean((made - 1.0) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    check, steps = RowBuffer.check, []
    for method in (check, lambda *_: None):
        RowBuffer.check = method  # type: ignore[method-assign, assignment]
        step = tf.function(lambda: strategy.run(replica_step))
        step()
        steps.append(step)
    RowBuffer.check = check  # type: ignore[method-assign]
    return steps


def _timed(step: Callable[[], Any]) -> float:
    """Return the median seconds of a step in one block."""
    seconds = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def _print(pairs: list[tuple[float, float]], parameters: int) -> None:
    plain = statistics.median(pair[1] for pair in pairs)
    added = sorted(pair[0] - pair[1] for pair in pairs)
    middle, low, high = statistics.median(added), added[len(added) // 4], added[3 * len(added) // 4]
    print(
        f"{parameters / 1e6:.1f} M parameters: {plain * 1e3:.2f} ms a step without checks, "
        f"they add {middle * 1e6:+.0f} us ({middle / plain:+.1%}; "
        f"half of all pairs between {low * 1e6:+.0f} and {high * 1e6:+.0f})"
    )


if __name__ == "__main__":
    main()
