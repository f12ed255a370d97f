"""Result of a run: program, speed, loss, and the reduction of gradients that really ran."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from tfscale.trainer.launch.program_flags import write_result

LAST = 10
"""Steps over which the final loss is a mean, the last epoch where only epochs have a loss."""


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that `--json` writes; None is unknown."""

    program: str
    strategy: str
    options: Mapping[str, str | int]
    techniques: Mapping[str, str]
    input: Mapping[str, str]
    """Parts of the input pipeline."""
    loop: str
    keras: str
    """Version, as in `keras 3.15.0`."""
    tensorflow: str
    tasks: Mapping[str, int]
    """Number of tasks by role."""
    replicas: int
    """Replicas that take part in one step."""
    global_batch: int
    """Examples of one step of all replicas."""
    seed: int
    weights: int
    """Trainable weights."""
    begin: int
    """Number of steps in the checkpoint from which this run went on."""
    steps: int
    seconds: float
    """Wall clock of the training, with tracing and compilation."""
    first_steps: int
    """Steps before the rate is measured: one, or an epoch where the end of a step is not seen."""
    first_steps_seconds: float | None
    """Time of the first steps, in seconds; most of it is tracing."""
    steps_per_second: float | None
    """Rate after the first steps."""
    loss: Sequence[tuple[int, float]]
    """Step and loss; the newest 100,000."""
    accuracy: Mapping[str, float]
    """Metrics over held-out examples, on one device."""
    reduction: str | None
    reduction_ops: Mapping[str, int]
    saved: Sequence[str] = ()
    """Files and folders of the trained model."""
    files: Sequence[str] = ()
    """File of the program, with the begin of its digest when it was loaded."""

    @property
    def examples_per_second(self) -> float | None:
        return None if self.steps_per_second is None else self.steps_per_second * self.global_batch

    @property
    def final_loss(self) -> float | None:
        """Mean loss of the last steps."""
        return fmean(last) if (last := self.last_losses) else None

    @property
    def last_losses(self) -> list[float]:
        """Losses of the last steps, or the loss of the last epoch."""
        return [loss for step, loss in self.loss[-LAST:] if step > self.loss[-1][0] - LAST]

    def write(self, path: Path) -> None:
        """Write everything as one JSON object, whole or not at all. Raises TfscaleError where that fails."""
        derived = {"examples_per_second": self.examples_per_second, "final_loss": self.final_loss}
        write_result(path, asdict(self) | derived)


def read_result(path: Path) -> Result:
    """Read a result from the file that `write` has written. Raises OSError, or ValueError for any other file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return Result(**{name: document[name] for name in Result.__dataclass_fields__})


def describe(result: Result) -> str:
    """Return the result as lines to print."""
    techniques = _words(result.techniques)
    tasks = ", ".join(f"{number} {role}" for role, number in result.tasks.items())
    ops = ", ".join(f"{number} {op}" for op, number in result.reduction_ops.items())
    rows = {
        "run": f"{result.program}, {result.strategy}, {result.loop}{f', {techniques}' if techniques else ''}",
        "cluster": f"{tasks}; {result.replicas} replica{'s' * (result.replicas > 1)} in a step",
        "batch": f"{result.global_batch} examples a step",
        "input": _words(result.input),
        "weights": f"{result.weights:,}",
        "steps": f"{result.steps} in {result.seconds:.1f} s{f', after {result.begin} earlier' * (result.begin > 0)}",
        "rate": _rate(result),
        "reduction": (result.reduction or "unknown") + (f" ({ops})" if ops else ""),
        "loss": _loss(result),
    } | {f"held out {name}": _number(value) for name, value in result.accuracy.items()}
    if result.saved:
        rows["saved"] = ", ".join(result.saved)
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items())


def _words(named: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" if value else name for name, value in named.items())


def _rate(result: Result) -> str:
    if result.steps_per_second is None or result.examples_per_second is None:
        return "unknown"
    after = "the first step" if result.first_steps == 1 else f"the first {result.first_steps} steps"
    return f"{result.steps_per_second:.2f} steps/s, {result.examples_per_second:.1f} examples/s after {after}"


def _loss(result: Result) -> str:
    count = len(result.last_losses)
    if not count:
        return "unknown"
    known, span = len(result.loss), result.loss[-1][0] - result.loss[0][0] + 1
    of_epochs = known < span or known == 1 < result.steps
    last = f"{count} {'epochs' if of_epochs else 'steps'}" if count > 1 or not of_epochs else "epoch"
    return f"{_number(result.final_loss)}, mean of the last {last}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"
