"""Last error of a script: a line with a remedy, after Python's own lines or, for an Erratum, in their place.

Standard library alone: a script may fail before it has imported TensorFlow.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import TracebackType

from tfscale.trainer.compat.listings.erratum import Erratum, explain
from tfscale.trainer.compat.listings.written_today import instead_of

_ABBREVIATIONS = {
    "keras": "from tensorflow import keras",
    "layers": "from tensorflow.keras import layers",
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "plt": "import matplotlib.pyplot as plt",
    "tf": "import tensorflow as tf",
    "tfds": "import tensorflow_datasets as tfds",
}


_ADVICE = "_tfscale_advice"

unrepaired: dict[str, str] = {}
"""Lines about repairs that do not fit this TensorFlow or Keras, by a part of the error that each repair prevents."""


def advise(error: BaseException, sentence: str) -> None:
    """Attach a line that is printed if this error ends the script; an attached line stays."""
    if not hasattr(error, _ADVICE):
        setattr(error, _ADVICE, sentence)


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error that nothing has caught, as `sys.excepthook`."""
    if not isinstance(error, Erratum):
        sys.__excepthook__(kind, error, trace)
    if (sentence := advice(error)) is not None:
        explain(f"{_place(trace)}{sentence}")


def advice(error: BaseException) -> str | None:
    """Return a replacement for the line that failed, None where tfscale knows none."""
    if isinstance(attached := getattr(error, _ADVICE, None), str):
        return attached
    if isinstance(error, Erratum):
        return str(error)
    if (fault := next((fault for symptom, fault in unrepaired.items() if symptom in str(error)), None)) is not None:
        return fault
    if isinstance(error, NameError):
        return _missing_import(error.name)
    if isinstance(error, AttributeError):
        owner = getattr(error.obj, "__name__", "") if type(error.obj).__name__ == "module" else ""
        return instead_of(owner, error.name or "")
    if isinstance(error, ValueError | TypeError) and "'lr'" in str(error):
        return "optimizers have no argument 'lr' any more: write learning_rate="
    return None


def _missing_import(name: str | None) -> str | None:
    """Return the line to add for the name of a module that the script uses without having imported it."""
    if not name or not (statement := _ABBREVIATIONS.get(name) or _import_of(name)):
        return None
    return f"'{name}' is used and was never imported: write '{statement}' at the top"


def _import_of(name: str) -> str | None:
    known = name in sys.stdlib_module_names or (name.isidentifier() and importlib.util.find_spec(name) is not None)
    return f"import {name}" if known else None


def _place(trace: TracebackType | None) -> str:
    """Return the innermost line of the script itself, `listing.py, line 12: `."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    own = [frame for frame in traceback.extract_tb(trace) if script and frame.filename == script]
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno}: " if own else ""
