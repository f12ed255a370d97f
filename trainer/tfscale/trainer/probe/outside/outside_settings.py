"""Settings of `tfscale-train compare` for an unmodified script: defaults of TensorFlow and Keras, set from outside.

A setting holds where the script says nothing itself. Each one that is taken is a line on stderr; so is one that the
script overrules, and one that cannot be set.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tfscale.trainer.probe.outside import narrow_wire
from tfscale.trainer.probe.outside.defaults import take, with_defaults
from tfscale.trainer.probe.outside.given_strategy import NAME as STRATEGY
from tfscale.trainer.probe.outside.given_strategy import GivenStrategy
from tfscale.trainer.probe.outside.input_settings import NAMES as OF_INPUT
from tfscale.trainer.probe.outside.input_settings import InputSettings
from tfscale.trainer.probe.process.agent_variables import agent_variable
from tfscale.trainer.probe.report.json_lines import Lines

_OF_COMPILE = ("jit_compile", "steps_per_execution")


class OutsideSettings:
    """Settings that this process gets, which are put into each module right after its import."""

    def __init__(self) -> None:
        self._wanted: dict[str, Any] = json.loads(agent_variable("TFSCALE_SET") or "{}")
        self._input = InputSettings({name: self._wanted[name] for name in OF_INPUT if name in self._wanted})
        self._strategy = GivenStrategy(self._wanted.get(STRATEGY))

    def put(self, module: Any) -> None:
        """Set what was asked for in a module of TensorFlow or Keras that was just imported. Raises nothing.

        Keras may be imported before TensorFlow is whole, which imports it.
        """
        try:
            if module.__name__ == "tensorflow":
                self._put_in_tensorflow(module)
            elif module.__name__ in ("keras", "tf_keras"):
                self._put_in_keras(module)
        except Exception as error:
            names = ", ".join(self._wanted)
            print(f"tfscale: {names} cannot be set in {module.__name__}: {error!r}", file=sys.stderr)

    def _put_in_tensorflow(self, tensorflow: Any) -> None:
        _put_communication(tensorflow.distribute.MultiWorkerMirroredStrategy, tensorflow, self._wanted)
        self._input.put(tensorflow)
        if narrow_wire.NAME in self._wanted:
            narrow_wire.put(tensorflow)
        self._strategy.put(tensorflow)

    def _put_in_keras(self, keras: Any) -> None:
        if policy := self._wanted.get("precision"):
            keras.mixed_precision.set_global_policy(policy)
            take("precision")
        if of_compile := {name: self._wanted[name] for name in _OF_COMPILE if name in self._wanted}:
            keras.Model.compile = with_defaults(keras.Model.compile, of_compile)
        self._input.put_in_keras(keras)
        utilities = sys.modules.get(f"{keras.__name__}.src.optimizers.utils")
        if narrow_wire.NAME in self._wanted and utilities is not None:
            narrow_wire.put_in_keras_2(sys.modules["tensorflow"], utilities)
        self._strategy.put_in_keras(keras)


def _put_communication(strategy: Any, tensorflow: Any, wanted: dict[str, Any]) -> None:
    options = {name: wanted[name] for name in ("bytes_per_pack", "communication") if name in wanted}
    if not options:
        return
    experimental = tensorflow.distribute.experimental
    made = experimental.CommunicationOptions(
        bytes_per_pack=options.get("bytes_per_pack", 0),
        implementation=experimental.CommunicationImplementation(options.get("communication", "auto").upper()),
    )
    strategy.__init__ = with_defaults(strategy.__init__, {"communication_options": made}, tuple(options))


def steps_file() -> Lines:
    """Return the sink for a file of this process's own in the folder that was asked for."""
    task = agent_variable("TFSCALE_TASK") or ""
    path = Path(agent_variable("TFSCALE_STEPS") or "") / f"{task.replace(':', '-')}.{os.getpid()}.jsonl"
    try:
        return Lines(path, task)
    except OSError as error:
        print(f"tfscale: no steps are written to {path}: {error.strerror}", file=sys.stderr)
        return Lines(Path(os.devnull), task)
