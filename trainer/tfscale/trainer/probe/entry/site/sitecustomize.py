"""First way of the probe into an unmodified script: the agent puts this folder on the task's PYTHONPATH.

Python imports `sitecustomize` at start-up, from the first folder that has it; so this module also runs the user's own,
in Python 3.6, too, in which a script's helpers may run.
"""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

if sys.version_info >= (3, 7):  # noqa: UP036 - older ones cannot read it
    import tfscale_way_in  # noqa: F401 (it enters)

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would double the start-up cost


def _chain() -> None:
    """Run the `sitecustomize` that Python would find without this one."""
    elsewhere = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_chain()
