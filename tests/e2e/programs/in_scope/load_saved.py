"""Load saved models of `digits` in the scope of each strategy, and outside of any, and predict: FEATURES OUT PATH...

OUT gets predictions by `strategy|path`, or why there are none.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from scopes import IS_FIRST, strategies
from tfscale.trainer.programs import digits


def predict(strategy: Any, path: str, features: np.ndarray) -> np.ndarray:
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        if Path(path).is_dir():
            loaded = tf.saved_model.load(path)
        elif path.endswith(".weights.h5"):
            loaded = digits.build_model(tf.keras)
            loaded.load_weights(path)
        else:
            loaded = tf.keras.models.load_model(path)
    if Path(path).is_dir():
        return np.asarray(serve(strategy, loaded, features))
    return np.asarray(loaded.predict(features, batch_size=64, verbose=0))


def serve(strategy: Any, loaded: Any, features: np.ndarray) -> Any:
    if strategy is None or isinstance(strategy, tf.distribute.ParameterServerStrategy):
        return loaded.serve(tf.constant(features))
    outputs = strategy.run(tf.function(lambda: loaded.serve(tf.constant(features))))
    return strategy.experimental_local_results(outputs)[0]


def main(given: str, out: str, *paths: str) -> None:
    features = np.load(given)
    found: dict[str, np.ndarray] = {}
    for name, strategy in [*strategies(), ("no strategy", None)]:
        for path in paths:
            try:
                found[f"{name}|{path}"] = predict(strategy, path, features)
            except Exception as error:
                found[f"{name}|{path}"] = np.array(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
    if IS_FIRST:
        np.savez(out, **found)


main(*sys.argv[1:])
