"""An agent and a console of one cluster file with `[tls]`, as programs: both follow one rule."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from certificates import authority
from local_cluster import write_cluster


@pytest.mark.parametrize("flags", [["--insecure"], []], ids=["plain text", "TLS"])
def test_a_console_reaches_an_agent_that_has_the_same_flags(flags: list[str], tmp_path: Path) -> None:
    tls = authority(tmp_path, "own")
    path = write_cluster(tmp_path, 1)
    lines = [f'{name} = "{getattr(tls, name)}"' for name in ("ca", "certificate", "key")]
    path.write_text("\n".join([path.read_text(), "[tls]", *lines]))
    both = ["--cluster", str(path), *flags]
    agent_flags = [*both, "--state-dir", str(tmp_path), "--role=worker", "--index=0", "--", "sleep", "60"]
    agent = [sys.executable, "-m", "tfscale.agent.cli", *agent_flags]
    with subprocess.Popen(agent, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        while "serving" not in (line := serving.stderr.readline()):
            assert line
        console = [sys.executable, "-m", "tfscale.console.cli", *both, "--once"]
        done = subprocess.run(console, capture_output=True, text=True, timeout=60)
        serving.terminate()
        serving.stderr.read()
    # 5: it makes no steps, and is no training.
    assert done.returncode in (0, 5), done.stderr
    assert [task["status"]["state"] for task in json.loads(done.stdout)["tasks"]] == ["running"]
