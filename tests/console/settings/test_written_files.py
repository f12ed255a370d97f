"""No command writes over a file that it reads, nor two outputs to one file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_words import run_command
from simulated_runs import record, simulated
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.errors import UsageError


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = record(tmp_path / "a.tfrec", simulated(3, 2), simulated_spec(2), every=50)
    (tmp_path / "symbolic").symlink_to(path)
    os.link(path, tmp_path / "hard")
    return path


@pytest.mark.parametrize("command", ["report", "export", "replay"])
@pytest.mark.parametrize("other", ["a.tfrec", "symbolic", "hard", "../{}/a.tfrec"])
def test_a_recording_is_not_lost_to_what_is_made_of_it(command: str, other: str, recording: Path) -> None:
    before = recording.read_bytes()
    flag, named = (
        "--log-file" if command == "replay" else "--out",
        recording.parent / other.format(recording.parent.name),
    )
    with pytest.raises(UsageError, match=f"{flag} .*: the recording is the same file"):
        run_command(command, recording, flag, named)
    assert recording.read_bytes() == before


def test_measurements_are_not_lost_to_their_report(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    table.write_text("step,worker,input_s,compute_s,reduce_s,update_s\n")
    with pytest.raises(UsageError, match="--csv is the same file"):
        run_command("report", "--csv", table, "--out", table)
    assert table.stat().st_size


def test_files_that_rotate_do_not_take_the_place_of_the_recording(recording: Path, tmp_path: Path) -> None:
    older = recording.rename(tmp_path / "run.2")
    with pytest.raises(UsageError, match=r"run\.2: the recording is the same file"):
        run_command("export", older, "--out", tmp_path / "run", "--rotate", "1MB")


@pytest.mark.parametrize("flag", ["--record", "--log-file"])
def test_two_outputs_are_two_files(flag: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("x")
    with pytest.raises(UsageError, match="--out is the same file"):
        run_command("--simulate", 2, "--headless", "--out", tmp_path / "x", flag, tmp_path / "link")
    assert not (tmp_path / "x").exists()


def test_the_cluster_file_and_the_keys_are_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key.pem"
    key.write_text("a key")
    (tmp_path / "cluster.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="--key is the same file"):
        run_command("stack", "worker:1", "--ca", "x", "--certificate", "y", "--key", key, "--log-file", key)
    with pytest.raises(UsageError, match="the cluster file is the same file"):
        run_command("--headless", "--out", "cluster.toml")
    assert key.read_text() == "a key"


def test_a_device_is_shared() -> None:
    words = ("--simulate", 1, "--headless", "--seconds", 0.2, "--out", os.devnull, "--log-file", os.devnull)
    assert run_command(*words) == 0
