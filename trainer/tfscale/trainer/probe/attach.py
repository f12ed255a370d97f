"""Called by the way in (`site/sitecustomize.py`) when a module that concerns the probe has been imported."""

from __future__ import annotations

import sys


def attach(module: str) -> None:
    """Hook into what was just imported: TensorFlow, or Keras 3's trainer for its repairs."""
    if module == "tensorflow":
        from tfscale.trainer.probe.probe import Probe
        from tfscale.trainer.probe.reporter import Identity

        Probe(Identity.from_environment()).install()
    else:
        from tfscale.trainer.compat import keras3

        keras3.repair(sys.modules[module])
