"""The manifests of examples/kubernetes: Kubeflow's own models take them, and podman runs their pods."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from real_podman import IMAGE, RealPodman, missing

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "examples" / "kubernetes"
_MODELS = ("kubeflow-training", "kubeflow-trainer-api", "kubernetes-validate")
_READ = """
import json, sys
from types import SimpleNamespace
import kubeflow_trainer_api.models as trainer
import kubernetes_validate
from kubeflow.training.api_client import ApiClient

kind, given = sys.argv[1], json.load(sys.stdin)
if kind == "TFJob":
    ApiClient().deserialize(SimpleNamespace(data=json.dumps(given)), "KubeflowOrgV1TFJob")
elif kind == "JobSet":
    trainer.JobsetV1alpha2JobSet.from_dict(given)
elif kind in {"ClusterTrainingRuntime", "TrainJob"}:
    getattr(trainer, f"TrainerV1alpha1{kind}").from_dict(given)
else:
    kubernetes_validate.validate(given, "1.33", strict=True)
"""
_PROGRAM = """import json, os, signal, sys, time
print("as", json.dumps(json.loads(os.environ["TF_CONFIG"]), sort_keys=True), flush=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
time.sleep(float(os.environ["SECONDS"]))
"""
_KUBELET = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
"""Variable that every container of Kubernetes has."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with Kubeflow's and Kubernetes's own models."""
    folder = tmp_path_factory.mktemp("models")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", *_MODELS], check=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPodman]:
    """Return a podman that has the image of the Containerfile, with a wheel of this tree."""
    if why := missing():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("podman")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "wheels", ROOT]
    subprocess.run(build, check=True)
    made = RealPodman(folder)
    made.build(MANIFESTS / "Containerfile", next((folder / "wheels").iterdir()))
    yield made
    made.end()


@pytest.mark.parametrize("name", ["tfjob", "runtime", "trainjob", "jobset", "network-policy"])
def test_the_model_of_its_kind_takes_a_manifest_and_refuses_a_changed_one(models: Path, name: str) -> None:
    given = _manifest(name)
    taken = _read(models, given)
    assert taken.returncode == 0, taken.stderr
    assert _read(models, {**given, "spec": "x"}).returncode != 0


def test_pods_of_a_tfjob_find_each_other_and_end_with_their_programs(podman: RealPodman) -> None:
    replicas = _manifest("tfjob")["spec"]["tfReplicaSpecs"]
    addresses = [f"digits-worker-{index}:2222" for index in range(replicas["Worker"]["replicas"])]
    pods = [
        _pod(
            f"digits-worker-{index}",
            replicas["Worker"]["template"]["spec"],
            TF_CONFIG=json.dumps(
                {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}, "environment": "cloud"}
            ),
            SECONDS="20",
        )
        for index in range(len(addresses))
    ]
    podman.play(pods)
    assert _states(podman, "digits-worker-1-tensorflow") == {"worker:0": "running", "worker:1": "running"}
    assert [podman.status(f"{pod['metadata']['name']}-tensorflow", 40) for pod in pods] == [0, 0]
    assert f'as {{"cluster": {{"worker": {json.dumps(addresses)}}}' in podman.run("logs", "digits-worker-0-tensorflow")
    podman.remove_pods()


def test_a_trainjobs_nodes_make_tf_config_of_what_the_trainer_tells_them(podman: RealPodman) -> None:
    runtime = _manifest("runtime")["spec"]["template"]["spec"]["replicatedJobs"][0]
    pods = [
        _pod(
            f"digits-node-0-{index}",
            runtime["template"]["spec"]["template"]["spec"],
            PET_NNODES="2",
            PET_NODE_RANK=str(index),
            PET_MASTER_ADDR="digits-node-0-0.dns.podman",
            PET_MASTER_PORT="29400",
            JOB_COMPLETION_INDEX=str(index),
            SECONDS="600",
        )
        for index in range(2)
    ]
    podman.play(pods)
    assert _states(podman, "digits-node-0-1-node") == {"worker:0": "running", "worker:1": "running"}
    podman.run("stop", "--time", "20", "digits-node-0-1-node")
    assert podman.status("digits-node-0-1-node", 5) == 75
    config = '{"cluster": {"worker": ["digits-node-0-0.dns.podman:2222", "digits-node-0-1.dns.podman:2222"]}'
    assert config in podman.run("logs", "digits-node-0-1-node")
    podman.remove_pods()


def _states(podman: RealPodman, container: str) -> dict[str, str]:
    """Return the state of each task, as a console in a pod is told it by the agent there."""
    console = ("/opt/tfscale/bin/tfscale-console", "--agent", "localhost:7070", "--insecure")
    told = podman.run("exec", container, *console, "--once", "--wait", "20", check=False)
    (line,) = (line for line in told.splitlines() if line.startswith("{"))
    return {task["task"]: task["status"]["state"] for task in json.loads(line)["tasks"]}


def _manifest(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text()))


def _read(python: Path, given: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    command = [python, "-c", _READ, given["kind"]]
    return subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)


def _pod(name: str, spec: Mapping[str, Any], **variables: str) -> dict[str, Any]:
    """Return a pod as its controller makes it of a manifest, with another image and program."""
    (container,) = spec["containers"]
    own = [{"name": key, "value": value} for key, value in {**_KUBELET, **variables}.items()]
    program = [*container["args"][: container["args"].index("--") + 1], "python3", "-c", _PROGRAM]
    # Podman publishes ports of a container on the host, where two pods would have the same.
    changed = {**container, "ports": [], "image": IMAGE, "imagePullPolicy": "Never", "args": program, "env": own}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {**spec, "restartPolicy": "Never", "containers": [changed]},
    }
