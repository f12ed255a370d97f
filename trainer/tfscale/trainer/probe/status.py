"""What the probe says of itself and of the program that it measures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfscale.trainer.probe.spans import Program
from tfscale.trainer.probe.steps import Step
from tfscale.trainer.probe.usual_steps import UsualSteps


@dataclass(frozen=True, slots=True)
class Status:
    """Unknown is None; `disabled` is the reason why nothing is measured any more."""

    measuring: bool = False
    disabled: str = ""
    program: Program | None = None
    reduced_bytes_per_step: int | None = None
    examples_per_step: int | None = None
    tensorflow: str | None = None
    keras: str | None = None
    xla: bool = False
    checkpoint: float | None = None
    """When the newest checkpoint was written, Unix seconds."""

    def after(self, steps: Sequence[Step]) -> Status:
        """This status once `steps` were seen."""
        if not steps:
            return self
        newest = steps[-1]
        # The largest of the batch: the last one of an epoch may be a part.
        if isinstance(steps, UsualSteps):
            local = max(steps.examples)
        else:
            local = max(step.examples for step in steps if step.program is newest.program)
        return replace(self, measuring=True, program=newest.program).with_step(newest.bytes, local)

    def with_step(self, reduced_bytes: int, examples: float) -> Status:
        """This status once a step of its program has reduced so many bytes, of so many examples on this worker."""
        workers = self.program.replicas / self.program.local_replicas if self.program else 1
        return replace(
            self,
            reduced_bytes_per_step=reduced_bytes or None,
            examples_per_step=round(examples * workers) or self.examples_per_step,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the measurement less than whole."""
        return ("parts of the program are compiled by XLA, which has no clock: their steps are shown whole",) * self.xla


def tensorflow_version() -> str | None:
    """Of the TensorFlow that the script has imported."""
    return getattr(sys.modules.get("tensorflow"), "__version__", None)


def keras_version() -> str | None:
    """Name and version of the Keras that the script has imported, tf_keras first: it may import Keras 3 beside it."""
    for name in ("tf_keras", "keras"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            return f"{name} {version}"
    return None
