"""A TrainJob shows how far a real fit is: its agent posts to the Trainer's server, and tells systemd in words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from socket import AF_UNIX, SOCK_DGRAM, socket

import pytest
from kube.status_server import status_server
from local_cluster import ENVIRONMENT

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]
_PROGRAM = """
import time
import keras, numpy
numbers = numpy.ones((60, 4), "float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
slow = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: time.sleep(0.25))
model.fit(numbers, numbers[:, :1], batch_size=1, epochs=2, callbacks=[slow], validation_data=(numbers, numbers[:, :1]))
"""
_READ = """
import json, sys
from kubeflow_trainer_api.models import TrainerV1alpha1UpdateTrainJobStatusRequest as Request
for body in json.load(sys.stdin):
    given = Request.from_dict(body).to_dict()
    assert given.keys() == body.keys() and given["trainerStatus"].keys() == body["trainerStatus"].keys(), given
    print(given["trainerStatus"].get("progressPercentage"))
"""


def test_a_trainjob_and_systemd_are_told_how_far_a_fit_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_PROGRAM)
    with status_server(tmp_path) as server, socket(AF_UNIX, SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(120)
        variables = os.environ | ENVIRONMENT | server.variables | {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        words = [
            sys.executable,
            "-m",
            "tfscale.agent.cli",
            "--state-dir",
            str(tmp_path),
            "--",
            sys.executable,
            "train.py",
        ]
        agent = subprocess.Popen(words, env=variables, cwd=tmp_path, stdout=subprocess.DEVNULL)
        told = [manager.recv(4096).decode()]
        while "has ended" not in told[-1]:
            told.append(manager.recv(4096).decode())
        assert agent.wait(60) == 0
    assert any(" steps/s, epoch 2 of 2, step " in line and "left: done at about" in line for line in told), told
    first, *_, last = server.statuses
    assert first["progressPercentage"] < 50 and (last["progressPercentage"], last["estimatedRemainingSeconds"]) == (
        100,
        0,
    )
    assert {"loss", "val_loss"} <= {each["name"] for each in last["metrics"]}
    models = tmp_path / "models"
    subprocess.run([sys.executable, "-m", "venv", models], check=True)
    subprocess.run([models / "bin" / "pip", "install", "--quiet", "kubeflow-trainer-api"], check=True)
    bodies = json.dumps([body for _, _, body in server.posts])
    read = subprocess.run([models / "bin" / "python", "-c", _READ], input=bodies, text=True, stdout=subprocess.PIPE)
    assert read.returncode == 0 and read.stdout.split()[-1] == "100"
