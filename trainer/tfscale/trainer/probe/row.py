"""What a row of stamps is, wherever it waits to be read: float64 numbers, its kind and those of its spans."""

from __future__ import annotations

import numpy as np

WIDTH = 8
"""Numbers in a row; those that are not used say nothing."""
NO_ROWS = np.empty((0, WIDTH))
