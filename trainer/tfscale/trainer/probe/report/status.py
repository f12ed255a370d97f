"""Status of the probe, and facts about the program that it measures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfscale.core.records import ProbeState, ProbeStatus
from tfscale.trainer.probe.steps.spans import Program
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.usual_steps import UsualSteps

_XLA = "parts of the program are compiled by XLA, which has no clock: their steps are shown whole"


@dataclass(frozen=True, slots=True)
class Status:
    """State from which the reported status is made. `disabled` is the reason why nothing is measured any more."""

    measuring: bool = False
    disabled: str = ""
    program: Program | None = None
    reduced_bytes_per_step: int | None = None
    examples_per_step: int | None = None
    tensorflow: str | None = None
    keras: str | None = None
    xla: bool = False
    faults: tuple[str, ...] = ()
    """Hooks and repairs that this TensorFlow or Keras does not allow, a line for each."""
    checkpoint: float | None = None
    """When the newest checkpoint was written, Unix seconds."""

    def after(self, steps: Sequence[Step]) -> Status:
        """Return the status once these steps were seen."""
        if not steps:
            return self
        newest = steps[-1]
        # The largest batch counts: the last one of an epoch may be a part.
        if isinstance(steps, UsualSteps):
            local = steps.examples.max().item()
        else:
            local = max(step.examples for step in steps if step.program is newest.program)
        return replace(self, measuring=True, program=newest.program).with_step(newest.bytes, local)

    def with_step(self, reduced_bytes: int, examples: float) -> Status:
        """Return the status once a step has reduced so many bytes, of so many examples on this worker."""
        workers = self.program.replicas / self.program.local_replicas if self.program else 1
        return replace(
            self,
            reduced_bytes_per_step=reduced_bytes or None,
            examples_per_step=round(examples * workers) or self.examples_per_step,
        )

    @property
    def record(self) -> ProbeStatus:
        """The status as it is reported."""
        program = self.program
        return ProbeStatus(
            state=self._state,
            message=self.disabled,
            strategy=program.strategy if program else None,
            replicas=program.replicas if program else None,
            local_replicas=program.local_replicas if program else None,
            ranks=program.replicas if program else None,
            reduced_bytes_per_step=self.reduced_bytes_per_step,
            examples_per_step=self.examples_per_step,
            tensorflow=self.tensorflow,
            keras=self.keras,
            warnings=(*([_XLA] if self.xla else []), *self.faults),
            collective=program.collective if program else None,
            checkpoint=self.checkpoint,
        )

    @property
    def _state(self) -> ProbeState:
        if self.disabled:
            return ProbeState.DISABLED
        return ProbeState.MEASURING if self.measuring else ProbeState.WAITING


def tensorflow_version() -> str | None:
    """Return the version of the TensorFlow that the script has imported."""
    return getattr(sys.modules.get("tensorflow"), "__version__", None)


def keras_version() -> str | None:
    """Return name and version of the Keras that the script has imported, tf_keras first: it may import Keras 3, too."""
    for name in ("tf_keras", "keras"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            return f"{name} {version}"
    return None
