"""Devices that `tfscale-agent --replicas N` makes for a script that says nothing of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tfscale.agent.cli import read_settings
from tfscale.core.errors import UsageError
from tfscale.trainer.probe.entry.given_replicas import make_devices

AGENT = Path(sys.executable).parent / "tfscale-agent"
SCRIPT = """
import tensorflow as tf
if {own}:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * {own})
strategy = tf.distribute.MirroredStrategy()
print("replicas", strategy.num_replicas_in_sync, strategy.run(tf.constant, args=(1.0,)))
"""


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize(("own", "replicas"), [(0, 4), (2, 2)])
def test_an_unmodified_script_has_as_many_replicas_unless_it_makes_its_own(
    own: int, replicas: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "mirrored.py").write_text(SCRIPT.format(own=own))
    command = [AGENT, "--replicas", "4", "--", sys.executable, "mirrored.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=240)
    assert f"replicas {replicas} PerReplica" in ran.stdout


def with_gpus(number: int, visible: list[Any]) -> Any:
    """Return the part of TensorFlow that is asked, on a host with GPUs; it notes the visible ones."""
    config = SimpleNamespace(
        list_physical_devices=lambda kind: [f"{kind}:{index}" for index in range(number)],
        set_visible_devices=lambda devices, _: visible.extend(devices),
    )
    return SimpleNamespace(config=config)


def test_on_a_host_with_gpus_they_are_gpus_or_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    visible: list[Any] = []
    monkeypatch.setenv("TFSCALE_DEVICES", "2")
    make_devices(with_gpus(4, visible))
    assert visible == ["GPU:0", "GPU:1"]
    with pytest.raises(SystemExit, match="2"):
        make_devices(with_gpus(1, visible))
    line = "--replicas 2: this host has 1 GPUs, each with one replica; leave it out for all"
    assert capsys.readouterr().err == f"tfscale: cannot run: {line}\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--replicas", "0"), "--replicas: '0' is not a whole number above 0"),
        (("--replicas", "65"), "--replicas: '65' is above 64, the most that is allowed"),
        (
            ("--replicas", "2", "--cluster", "two.toml"),
            "--replicas 2: for a script that runs alone, and this is a task",
        ),
    ],
)
def test_what_cannot_be_is_one_line(words: Sequence[str], line: str, tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text('[cluster]\nworker = ["127.0.0.1:2222", "127.0.0.1:2223"]\n')
    with pytest.raises(UsageError) as refusal:
        read_settings([word.replace("two.toml", str(tmp_path / "two.toml")) for word in (*words, "--", "true")], {})
    assert str(refusal.value).startswith(line)
