"""Listings in the style of books, as printed: each runs, or one line says why not and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest
from user_programs.listing_run import STOCK, Told, run_listing

pytestmark = [pytest.mark.tensorflow, pytest.mark.alone]

ONE, TWO = {"worker": 1}, {"worker": 2}
SOON = 20.0
"""Seconds until a task must have ended: Python and TensorFlow start in four to eight of them on a busy machine."""
LONG = 60.0


def check_refused(told: Told, line: str, codes: list[int]) -> None:
    """Require one line in the log, and its sentence in `--once` and in the log of the agents."""
    assert told.ended and told.exit_codes() == codes, told.logs
    assert told.lines == [f"tfscale: cannot run: {line}"], told.logs
    assert line in told.once["headline"] and told.sentences == [told.once["headline"]]
    assert told.agents.count(f"exited 1: {line}") == len(codes), told.agents


def check_ran(told: Told, said: str, *notes: str) -> None:
    """Require that it ended well after it had printed something, and that each note is in log, `--once` and agent."""
    assert told.ended and set(told.exit_codes()) == {0}, told.logs
    assert any(said in log for log in told.logs.values()), told.logs
    for note in notes:
        assert any(line.startswith(f"tfscale: {note}") for line in told.lines), told.lines
        assert any(found.startswith(note) for found in told.notes()), told.once
        assert f"the probe: {note}" in told.agents


@pytest.mark.slow
def test_devices_that_are_not_here_are_refused_before_the_first_step(tmp_path: Path) -> None:
    told = run_listing(tmp_path, "two_gpus", ONE, SOON)
    line = (
        "two_gpus.py, line 6: MirroredStrategy: /gpu:0, /gpu:1 are not on this host, which has CPU:0; TensorFlow would "
        "wait for ever in the first reduction: name devices that are here, or leave the list of 2 out to train on all"
    )
    check_refused(told, line, [1])
    assert "Traceback" not in told.logs["worker:0"]


@pytest.mark.slow
def test_a_name_that_was_never_imported_ends_both_workers_with_the_cause(tmp_path: Path) -> None:
    told = run_listing(tmp_path, "no_import", TWO, SOON)
    line = "no_import.py, line 9: 'json' is used and was never imported: write 'import json' at the top"
    check_refused(told, line, [1, 1])
    assert "both tasks failed alike at " in told.once["headline"]


def test_a_script_that_finds_no_gpu_and_trains_nothing_does_not_end_as_if_all_were_well(tmp_path: Path) -> None:
    told = run_listing(tmp_path, "asks_for_gpus", ONE, SOON)
    check_ran(told, "falling back to CPU", "nothing was trained: the script asks for GPUs")
    assert told.once["healthy"] is False
    assert told.once["headline"].startswith("worker:0 has ended without a training step: the script asks for GPUs")


@pytest.mark.matrix
def test_a_tpu_whose_name_does_not_resolve_gets_one_line(tmp_path: Path) -> None:
    told = run_listing(tmp_path, "tpu_name", ONE, SOON)
    (line,) = told.lines
    assert line.startswith("tfscale: cannot run: tpu_name.py, line 5: no TPU to train on (the name 'my-tpu' cannot")
    check_refused(told, line.removeprefix("tfscale: cannot run: "), [1])


@pytest.mark.matrix
def test_names_of_physical_devices_are_taken_for_devices(tmp_path: Path) -> None:
    told = run_listing(tmp_path, "physical_devices", ONE, LONG)
    check_ran(told, "Number of devices: 1", "'/physical_device:CPU:0' is taken for '/device:CPU:0'")


@pytest.mark.matrix
@pytest.mark.parametrize("keras", ["", "1"])
def test_checkpoints_without_an_ending_are_written_and_found_again(keras: str, tmp_path: Path) -> None:
    told = run_listing(tmp_path, "checkpoint_names", ONE, LONG, variables={"TF_USE_LEGACY_KERAS": keras})
    notes = () if keras else ("Keras 3 writes no checkpoint named 'ckpt_{epoch}': it is 'ckpt_{epoch}.weights.h5'",)
    check_ran(told, "same loss True", *notes)


@pytest.mark.matrix
def test_names_of_experimental_modules_that_are_gone_still_work(tmp_path: Path) -> None:
    check_ran(run_listing(tmp_path, "experimental_names", ONE, LONG), "mixed_bfloat16")


@pytest.mark.matrix
def test_index_0_on_all_hosts_trains_in_the_places_that_the_agents_give(tmp_path: Path) -> None:
    told = run_listing(tmp_path, "index_0", TWO, LONG)
    check_ran(told, "worker 0 has trained")
    assert "worker 1 has trained" in told.logs["worker:1"]


@pytest.mark.matrix
def test_two_tasks_in_one_place_are_refused_where_the_scripts_tf_config_is_to_win(tmp_path: Path) -> None:
    told = run_listing(tmp_path, "index_0", TWO, SOON, "--script-tf-config")
    assert "the script claims the place of worker:0, and this is worker:1" in told.once["headline"], told.once
    assert told.logs["worker:1"].count('write "task": {"type": "worker", "index": 1} here') == 1
    second = told.once["tasks"][1]["status"]
    assert second["exit"]["code"] == 1 and second["exit"]["at"] - second["started"] < SOON


@pytest.mark.matrix
def test_a_parameter_server_cluster_without_chief_trains(tmp_path: Path) -> None:
    told = run_listing(tmp_path, "no_chief", {"worker": 2, "ps": 1}, LONG)
    note = "this cluster has no chief: worker:0 serves, and runs the script as coordinator"
    assert "final loss" in told.logs["worker:0"], told.logs
    assert note in told.logs["worker:0"] and any(found.startswith(note) for found in told.notes())
    assert told.ended and told.exit_codes()[0] == 0
    assert {task["status"]["state"] for task in told.once["tasks"]} == {"exited"}


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "roles"), [("two_gpus", ONE), ("no_chief", {"worker": 2, "ps": 1})])
def test_stock_waits_for_ever(name: str, roles: dict[str, int], tmp_path: Path) -> None:
    told = run_listing(tmp_path, name, roles, 25.0, before=STOCK)
    assert not told.ended and told.lines == []


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("physical_devices", "Unknown attribute 'physical_device'"),
        ("checkpoint_names", "must end in `.weights.h5`"),
        ("experimental_names", "has no attribute 'experimental'"),
        ("tpu_name", "urlopen error"),
        ("asks_for_gpus", "falling back to CPU"),
    ],
)
def test_stock_still_does_what_the_errata_say(name: str, said: str, tmp_path: Path) -> None:
    told = run_listing(tmp_path, name, ONE, 60.0, before=STOCK)
    assert told.ended and said in told.logs["worker:0"] and told.lines == []
