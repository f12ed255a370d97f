"""`tfscale-train scale` with real workers, as a user and as the jobs of a queue type it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import measuring_command
import net_hosts
import pytest
from measuring_command import TRAIN, is_clean

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

PROGRAMS = Path(__file__).parents[1] / "programs"
ALONE = PROGRAMS / "compared.py"
ON_HOSTS = """#!/bin/bash
trap 'kill $(jobs -p)' TERM
declare -A enter=({enter})
hosts=$1; shift
for host in ${{hosts//,/ }}; do echo $host >> began; ${{enter[$host]}} "$@" & done
status=0
for job in $(jobs -p); do wait $job || status=$?; done
exit $status
"""
"""A launcher as one writes it around ssh."""


def start(folder: Path, *words: object, is_bound: bool = True) -> subprocess.Popen[str]:
    """Start the command, bound to one core, which several workers must share."""
    bound = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))] if is_bound else []
    return measuring_command.start(folder, [*bound, TRAIN, "scale", *map(str, words)])


def run(folder: Path, *words: object, is_bound: bool = True) -> tuple[int, str, str]:
    ended = start(folder, *words, is_bound=is_bound)
    told, errors = ended.communicate(timeout=600)
    return ended.returncode, told, errors


def test_jobs_measure_a_size_each_and_shared_cores_are_the_verdict(short_path: Path) -> None:
    planned, told, errors = run(
        short_path, "plan", "mlp", "--sizes", "1,4", "--runs", "1", "--steps", "60", "--batch", "1024"
    )
    assert planned == 0, errors
    assert told.splitlines()[1:] == [f"tfscale-train scale {verb}" for verb in ("run 1", "run 4", "report")]
    assert run(short_path, "run", "1")[0] == 0
    early, told, _ = run(short_path, "report")
    assert early == 5 and "not all runs are made yet of: 4" in told
    assert run(short_path, "run", "4")[0] == 0
    assert "goes on after 1 run of an earlier call" in run(short_path, "run", "4")[2]
    status, told, _ = run(short_path, "report", "--json", "out.json")
    assert status == 6, told
    assert "cores were shared: this says nothing about scaling (4 workers have fewer cores than they need; " in told
    found = json.loads((short_path / "out.json").read_text())
    one, four = found["sizes"]
    assert found["cores_were_shared"] and four["shared"] and four["compute"] > 1.05 * one["compute"]
    assert [each["runs"][0]["has_own_cores"] for each in (one, four)] == [True, False]
    assert [each["runs"][0]["examples"] for each in (one, four)] == [1024, 4096]
    assert is_clean(short_path)


def test_workers_that_no_strategy_joins_and_a_script_that_fails(short_path: Path) -> None:
    flags = ("--sizes", "1,2,4", "--runs", "2", "--steps", "25", "--folder")
    words = (sys.executable, ALONE, "--pause", "0.05", "--epochs", "100", "--batch")
    status, told, errors = run(short_path, *flags, "apart", "--", *words, "32")
    assert status == 2 and "no strategy joins these workers" in told, told + errors
    assert "tfscale-train compare --set strategy=multi-worker --set workers=1,2,4 -- " in told
    assert errors.count("run 1, ") == 2 and "tfscale-train: no strategy joins" in errors  # further runs would not help
    status, told, _ = run(short_path, *flags, "failed", "--", *words, "wrong")
    assert status == 1 and "1 worker: exit status 1: ValueError: no batch is called wrong" in told, told
    assert "1  failed" in told and is_clean(short_path)


def test_what_ctrl_c_ends_goes_on(short_path: Path) -> None:
    words = ("digits", "--sizes", "1,2", "--runs", "1", "--steps", "30")
    begun = start(short_path, *words)
    assert begun.stderr is not None
    begun.stderr.readline()
    assert begun.stderr.readline().startswith("run 1, 1 worker: ")
    begun.send_signal(signal.SIGINT)
    told, errors = begun.communicate(timeout=60)
    assert begun.returncode == 130 and not told
    assert "the same command goes on after 1 run" in errors and is_clean(short_path)
    status, told, errors = run(short_path, *words)
    assert status in (0, 6), told
    assert "goes on after 1 run of an earlier call" in errors and "run 1, 1 worker" not in errors


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_workers_on_links_exchange_no_faster_than_these_carry(short_path: Path) -> None:
    words = ("mlp", "--sizes", "1,2", "--runs", "1", "--steps", "25", "--link", "50mbit")
    assert run(short_path, "plan", *words, is_bound=False)[0] == 0
    status, told, errors = run(short_path, "run", "2", is_bound=False)
    assert status == 0, told + errors
    status, told, errors = run(short_path, "report", "--plot", "a.svg", "--json", "out.json")
    assert status == 5, told + errors
    assert ", each in a network namespace that sends 50 Mbit/s" in told and "<svg" in (short_path / "a.svg").read_text()
    _, two = json.loads((short_path / "out.json").read_text())["sizes"]
    assert two["reduced_bytes"] == two["link_bytes"] == 235_146 * 4
    # A full bucket goes at once, in each of the ring's two rounds.
    assert two["reduce"] > (two["link_bytes"] - 2 * 65536) * 8 / 50e6
    assert is_clean(short_path)


@pytest.mark.skipif(bool(net_hosts.missing()), reason=net_hosts.missing())
def test_a_launcher_starts_the_workers_of_a_cluster_file_on_their_hosts(short_path: Path) -> None:
    launcher, addresses = short_path / "on_hosts", [net_hosts.address(host) for host in range(2)]
    workers = json.dumps([f"{address}:2222" for address in addresses])
    (short_path / "c.toml").write_text(f"[cluster]\nworker = {workers}\n")
    words = ("mlp", "--sizes", "1,2", "--runs", "1", "--steps", "25", "--cluster", "c.toml")
    with net_hosts.hosts(2):
        enter = [f"[{address}]='{' '.join(net_hosts.inside(host))}'" for host, address in enumerate(addresses)]
        launcher.write_text(ON_HOSTS.format(enter=" ".join(enter)))
        launcher.chmod(0o755)
        planned, told, errors = run(short_path, "plan", *words, "--launcher", "./on_hosts {hosts}", is_bound=False)
        assert planned == 0 and "1 run a size, on hosts, by ./on_hosts {hosts}" in told, errors
        status, told, errors = run(short_path, "run", "2", is_bound=False)
        assert status == 0, told + errors
        assert (short_path / "began").read_text().split() == addresses
        assert not net_hosts.processes(0) and not net_hosts.processes(1)
    assert run(short_path, "report", "--json", "out.json")[0] == 5
    _, two = json.loads((short_path / "out.json").read_text())["sizes"]
    (measured,) = two["runs"]
    assert set(measured["workers"]) == {"worker:0", "worker:1"} and measured["is_joined"] and not measured["machine"]
    assert is_clean(short_path) and sorted(path.name for path in (short_path / "scaling").iterdir()) == [
        "plan.json",
        "size-2.jsonl",
    ]
