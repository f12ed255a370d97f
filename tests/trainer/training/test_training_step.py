"""Steps of a training: where no technique touches them, they are Keras's own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tfscale.trainer.training.parts import Parts

pytestmark = pytest.mark.tensorflow


def test_fit_trains_the_same_model_where_no_technique_touches_the_step() -> None:
    from tfscale.trainer.training.training_step import fit_model

    model = object()
    rate: Any = SimpleNamespace(learning_rate=lambda *_: 0.1)
    assert fit_model(model, Parts([(rate, None)])) is model
