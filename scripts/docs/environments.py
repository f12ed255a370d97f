"""Environments in which people run their scripts: Python, TensorFlow and Keras, made from PyPI and kept."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_NIGHTLY_SECONDS = 24 * 3600.0
"""Age at which an environment with a nightly build is made anew: there is a new build each day."""


_TENSORBOARD = "tensorboard"
"""TensorFlow 2.21 no longer brings it, and its callback is in most scripts."""


@dataclass(frozen=True)
class Environment:
    """Packages of a script's own environment; tfscale is not among them."""

    pythons: tuple[str, ...]
    """Versions of Python for which it has wheels; the first of them that is here is taken."""
    packages: tuple[str, ...]
    keras: str = "keras 3"
    """Keras that `tf.keras` is, as the probe names it without its minor version."""
    keras_nightly: bool = False
    """True where the newest build of Keras takes the place of the one that TensorFlow asks for."""

    @property
    def is_nightly(self) -> bool:
        return self.keras_nightly or any("nightly" in package for package in self.packages)


def _of(version: str, *pythons: str, keras: str = "keras 3", tf_keras: bool = True) -> Environment:
    legacy = (f"tf_keras=={version}.*",) if tf_keras else ()
    return Environment(pythons, (f"tensorflow=={version}.*", *legacy, _TENSORBOARD), keras)


ENVIRONMENTS = {
    "tf2.12": _of("2.12", "3.10", "3.11", keras="keras 2", tf_keras=False),
    "tf2.13": _of("2.13", "3.10", "3.11", keras="keras 2", tf_keras=False),
    "tf2.15": _of("2.15", "3.11", "3.10", keras="keras 2", tf_keras=False),
    "tf2.16": _of("2.16", "3.11", "3.12", "3.10"),
    "tf2.17": _of("2.17", "3.12", "3.11", "3.10"),
    "tf2.18": _of("2.18", "3.11", "3.12", "3.10"),
    "tf2.19": _of("2.19", "3.12", "3.11", "3.10"),
    "tf2.20": _of("2.20", "3.13", "3.12", "3.11", "3.10"),
    "tf2.21": _of("2.21", "3.12", "3.13", "3.11", "3.10"),
    "keras-nightly": Environment(("3.11", "3.12"), ("tensorflow==2.21.*", _TENSORBOARD), keras_nightly=True),
    "tf-nightly": Environment(("3.12", "3.11"), ("--pre", "tf-nightly", "tf-keras-nightly", _TENSORBOARD)),
}
"""All environments, oldest TensorFlow first; the Keras and protobuf of each are those that pip chooses for it."""


NEWEST = "tf-nightly"
"""The environment with the newest build of TensorFlow, which brings that of Keras."""


def turn(commit: str) -> list[str]:
    """Return the environments whose turn it is at a commit: one other, and the newest builds.

    Of the others those count for which there is a Python here, without that of CI's own TensorFlow.
    """
    others = [name for name, each in ENVIRONMENTS.items() if name not in (NEWEST, "tf2.21") and _python(each)]
    return [others[int(commit[:8], 16) % len(others)], NEWEST] if others else [NEWEST]


def _python(environment: Environment) -> str | None:
    """Return the Python to make an environment with; None where none is here."""
    # One that pyenv has, but does not run here, is found as well, and ends with 127.
    found = (path for version in environment.pythons if (path := shutil.which(f"python{version}")))
    return next(
        (each for each in found if not subprocess.run([each, "-c", ""], stderr=subprocess.DEVNULL).returncode), None
    )


def made(name: str, folder: Path) -> Path:
    """Return the interpreter of an environment below `folder`; it is made where it is not there, or a day old.

    Raises OSError where there is no Python for it, CalledProcessError where it cannot be installed.
    """
    environment, place = ENVIRONMENTS[name], folder / name
    mark, python = place / "is-made", place / "bin" / "python"
    if mark.exists() and not (environment.is_nightly and time.time() - mark.stat().st_mtime > _NIGHTLY_SECONDS):
        return python
    shutil.rmtree(place, ignore_errors=True)
    if (interpreter := _python(environment)) is None:
        raise FileNotFoundError(f"needs Python {' or '.join(environment.pythons)}, and none is here")
    subprocess.run([interpreter, "-m", "venv", place], check=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", *environment.packages], check=True)
    if environment.keras_nightly:
        # Both are the package `keras`: files of the one would stay beside those of the other.
        subprocess.run([*pip, "uninstall", "--yes", "keras"], check=True)
        subprocess.run([*pip, "install", "--pre", "--no-deps", "keras-nightly"], check=True)
    mark.touch()
    return python
