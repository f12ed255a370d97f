"""What the probe says of itself and of the program that it measures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfscale.trainer.probe.steps import Step


@dataclass(frozen=True, slots=True)
class Status:
    """Unknown is None; `disabled` is the reason why nothing is measured any more."""

    measuring: bool = False
    disabled: str = ""
    strategy: str | None = None
    replicas: int | None = None
    local_replicas: int | None = None
    reduced_bytes_per_step: int | None = None
    examples_per_step: int | None = None
    tensorflow: str | None = None
    keras: str | None = None
    xla: bool = False

    def after(self, steps: Sequence[Step]) -> Status:
        """This status once `steps` were seen."""
        if not steps:
            return self
        # The largest of the batch: the last one of an epoch may be a part.
        local = max(step.examples for step in steps)
        workers = (self.replicas or 1) / (self.local_replicas or 1)
        return replace(
            self,
            measuring=True,
            reduced_bytes_per_step=steps[-1].bytes or None,
            examples_per_step=round(local * workers) or self.examples_per_step,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the measurement less than whole."""
        return ("parts of the program are compiled by XLA, which has no clock: their steps are not cut",) * self.xla


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
