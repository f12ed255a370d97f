"""Output of simulated programs: what Keras would have printed, and how each attempt ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tfscale.core.records.frame import Frame
from tfscale.core.records.task_status import TaskState
from tfscale.core.records.training import Training
from tfscale.core.text import exit_phrase, four_digits

_KEPT = 500
"""Lines of a task that are kept: a thousand tasks have as many."""
_EVERY = 50
"""Steps between two lines."""


class SimulatedLog:
    """Log of one simulated task."""

    def __init__(self, epoch: int) -> None:
        """`epoch` is the number of steps of an epoch."""
        self._epoch = epoch
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._printed = 0
        """Number of all lines so far."""
        self._attempt = (0, 0)
        self._step = 0
        self._has_ended = False

    def note(self, frame: Frame) -> None:
        """Print what the program has done since the frame before."""
        status = frame.status
        if (status.generation, status.attempt) != self._attempt:
            self._attempt, self._step, self._has_ended = (status.generation, status.attempt), 0, False
            self._print(f"--- tfscale: generation {status.generation}, attempt {status.attempt}: python train.py")
            self._print(f"Epoch 1/10, {self._epoch} steps")
        if frame.training is not None:
            self._train(frame.training)
        if status.state is TaskState.EXITED and not self._has_ended:
            self._has_ended = True
            for line in status.exit.log if status.exit else ():
                self._print(line)
            self._print(f"--- tfscale: {exit_phrase(status.exit)}")

    def since(self, number: int) -> tuple[Sequence[str], int]:
        """Return the kept lines from line `number` on, and the number of all lines."""
        new = min(self._printed - number, len(self._lines))
        return list(self._lines)[len(self._lines) - new :] if new > 0 else [], self._printed

    def tail(self, count: int) -> tuple[Sequence[str], int]:
        """Return the last `count` lines, and the number of all lines."""
        return self.since(self._printed - count)

    def _train(self, training: Training) -> None:
        step = training.global_step or 0
        for reached in range(self._step - self._step % _EVERY + _EVERY, step + 1, _EVERY):
            epoch, within = divmod(reached, self._epoch)
            loss = "nan" if training.finite is False else four_digits(training.loss)
            logs = "".join(f" - {log.name}: {four_digits(log.value)}" for log in training.logs[:1])
            self._print(f"{within or self._epoch}/{self._epoch} - loss: {loss}{logs}")
            if not within:
                self._print(f"Epoch {epoch + 1}/10, {self._epoch} steps")
        self._step = max(self._step, step)

    def _print(self, line: str) -> None:
        self._lines.append(line)
        self._printed += 1
