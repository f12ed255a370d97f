"""Status of the probe, and facts about the program that it measures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from types import ModuleType

from tfscale.core.records.probe_status import Devices, ProbeState, ProbeStatus
from tfscale.trainer.probe.process.step_flops import StepFlops
from tfscale.trainer.probe.rows.spans import Distribution
from tfscale.trainer.probe.steps.step import Step
from tfscale.trainer.probe.steps.usual_steps import UsualSteps

_XLA = "parts of the program are compiled by XLA, which has no clock: their steps are shown whole"
_OTHERS = (
    "the program has connected to other processes of TensorFlow, which do not know the ops of the probe: steps in "
    "graphs are shown whole"
)
_LOST_STAMPS = (
    "the program has connected to other processes of TensorFlow, which do not know the ops of the probe, after its "
    "training was traced: its steps are not seen any more; let it connect before"
)
_OWN_INPUT = (
    "the program brings its batches itself, and does not ask tf.data: loading them is in `host`, not in `input`"
)
_BY_HAND = (
    "the program computes gradients, and nothing that is seen applies them: steps that change variables by hand, by an "
    "optimizer of tf.compat.v1, or in a session, are not seen"
)
_DTENSOR = "the program uses DTensor, whose graphs take none of the probe's ops: its steps are not measured"


@dataclass(frozen=True, slots=True)
class Status:
    """State from which the reported status is made. `disabled` is the reason why nothing is measured any more."""

    measuring: bool = False
    disabled: str = ""
    distribution: Distribution | None = None
    reduced_bytes_per_step: int | None = None
    examples_per_step: int | None = None
    gathered_bytes_per_step: int | None = None
    dense_bytes_per_step: int | None = None
    wire_type: str | None = None
    micro_batches: int | None = None
    local_steps: int | None = None
    tensorflow: str | None = None
    keras: str | None = None
    dtype_policy: str | None = None
    compiled_stamps: bool | None = None
    xla: bool = False
    reaches_others: bool = False
    lost_stamps: bool = False
    steps_of_call: int = 1
    own_input: bool = False
    dtensor: bool = False
    by_hand: bool = False
    faults: tuple[str, ...] = ()
    """Notes about hooks and repairs that this TensorFlow or Keras does not allow, as `Feature.note` writes them."""
    notes: tuple[str, ...] = ()
    """Sentences about replacements for lines of the script."""
    checkpoint: float | None = None
    """Time at which the newest checkpoint was written, Unix seconds."""
    devices: Devices | None = None
    empty_since: float | None = None
    """End of the first of the newest steps in a row without examples in their batches, Unix seconds."""
    input_python: float | None = None
    """Seconds of Python that graphs call, for each of the newest steps."""
    tracked_runs: tuple[str, ...] = ()
    memory_peaks: tuple[int, ...] = ()
    flops: StepFlops | None = None

    def after(self, steps: Sequence[Step]) -> Status:
        """Return the status once these steps were seen."""
        if not steps:
            return self
        newest = steps[-1]
        # The largest batch counts: the last one of an epoch may be a part.
        if isinstance(steps, UsualSteps):
            local = steps.examples.max().item()
        else:
            local = max(step.examples for step in steps if step.distribution is newest.distribution)
        return replace(
            self,
            measuring=True,
            distribution=newest.distribution,
            gathered_bytes_per_step=newest.gathered or None,
            dense_bytes_per_step=newest.dense_bytes or None,
            wire_type=newest.wire_type or None,
            micro_batches=newest.micro_batches if newest.micro_batches > 1 else None,
            local_steps=newest.local_steps if newest.local_steps > 1 else None,
            empty_since=self._empty_since(steps),
        ).with_step(newest.bytes, local)

    def _empty_since(self, steps: Sequence[Step]) -> float | None:
        """Return the end of the first of the newest steps in a row without examples in their batch.

        None for a program whose examples were never seen.
        """
        empty = [] if self.examples_per_step is None else list(takewhile(_is_empty, reversed(steps)))
        if not empty:
            return None
        began_before = len(empty) == len(steps) and self.empty_since is not None
        return self.empty_since if began_before else empty[-1].end

    @property
    def replica_examples(self) -> int:
        """Examples of a step of one replica; 0 while unknown."""
        return -(-(self.examples_per_step or 0) // (self.distribution.replicas if self.distribution else 1))

    def with_step(self, reduced_bytes: int, examples: float) -> Status:
        """Return the status after a step that has reduced `reduced_bytes`, of `examples` examples on this worker."""
        workers = self.distribution.replicas / self.distribution.local_replicas if self.distribution else 1
        return replace(
            self,
            reduced_bytes_per_step=reduced_bytes or None,
            examples_per_step=round(examples * workers) or self.examples_per_step,
        )

    @property
    def record(self) -> ProbeStatus:
        """Status for the report."""
        distribution = self.distribution
        return ProbeStatus(
            state=self._state,
            message=self._unmeasured,
            strategy=distribution.strategy if distribution else None,
            replicas=distribution.replicas if distribution else None,
            local_replicas=distribution.local_replicas if distribution else None,
            ranks=distribution.replicas if distribution else None,
            reduced_bytes_per_step=self.reduced_bytes_per_step,
            examples_per_step=self.examples_per_step,
            gathered_bytes_per_step=self.gathered_bytes_per_step,
            dense_bytes_per_step=self.dense_bytes_per_step,
            wire_type=self.wire_type,
            micro_batches=self.micro_batches,
            local_steps=self.local_steps,
            tensorflow=self.tensorflow,
            keras=self.keras,
            dtype_policy=self.dtype_policy,
            warnings=(*self._limits, *self.faults, *self.notes),
            collective=distribution.collective if distribution else None,
            checkpoint=self.checkpoint,
            devices=self.devices,
            empty_since=self.empty_since,
            input_python=self.input_python,
            compiled_stamps=self.compiled_stamps,
            tracked_runs=self.tracked_runs,
            memory_peaks=self.memory_peaks,
            flops_per_step=self.flops.counted if self.flops else None,
            flops_uncounted=self.flops.uncounted if self.flops else (),
        )

    @property
    def _limits(self) -> list[str]:
        """Sentences about what cannot be measured in this program."""
        shares = (
            f"a call makes {self.steps_of_call} steps, which are not told apart: each is shown as an equal share of it"
        )
        is_shared = self.steps_of_call > 1
        return (
            [_XLA] * self.xla + [_OTHERS] * self.reaches_others + [shares] * is_shared + [_OWN_INPUT] * self.own_input
        )

    @property
    def _unmeasured(self) -> str:
        """Reason why no step is measured, empty where steps are."""
        if self.disabled or (self.measuring and not self.lost_stamps):
            return self.disabled
        return _LOST_STAMPS * self.lost_stamps or _DTENSOR * self.dtensor or _BY_HAND * self.by_hand

    @property
    def _state(self) -> ProbeState:
        if self._unmeasured:
            return ProbeState.DISABLED
        return ProbeState.MEASURING if self.measuring else ProbeState.WAITING


def tensorflow_version() -> str | None:
    """Return the version of the TensorFlow that the script has imported."""
    return getattr(sys.modules.get("tensorflow"), "__version__", None)


def keras_version() -> str | None:
    """Return name and version of the Keras that the script has imported."""
    keras = _keras()
    return f"{keras.__name__} {keras.__version__}" if keras else None


def dtype_policy() -> str | None:
    """Return the name of Keras's dtype policy in this thread; None if no Keras is imported, or it has no policy."""
    find = getattr(getattr(_keras(), "mixed_precision", None), "global_policy", None)
    return getattr(find(), "name", None) if find else None


def _keras() -> ModuleType | None:
    """Return the Keras that the script has imported whole, tf_keras first: it may import Keras 3, too."""
    found = (sys.modules.get(name) for name in ("tf_keras", "keras"))
    return next((module for module in found if hasattr(module, "__version__")), None)


def _is_empty(step: Step) -> bool:
    """Decide whether the batch that was read for this step has no example."""
    return step.examples == 0 and step.input > 0
