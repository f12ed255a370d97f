import numpy as np
from tfscale.console.analysis.steps.aligned_steps import AlignedSteps
from tfscale.console.analysis.steps.impute import impute


def window(phases: np.ndarray) -> AlignedSteps:  # type: ignore[type-arg]
    count = phases.shape[1]
    return AlignedSteps(("a", "b", "c"), np.arange(count), np.arange(count, dtype=float), phases)


def test_a_missing_step_is_like_the_others_and_one_that_nobody_has_is_left_out() -> None:
    phases = np.tile(np.array([1.0, 2.0, 4.0], np.float32), (5, 3, 1))
    phases[:, 1, 0] = np.nan
    phases[:, 2, :] = np.nan
    whole = impute(window(phases))
    assert whole.sequence.tolist() == [0, 1]
    assert whole.phases[3].tolist() == [[1.0, 2.0, 4.0], [3.0, 2.0, 4.0]]


def test_what_is_whole_stays_as_it_is() -> None:
    full = window(np.ones((5, 2, 3), np.float32))
    assert impute(full) is full
    assert len(impute(window(np.full((5, 2, 3), np.nan, np.float32)))) == 0
