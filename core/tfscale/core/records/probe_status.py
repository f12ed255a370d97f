"""State of the probe, and the facts about the program that the probe has found."""

from __future__ import annotations

from dataclasses import dataclass

from tfscale.core.records.schema import Time
from tfscale.core.text_enum import TextEnum

IMPORTING = "is importing TensorFlow"
"""Last words of a LOADED probe's message while the import lasts."""


class ProbeState(TextEnum):
    """State of the probe inside the training process."""

    WAITING = "waiting"
    MEASURING = "measuring"
    DISABLED = "disabled"
    ABSENT = "absent"
    """State of a task whose processes have no probe; the message says why."""
    EXPECTED = "expected"
    """State of a task that has imported no TensorFlow so far, and so no probe; the message names its command."""
    LOADED = "loaded"
    """State of a task that imports or has imported TensorFlow, and has reported no training; the message says which."""


class ActivityKind(TextEnum):
    """Kind of work that a training process does beside its steps."""

    COMPILE = "compile"
    """A graph is traced."""
    CHECKPOINT = "checkpoint"
    """A checkpoint or a model is written or read."""
    EVALUATION = "evaluation"
    """Batches that train nothing."""
    IDLE = "idle"
    """A long time between two steps without any of the other activities."""


@dataclass(frozen=True, slots=True)
class Devices:
    """Accelerators that TensorFlow sees in the training process."""

    gpus_found: int
    """GPUs that TensorFlow has found (physical devices)."""
    gpus: int
    """GPUs that the program uses (logical devices)."""
    tpus: int
    why_no_gpu: str = ""
    """Reason for which TensorFlow has found no GPU, as far as known."""


@dataclass(frozen=True, slots=True)
class ProbeStatus:
    """State of the probe, and facts about the program that it measures."""

    state: ProbeState
    message: str = ""
    """The reason why nothing is measured, or no more."""
    strategy: str | None = None
    replicas: int | None = None
    local_replicas: int | None = None
    ranks: int | None = None
    """Participants of the gradient collective."""
    reduced_bytes_per_step: int | None = None
    """Elements x dtype of the tensors given to the gradient collective."""
    examples_per_step: int | None = None
    """The global batch."""
    gathered_bytes_per_step: int | None = None
    """Part of `reduced_bytes_per_step` that each replica gets from every other replica unsummed (all-gather)."""
    dense_bytes_per_step: int | None = None
    """Bytes of the sparse gradients of a step (IndexedSlices) if they were dense tensors."""
    wire_type: str | None = None
    """Type of most of the reduced bytes, such as `bfloat16`."""
    micro_batches: int | None = None
    """Number of micro-batches that share one all-reduce and one update; None for one."""
    local_steps: int | None = None
    """Number of updates by each replica alone before an all-reduce (local SGD); None for one."""
    dtype_policy: str | None = None
    """Keras's global dtype policy, such as `mixed_bfloat16`."""
    tensorflow: str | None = None
    keras: str | None = None
    warnings: tuple[str, ...] = ()
    collective: str | None = None
    """RING, NCCL or AUTO across hosts, LOCAL within one process."""
    checkpoint: Time | None = None
    """Time at which this task's newest checkpoint was written, also by an attempt before."""
    devices: Devices | None = None
    """Known from the first steps on."""
    empty_since: Time | None = None
    """End of the first of the newest steps in a row without examples; None if the newest step has examples."""
    input_python: float | None = None
    """Seconds of Python within graphs (generators, py_function) for each of the newest steps.

    That Python stands still while the stores of the input are full. Calls that overlap may take longer together than
    the step. None where the program has threads or processes of its own, which may fill a store that is not seen.
    """
    compiled_stamps: bool | None = None
    """True where stamps in graphs are ops of the library that is built when tfscale is installed.

    False where they are TensorFlow's own ops, since that library could not be built or loaded: the same phases, for
    more of the step's time. None as long as no graph has stamps.
    """
    tracked_runs: tuple[str, ...] = ()
    """Runs of experiment trackers to which the program logs: `wandb:ENTITY/PROJECT/ID`, `mlflow:ID`."""
    flops_per_step: int | None = None
    """Floating-point operations of this task's part of a step, forward and backward, as TensorFlow counts its ops.

    At least so many are made: it counts products of matrices, convolutions and most arithmetic, but no `Relu`. None
    before the first steps, for eager steps, and where a step is not one graph.
    """
    flops_uncounted: tuple[str, ...] = ()
    """Types of ops that multiply, and that TensorFlow does not count, such as `CudnnRNNV3`."""
    memory_peaks: tuple[int, ...] = ()
    """Most bytes that TensorFlow has held at once on each GPU that the program uses, in TensorFlow's order of them.

    By TensorFlow's own counter (`tf.config.experimental.get_memory_info`), rounded up to three digits. Empty before
    the first steps, without a GPU, and where this TensorFlow does not count.
    """

    @property
    def peak_of_device(self) -> dict[str, int]:
        """`memory_peaks` by TensorFlow's name of the device: `GPU:0`."""
        return {f"GPU:{index}": peak for index, peak in enumerate(self.memory_peaks)}

    def mfu(self, seconds: float | None, peak: float | None) -> float | None:
        """Return the model FLOPs utilisation of steps of so many seconds: at least this share of the devices' peak.

        `peak` is in FLOP/s, of one device; there is one for each replica of the task. None where one is not known.
        Greater than 1 where the peak is too low. Source: Chowdhery et al., PaLM, 2022, appendix B.
        """
        if self.flops_per_step is None or not seconds or peak is None:
            return None
        return self.flops_per_step / (seconds * (self.local_replicas or 1) * peak)

    @property
    def is_importing(self) -> bool:
        """True while the program imports TensorFlow, as its agent sees it."""
        return self.state is ProbeState.LOADED and self.message.endswith(IMPORTING)


@dataclass(frozen=True, slots=True)
class Collective:
    """Cross-replica reductions entered and left in this attempt; entered > left: the task is inside one."""

    entered: int
    left: int
    entered_at: Time | None = None
    """Time at which the newest collective was entered."""
    between_steps: bool = False
    """True while the task is in a collective outside of any step, such as an epoch's metrics."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Work of the training process beside its steps; its time is in no phase. `end` is None while it lasts."""

    kind: ActivityKind
    begin: Time
    end: Time | None = None
