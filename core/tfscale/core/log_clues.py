"""Begins of lines and notes by which parts of tfscale tell each other why a program ends or is not measured.

Imports the standard library alone, because the agent's supervisor and the guest import this module.
"""

from __future__ import annotations

EXPLAINED = "tfscale: cannot run: "
"""Begin of the probe's line about a script that cannot go on; the reason and a remedy follow."""
UNTRAINED = "nothing was trained: "
"""Begin of the probe's note about a script that has ended well without a step for a known reason."""
UNMEASURED = "not measured: "
"""Begin of the agent's note about a second process that trains and does not report, or about unknown other tasks."""
UNFIT = "does not fit: "
"""Begin of the probe's note about a hook or a repair that does not fit this TensorFlow or Keras."""
SHOWS_LESS = "shows less: "
"""Begin of such a note about a hook without which steps, phases and the training are as they are with it."""
OWN = "--- tfscale: "
"""Begin of the lines that the shim adds to a task's log."""
TAKEN = "tfscale: set from outside: "
"""Begin of the line about a setting that the script has taken; its name follows."""
OVERRULED = "tfscale: given by the script, not set from outside: "
"""Begin of the line about a setting that the script itself gives; its name follows."""
