"""Service of tf.data in this process: what its modes make of a pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tfscale.trainer.input.input_flag import InputParts

pytestmark = pytest.mark.tensorflow
NUMBERS = np.arange(1_024, dtype=np.float32)


@pytest.fixture
def _service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import tensorflow as tf
    from tfscale.trainer.input.data_service import ADDRESS

    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    monkeypatch.setenv(ADDRESS, dispatcher.target)
    workers = [service.WorkerServer(service.WorkerConfig(dispatcher.target.partition("://")[2])) for _ in range(2)]
    yield
    for server in (*workers, dispatcher):
        server.stop()


def batches(sharding: str, pipeline: int = 0, pipelines: int = 1) -> Any:
    import tensorflow as tf
    from tfscale.trainer.input.batches import batches as made

    parts = InputParts(shuffle=128, service=2, sharding=sharding)
    return made((NUMBERS, NUMBERS), 32 * pipelines, 0, parts)(
        tf.distribute.InputContext(pipelines, pipeline, pipelines)
    )


def taken(data: Any, count: int) -> list[list[int]]:
    return [[int(number) for number in labels] for _, labels in data.take(count)]


@pytest.mark.usefixtures("_service")
def test_dynamic_sharding_makes_each_example_about_once_an_epoch() -> None:
    found = taken(batches("dynamic"), 32)
    seen = Counter(number for batch in found for number in batch)
    assert {len(batch) for batch in found} == {32}
    # A worker that is ahead is in its next epoch already, or holds a batch that nobody has taken yet.
    assert len(seen) > 0.7 * len(NUMBERS) and max(seen.values()) <= 3


@pytest.mark.usefixtures("_service")
def test_without_sharding_each_worker_makes_all_examples_from_a_place_of_its_own() -> None:
    found = taken(batches("off"), 64)
    assert len({tuple(batch) for batch in found}) == 64, "both workers would make the same batches"
    assert max(Counter(number for batch in found for number in batch).values()) <= 4


@pytest.mark.usefixtures("_service")
def test_training_tasks_share_the_batches_of_one_job() -> None:
    first, second = (iter(batches("dynamic", pipeline, 2)) for pipeline in range(2))
    found = [[int(number) for number in next(each)[1]] for _ in range(8) for each in (first, second)]
    assert {len(batch) for batch in found} == {32}
    assert not {*found[0], *found[2]} & {*found[1], *found[3]}, "an example went to both within an epoch"
