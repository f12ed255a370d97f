"""Run programs of every strategy with other versions of Python, TensorFlow and Keras, or only look for private names.

    .venv/bin/python scripts/docs/versions.py PYTHON ...
    .venv/bin/python scripts/docs/versions.py --names VERSION|PYTHON ...

Each PYTHON is an interpreter with TensorFlow, tf_keras and TensorBoard, without tfscale: agents and console run from
.venv, and give the probe to the tasks by path. Prints a row of docs/reference/compat.md's table of versions for each.

    python3.12 -m venv /tmp/312-220 && /tmp/312-220/bin/pip install 'tensorflow==2.20.*' 'tf_keras==2.20.*' tensorboard
    .venv/bin/python scripts/docs/versions.py /tmp/312-220/bin/python

With --names nothing is trained: TensorFlow, Keras and tf_keras are asked for every name in trainer/tf_internals.py, and
what they lack is printed. A VERSION such as 2.20 is installed into a temporary environment, which borrows all other
packages from the interpreter that runs this script.

Exit 1 where a program failed or a name is missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "harness"))

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
NAMES_OF = """
import importlib.metadata, platform
from tfscale.trainer.tf_internals import faults, inventory
found = [f"{name} {importlib.metadata.version(name)}" for name in ("tensorflow", "keras", "tf_keras")]
names = sum(len(feature.names) for feature in inventory())
print(f"Python {platform.python_version()}, {', '.join(found)}: {names} names, {len(faults())} features missing")
print(*faults(), sep="\\n", end="\\n" * bool(faults()))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="+")
    parser.add_argument("--names", action="store_true", help="look for the private names alone")
    chosen = parser.parse_args()
    if chosen.names:
        return 0 if False not in [has_names(version) for version in chosen.python] else 1
    pythons = map(Path, chosen.python)
    print("| Python | TensorFlow | Keras |", " | ".join(f"`{name}`" for name in NAMES), "|")
    print("| --- " * (3 + len(NAMES)) + "|", flush=True)
    passed = [row(python.absolute(), keras, place) for python in pythons for place, keras in enumerate(KERAS)]
    return 0 if all(passed) else 1


def has_names(python: str) -> bool:
    """Print what the TensorFlow of an interpreter, or of this version, lacks."""
    if Path(python).exists():
        return asked_for_names(Path(python).absolute())
    with tempfile.TemporaryDirectory() as folder:
        return asked_for_names(installed(python, Path(folder)))


def installed(version: str, folder: Path) -> Path:
    """Return an interpreter in `folder` with this version of TensorFlow and tf_keras, and else our own packages."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    packages = (f"tensorflow=={version}.*", f"tf_keras=={version}.*")
    options = ("--disable-pip-version-check", "--quiet", "--no-deps")
    subprocess.run([python, "-m", "pip", "install", *options, *packages], check=True)
    own = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    borrowed = [path for path in sys.path if path.endswith("site-packages")]
    (Path(own) / "borrowed.pth").write_text("\n".join(borrowed))
    return python


def asked_for_names(python: Path) -> bool:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("core", "trainer"))}
    asked = subprocess.run([python, "-c", NAMES_OF], env=environment, capture_output=True, text=True, check=False)
    print(asked.stdout if asked.returncode == 0 else asked.stderr[-2000:], end="", flush=True)
    return asked.returncode == 0 and asked.stdout.count("\n") == 1


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
