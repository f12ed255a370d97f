"""Saved models: each strategy saves in each format, and each other strategy loads that and predicts the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compat import in_scope
from example_programs import KERAS
from tfscale.trainer.launch.result import Result, read_result
from training.train_command import run_train

STRATEGIES = {
    "one-device": (),
    "mirrored": ("--replicas", "2"),
    "multi-worker": ("--workers", "2"),
    "parameter-server": ("--workers", "1", "--servers", "2"),
    "central-storage": ("--replicas", "2"),
}
FORMATS = ("model.keras", "model.h5", "model.weights.h5", "model")
Saved = dict[str, Result]
"""Results by strategy; each has saved in all formats in the folder of its name."""


def train(folder: Path, strategy: str, keras: str, *more: str) -> Result:
    """Train a little, and save in all formats into the folder."""
    folder.mkdir(parents=True)
    words = [word for each in FORMATS for word in ("--save", folder / each)]
    asked = ["digits", "--strategy", strategy, *STRATEGIES[strategy], "--steps", "50", *words, *more]
    ended = run_train(*asked, "--json", folder / "result.json", keras=keras, timeout=120)
    assert ended.returncode == 0, ended.stderr
    result = read_result(folder / "result.json")
    assert list(result.saved) == [str(folder / each) for each in FORMATS] and str(folder / FORMATS[0]) in ended.stdout
    return result


@pytest.fixture(scope="module", params=list(KERAS))
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Saved]:
    """Return Keras, folder and results of all strategies."""
    folder = tmp_path_factory.mktemp("saved")
    return request.param, folder, {name: train(folder / name, name, request.param) for name in STRATEGIES}


@pytest.mark.slow
def test_what_mirrored_saves_is_loaded_anywhere_on_this_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = {"mirrored": train(tmp_path / "mirrored", "mirrored", "keras 3")}
    check_loaded(tmp_path, "one host", "keras 3", results, monkeypatch)


@pytest.mark.matrix
@pytest.mark.parametrize("tasks", in_scope.CLUSTERS)
def test_what_each_strategy_saves_each_other_loads(
    saved: tuple[str, Path, Saved], tasks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keras, folder, results = saved
    check_loaded(folder, tasks, keras, results, monkeypatch)


@pytest.mark.matrix
def test_variables_in_parts_are_saved_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ("--partitioner", "min-size", "--shard-bytes", "1000")
    results = {"parameter-server": train(tmp_path / "parameter-server", "parameter-server", "tf_keras 2", *parts)}
    check_loaded(tmp_path, "one host", "tf_keras 2", results, monkeypatch)


def check_loaded(folder: Path, tasks: str, keras: str, results: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that all predictions of what a strategy saved are those of the model that was trained."""
    features, labels = held_out()
    paths = [folder / strategy / each for strategy in results for each in FORMATS]
    loaded = load(folder, tasks, keras, features, paths, monkeypatch)
    scopes = (*in_scope.ON_ONE_HOST, "no strategy") if tasks == "one host" else (tasks, "no strategy")
    assert sorted(loaded) == sorted(f"{scope}|{path}" for scope in scopes for path in paths)
    assert not {name: why for name, why in loaded.items() if isinstance(why, str)}
    for name, predicted in loaded.items():
        strategy = Path(name.partition("|")[2]).parent.name
        assert loss(predicted, labels) == pytest.approx(results[strategy].accuracy["loss"], rel=1e-5), name
        plain = loaded[f"no strategy|{folder / strategy / FORMATS[0]}"]
        assert predicted.shape == (len(labels), 10)
        np.testing.assert_allclose(predicted, plain, rtol=1e-5, atol=1e-5, err_msg=name)


def load(
    folder: Path, tasks: str, keras: str, features: np.ndarray, paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Return predictions by `strategy|path`, or the reason why there are none."""
    np.save(folder / "features.npy", features)
    words = [folder / "features.npy", folder / "loaded.npz", *paths]
    in_scope.run(folder, "load_saved", tasks, keras, words, monkeypatch)
    with np.load(folder / "loaded.npz") as found:
        return {name: each if each.ndim else str(each) for name, each in found.items()}


def held_out() -> Any:
    from tfscale.trainer.input.batches import split
    from tfscale.trainer.programs import digits

    return split(*digits.examples(0))[1]


def loss(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross entropy."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(labels)), labels] - np.log(np.exp(shifted).sum(axis=1))
    return float(-chosen.mean())
