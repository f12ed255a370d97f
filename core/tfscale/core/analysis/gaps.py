"""Steps of which some subject's report is missing, made whole, for figures about all of them together."""

from __future__ import annotations

import numpy as np
from tfscale.core.analysis.steps import Aligned


def made_whole(window: Aligned) -> Aligned:
    """The same steps, where a subject's is unknown with the median of the others' in its place.

    Steps that nobody has reported are left out.
    """
    unknown = np.asarray(np.isnan(window.phases).any(axis=0))
    if not unknown.any():
        return window
    kept = np.flatnonzero(~unknown.all(axis=1))
    phases, unknown = window.phases[:, kept], unknown[kept]
    blank = np.where(unknown, np.float32(np.nan), phases)
    middle = np.nanmedian(blank, axis=2, keepdims=True) if blank.size else blank
    return Aligned(window.subjects, window.sequence[kept], window.end[kept], np.where(unknown, middle, phases))
