"""Steps of which some subject's report is missing, made whole, for figures about all of them together."""

from __future__ import annotations

import numpy as np
from tfscale.core.analysis.steps.phases import filled
from tfscale.core.analysis.steps.step_table import Aligned


def made_whole(window: Aligned) -> Aligned:
    """The same steps, where a subject's is unknown with the median of the others' in its place.

    Steps that nobody has reported are left out.
    """
    unknown = np.asarray(np.isnan(window.phases).any(axis=0))
    if not unknown.any():
        return window
    kept = np.flatnonzero(~unknown.all(axis=1))
    phases, unknown = window.phases[:, kept], unknown[kept]
    whole = filled(np.where(unknown, np.float32(np.nan), phases))
    return Aligned(window.subjects, window.sequence[kept], window.end[kept], whole)
