"""Weights as an evaluation takes them."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


def test_parts_of_a_variable_become_one_along_its_first_axis() -> None:
    from tfscale.trainer.training.held_out import join

    kernel, bias = np.arange(12).reshape(6, 2), np.arange(2)
    joined = join([kernel[:4], kernel[4:5], kernel[5:], bias], [(6, 2), (2,)])
    assert (joined[0] == kernel).all() and (joined[1] == bias).all() and len(joined) == 2
