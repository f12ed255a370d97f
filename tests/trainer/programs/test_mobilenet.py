"""MobileNetV2's recipe: the small program has the layers of the large one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest


def kinds(model: Any) -> list[str]:
    """Return the names of all layers' classes, also of those within a model within it."""
    of_each = [kinds(layer) if hasattr(layer, "layers") else [type(layer).__name__] for layer in model.layers]
    return list(itertools.chain.from_iterable(of_each))


@pytest.mark.tensorflow
def test_the_small_model_has_the_layers_of_the_recipe_in_their_order() -> None:
    import tensorflow as tf
    from tfscale.trainer.programs import mobilenet, mobilenet_small

    large, small = (module.build_model(tf.keras) for module in (mobilenet, mobilenet_small))
    assert kinds(large) == kinds(small) and len(kinds(small)) > 150
    assert kinds(small).count("BatchNormalization") == 52 and kinds(small)[-3:] == ["Dense", "Dropout", "Dense"]
    trainable = sum(weight.numpy().size for weight in large.trainable_variables)
    assert trainable == 2_880_257 and large.input_shape == (None, 224, 224, 3)
