"""Imputation: missing reports of single subjects are filled in, for figures of all subjects together."""

from __future__ import annotations

import numpy as np
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.phases import with_medians_for_unknown


def impute(steps: AlignedSteps) -> AlignedSteps:
    """Return the steps with the median of the other subjects where one subject's step is unknown.

    Steps that no subject has reported are left out.
    """
    unknown = np.asarray(np.isnan(steps.phases).any(axis=0))
    if not unknown.any():
        return steps
    measured = np.flatnonzero(~unknown.all(axis=1))
    phases, unknown = steps.phases[:, measured], unknown[measured]
    complete = with_medians_for_unknown(np.where(unknown, np.float32(np.nan), phases))
    return AlignedSteps(steps.subjects, steps.sequence[measured], steps.end[measured], complete)
