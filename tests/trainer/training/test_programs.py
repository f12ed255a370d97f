"""Programs of `tfscale-train` that train by gradients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tfscale.trainer.launch.catalogue import Entry, entries

PROGRAMS = [entry for entry in entries("program").values() if "main" not in entry.functions]

pytestmark = pytest.mark.tensorflow


@pytest.fixture(params=PROGRAMS, ids=lambda entry: entry.name)
def entry(request: pytest.FixtureRequest) -> Entry:
    found: Entry = request.param
    return found


def test_the_model_has_as_many_weights_as_its_summary_says_and_fits_its_data(entry: Entry) -> None:
    import tensorflow as tf

    program = entry.load()
    model = program.build_model(tf.keras)
    told = re.search(r"([\d,]+) weights", entry.summary)
    assert told is not None and int(told[1].replace(",", "")) == model.count_params()
    features, labels = program.examples(0)
    logits = model(features[:4], training=False)
    loss = float(program.loss(tf.keras)(labels[:4], logits))
    assert logits.dtype == tf.float32 and loss > 0


def test_the_same_seed_gives_the_same_examples_and_another_seed_others(entry: Entry) -> None:
    program = entry.load()
    (one, of_one), (same, of_same), (other, of_other) = (program.examples(seed) for seed in (1, 1, 2))
    assert (one == same).all() and (of_one == of_same).all()
    assert one.shape == other.shape and ((one != other).any() or _is_on_disk(entry))
    assert len(of_one) == len(of_other) == len(one)


SYNTHETIC = [each for each in PROGRAMS if "EXAMPLES" in each.constants]


@pytest.mark.parametrize("made", SYNTHETIC, ids=lambda entry: entry.name)
def test_synthetic_examples_are_as_many_as_are_asked_for(
    made: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    features, labels = made.load().examples(3, 25)
    assert len(features) == len(labels) == 25


def _is_on_disk(entry: Entry) -> Any:
    from tfscale.trainer.programs.cifar_small import find_cifar10

    return entry.name.startswith("cifar") and find_cifar10()
