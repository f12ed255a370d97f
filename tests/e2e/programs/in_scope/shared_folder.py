"""Write all that Keras writes, by each worker at one path, and read it back: FOLDER OUT.

`{index}` in FOLDER is the worker's own. What each has found is written to OUT.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

keras = tf.keras
INDEX = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
FOLDER, OUT = Path(sys.argv[1].format(index=INDEX)), Path(sys.argv[2])
strategy = tf.distribute.MultiWorkerMirroredStrategy()
X = np.linspace(-1, 1, 256, dtype=np.float32).reshape(64, 4)
Y = X.sum(axis=1)


class Pause(keras.callbacks.Callback):
    """Pause of one worker before it saves, so that each is once the first."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        time.sleep(1.0 if epoch % 2 == INDEX else 0.0)


class Interruption(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        if epoch == 2:
            raise InterruptedError


def model() -> Any:
    keras.utils.set_random_seed(3)
    with strategy.scope():
        made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(300), keras.layers.Dense(1)])
        made.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    return made


def fit(trained: Any, epochs: int, *callbacks: Any) -> list[int]:
    return list(trained.fit(X, Y, batch_size=16, epochs=epochs, verbose=0, callbacks=[Pause(), *callbacks]).epoch)


def weights(of: Any) -> list[float]:
    return [float(np.abs(each).sum()) for each in of.get_weights()]


def checkpoints() -> dict[str, Any]:
    trained, best = model(), keras.callbacks.ModelCheckpoint
    fit(
        trained,
        4,
        best(str(FOLDER / "new" / "of_{epoch}.weights.h5"), save_weights_only=True),
        best(str(FOLDER / "latest.weights.h5"), save_weights_only=True),
        best(str(FOLDER / "latest.keras")),
        best(str(FOLDER / "best.h5"), monitor="loss", save_best_only=True),
        keras.callbacks.CSVLogger(str(FOLDER / "log.csv")),
        keras.callbacks.TensorBoard(str(FOLDER / "events"), update_freq=1),
    )
    found = [model(), *(keras.models.load_model(FOLDER / name, compile=False) for name in ("latest.keras", "best.h5"))]
    found[0].load_weights(str(FOLDER / "latest.weights.h5"))
    return {"trained": weights(trained), "read": [weights(each) for each in found]}


def saved() -> dict[str, Any]:
    trained = model()
    # A script that follows TensorFlow's guide gives all but the chief another path, and removes it.
    own = FOLDER / f"workertemp_{INDEX}" if INDEX else FOLDER
    for _ in range(2):
        trained.save(FOLDER / "model.keras")
        trained.save_weights(str(FOLDER / "model.weights.h5"))
        trained.save(own / "guide.keras")
        trained.export(str(FOLDER / "exported"), verbose=False)
        trained.export(str(own / "served"), verbose=False)
    there = sorted(path.name for path in own.iterdir())
    if INDEX:
        shutil.rmtree(own)
    read = [keras.models.load_model(FOLDER / "model.keras"), model()]
    read[1].load_weights(str(FOLDER / "model.weights.h5"))
    return {"there": there, "trained": weights(trained), "read": [weights(each) for each in read]}


def restored() -> dict[str, Any]:
    """Return the epochs of a fit that was interrupted after two of four."""
    backup = keras.callbacks.BackupAndRestore(str(FOLDER / "backup"), double_checkpoint=True)
    try:
        fit(model(), 4, backup, Interruption())
    except InterruptedError:
        left = sorted(path.name for path in (FOLDER / "backup").iterdir())
    trained = model()
    return {"left": left, "epochs": fit(trained, 4, backup), "trained": weights(trained)}


FOLDER.mkdir(exist_ok=True)
found = {"checkpoints": checkpoints(), "restored": restored(), "saved": saved()}
found["process"] = os.getpid()
Path(f"{OUT}-{INDEX}").write_text(json.dumps(found))
