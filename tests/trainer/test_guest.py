"""Guest in the script's process: it starts on Python 3.10 with the standard library, NumPy and TensorFlow alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("core", "trainer", "protos")
GUEST = ("trainer/tfscale/trainer/probe", "trainer/tfscale/trainer/compat")
ALONE = ("trainer/tfscale/trainer/measure.py", "trainer/tfscale/trainer/notebook.py")
IMPORT = """
import importlib, importlib.abc, importlib.machinery, sys, types

class Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return thing(name)

def thing(name):
    return Anything(name, (), {"__init__": lambda self, *_, **__: None})

class Guard(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in ("tensorflow", "numpy"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if top not in sys.stdlib_module_names and top not in ("tfscale", "tfscale_way_in"):
            raise ImportError(f"the guest imports {name}")
        if top == "tfscale" and name.endswith("_pb2"):
            raise ImportError(f"the guest imports {name}, which needs a protobuf of its version")
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        module.__getattr__ = lambda name: getattr(thing("root"), name)

sys.meta_path.insert(0, Guard())
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*sorted(module.__file__ for name, module in sys.modules.items()
              if name.startswith("tfscale") and getattr(module, "__file__", None)))
"""


def pythons() -> list[str]:
    """Return this Python and, where the machine has one, the oldest in which the guest runs."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = [*map(str, pyenv.glob("versions/3.10.*/bin/python")), shutil.which("python3.10")]
    return [sys.executable, *[python for python in installed if python][:1]]


def modules() -> list[str]:
    """Return the names of the modules that enter the script's process by themselves."""
    files = [path for folder in GUEST for path in sorted((ROOT / folder).rglob("*.py"))]
    files += [ROOT / path for path in ALONE]
    named = [path.relative_to(ROOT / "trainer").with_suffix("") for path in files if path.name != "__init__.py"]
    return [".".join(path.parts) for path in named if "site" not in path.parts]


def imported(python: str) -> set[str]:
    """Return the files of all modules of tfscale that these modules load, as paths below the root."""
    path = os.pathsep.join(str(ROOT / source) for source in SOURCES)
    done = subprocess.run(
        [python, "-S", "-c", IMPORT, *modules()],
        env={"PYTHONPATH": path, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {str(Path(file).relative_to(ROOT)) for file in done.stdout.split()}


@pytest.mark.parametrize("python", pythons())
def test_the_guest_imports_nothing_but_the_standard_library_numpy_and_tensorflow(python: str) -> None:
    assert "trainer/tfscale/trainer/probe/probe.py" in imported(python)


def test_all_that_the_guest_loads_is_checked_as_python_3_10() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["per-file-target-version"]
    checked = {str(path.relative_to(ROOT)) for pattern in rules for path in ROOT.glob(pattern)}
    loaded = {file for file in imported(sys.executable) if not file.endswith("__init__.py")}
    assert loaded - checked == {"protos/tfscale/v1/report_fields.py"}
    assert set(rules.values()) == {"py310"}
