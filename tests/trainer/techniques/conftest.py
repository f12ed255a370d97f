"""Scripts that train with a technique in processes of their own."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tfscale
from loopback import free_addresses

FOLDER = Path(__file__).parent
SITE = FOLDER.parents[2] / "trainer/tfscale/trainer/probe/entry/site"
REPAIRED = {
    "TFSCALE_REPORT": "/nowhere",
    "TFSCALE_PROBE_PATH": os.pathsep.join(map(str, tfscale.__path__)),
    "PYTHONPATH": os.pathsep.join([str(SITE), str(FOLDER), *filter(None, sys.path)]),
}
"""Variables of an agent, though none listens: Keras 3 does not train over several workers without its repairs."""
Script = Callable[..., Any]


@pytest.fixture(params=["keras", pytest.param("tf_keras", marks=pytest.mark.matrix)])
def keras(request: pytest.FixtureRequest) -> str:
    """Take both Keras versions, one after the other; in CI only Keras 3."""
    return str(request.param)


@pytest.fixture
def run_script(tmp_path: Path) -> Script:
    """Run a script that begins with all of the harness; return what it prints last, as JSON."""

    def run(script: str, keras: str = "keras") -> Any:
        (process,) = _start(tmp_path, script, keras, [{}])
        return _result(process, tmp_path)

    return run


@pytest.fixture
def run_workers(tmp_path: Path) -> Script:
    """Run a script as two workers, and return what worker 0 prints last."""

    return functools.partial(_run_workers, tmp_path)


HANDED = """
from tfscale.trainer.techniques.local_sgd import _averaging

strategy = strategy()
def of(**techniques):
    training = Training(strategy, parts(**techniques))
    return training.handed(), training
plain, _ = of()
accumulated, _ = of(accumulation="4")
narrow, _ = of(wire="bfloat16")
local, training = of(local_sgd="8")
mean = handed(_averaging(strategy, training.model).get_concrete_function())
mixed, _ = of(mixed="bfloat16")
print(json.dumps({"plain": plain, "accumulation": accumulated, "wire": narrow, "local_sgd": local, "mean": mean,
                  "mixed": mixed}))
"""


@pytest.fixture(scope="session")
def handed_bytes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, dict[str, int]]]:
    """Tell by Keras what a step of two workers hands to collectives, by technique: all from one start of them."""
    return functools.cache(lambda keras: _run_workers(tmp_path_factory.mktemp("handed"), HANDED, keras))


@pytest.fixture
def network() -> Iterator[list[str]]:
    """Network of its own, whose loopback nobody else uses: what to put before a command."""
    if os.geteuid() != 0 or not (shutil.which("unshare") and shutil.which("nsenter") and shutil.which("ip")):
        pytest.skip("a network of its own needs root, unshare, nsenter and ip")
    holder = subprocess.Popen(
        ["unshare", "-n", "sh", "-c", "ip link set lo up && echo up && exec sleep 1000"], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"up\n"
    yield ["nsenter", "-t", str(holder.pid), "-n"]
    holder.kill()
    holder.communicate()


def _run_workers(folder: Path, script: str, keras: str = "keras", before: Sequence[str] = ()) -> Any:
    addresses = list(free_addresses(2))
    tasks = [{"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}} for index in range(2)]
    variables = [REPAIRED | {"TF_CONFIG": json.dumps(task)} for task in tasks]
    processes = _start(folder, script, keras, variables, before)
    try:
        first, _ = [_result(process, folder) for process in processes]
        return first
    finally:
        for process in processes:
            process.kill()


def _start(
    folder: Path, script: str, keras: str, variables: Sequence[Mapping[str, str]], before: Sequence[str] = ()
) -> list[subprocess.Popen[str]]:
    path = folder / "script.py"
    path.write_text(f"import json\nfrom harness import *\n\n{script}")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(FOLDER), *filter(None, sys.path)]),
        "TF_USE_LEGACY_KERAS": "1" if keras == "tf_keras" else "0",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }
    started = []
    for number, each in enumerate(variables):
        with (folder / f"stderr{number}").open("w") as stderr:
            command = [*before, sys.executable, path]
            environment |= each
            started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True))
    return started


def _result(process: subprocess.Popen[str], folder: Path) -> Any:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, "\n".join(path.read_text()[-3000:] for path in folder.glob("stderr*"))
    return json.loads(output.splitlines()[-1])
