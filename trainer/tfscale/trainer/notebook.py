"""Headline of the own cluster, in a cell of a notebook whose server an agent has started.

from tfscale.trainer.notebook import headline
headline()
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess

from tfscale.trainer.probe.process.agent_variables import agent_variable

_PATIENCE = 30.0
"""Seconds within which the console must answer. It takes some seconds on a busy host; a cell that hangs for minutes
would be interrupted."""


def headline() -> None:
    """Print the console's present first line, or one line about why there is none."""
    print(_headline())


def _headline() -> str:
    command = agent_variable("TFSCALE_CONSOLE")
    if not command:
        return "no agent started this process: start the notebook with tfscale-agent -- jupyter lab"
    # The program's own settings are not the console's, and its folders not the console's packages.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TFSCALE_", "PYTHON"))}
    environment.pop("TF_CONFIG", None)
    words = [*shlex.split(command), "--once"]
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        return str(json.loads(done.stdout)["headline"])
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the console does not answer: {error}"
    except (ValueError, KeyError):
        return (done.stderr.strip() or "the console says nothing").splitlines()[-1]
