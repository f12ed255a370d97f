"""CIFAR-10 as it lies on disk."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from tfscale.trainer.programs import cifar_small


def test_cifar_10_is_read_where_keras_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    assert cifar_small.find_cifar10() == []
    folder = tmp_path / "datasets" / "cifar-10-batches-py-target" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for part in range(1, 6):
        pixels = np.zeros((2, 3072), np.uint8)
        pixels[:, 1024] = part  # the first pixel's green
        (folder / f"data_batch_{part}").write_bytes(pickle.dumps({b"data": pixels, b"labels": [part, 0]}))
    images, labels = cifar_small.examples(0)
    assert images.shape == (10, 32, 32, 3) and images.dtype == np.uint8
    assert [int(image[0, 0, 1]) for image in images[::2]] == [1, 2, 3, 4, 5]
    assert list(labels) == [1, 0, 2, 0, 3, 0, 4, 0, 5, 0]
    with pytest.raises(ValueError, match=r"CIFAR-10 is on disk, in .*, and has all its 50,000 images; leave it out"):
        cifar_small.examples(0, 100)


def test_without_it_images_of_its_shape_are_made() -> None:
    images, labels = cifar_small.synthetic(0)
    assert images.shape == (cifar_small.EXAMPLES, 32, 32, 3) and images.dtype == np.uint8
    assert set(labels) == set(range(10))
