"""Table of versions in docs/compat.md: a program of each strategy with other versions of Python, TensorFlow and Keras.

    python3.12 -m venv /tmp/312-220 && /tmp/312-220/bin/pip install 'tensorflow==2.20.*' 'tf_keras==2.20.*' tensorboard
    .venv/bin/python scripts/docs/versions.py /tmp/312-220/bin/python ...

Each argument is an interpreter with TensorFlow, tf_keras and TensorBoard, and without tfscale: agents and console run
from .venv, and give the probe to the tasks by path. Prints two rows for each; ends with 1 where a program failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from example_programs import KERAS, PROGRAMS, Program, check, run  # noqa: E402

NAMES = (
    "mirrored_fit",
    "central_storage_fit",
    "multi_worker_fit",
    "multi_worker_custom_loop",
    "parameter_server_fit",
    "parameter_server_custom_loop",
)
CHOSEN = [program for program in PROGRAMS if program.name in NAMES]
VERSIONS = """
import importlib.metadata, platform
print(platform.python_version(), *map(importlib.metadata.version, ("tensorflow", "keras", "tf_keras")))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="+", type=Path)
    pythons = parser.parse_args().python
    print("| Python | TensorFlow | Keras |", " | ".join(f"`{name}`" for name in NAMES), "|")
    print("| --- " * (3 + len(NAMES)) + "|", flush=True)
    passed = [row(python.absolute(), keras, place) for python in pythons for place, keras in enumerate(KERAS)]
    return 0 if all(passed) else 1


def row(python: Path, keras: str, place: int) -> bool:
    found = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True).stdout.split()
    cells = {program.name: cell(program, keras, python) for program in CHOSEN}
    versions = (*found[:2], f"{keras.split()[0]} {found[2 + place]}")
    print("|", " | ".join((*versions, *(cells[name] for name in NAMES))), "|", flush=True)
    return set(cells.values()) == {"runs"}


def cell(program: Program, keras: str, python: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(run(program, keras, Path(folder), str(python)), program, keras)
        except AssertionError as error:
            print(f"{python} {keras} {program.name}: {str(error)[:2000]}", file=sys.stderr)
            return "**fails**"
    return "runs"


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(main())
