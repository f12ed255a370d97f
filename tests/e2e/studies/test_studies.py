"""Arithmetic of the studies, what their files keep, and one small training on a link of known speed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import four_hosts
import host_placement
import net_hosts
import pytest
import ring_formula
import server_counts
import study
import study_figures
from shaped_run import Setting, ShapedRun
from tfscale.core.comparison.ring_volume import volume
from tfscale.core.errors import UsageError

RUN = ShapedRun(
    step=0.4,
    phases={"reduce": 0.35},
    transfer=0.35,
    quick_transfer=0.3,
    payload=7_385_640,
    sent=[7.7e6] * 7,
    received=[7.7e6] * 7,
    moved={},
    steps=40,
    examples=128,
    losses=[(step, 1 / step) for step in range(1, 41)],
)


def test_a_ring_of_two_and_three_takes_what_the_formula_says() -> None:
    assert ring_formula.formula(2, 200e6) == pytest.approx(0.295, abs=1e-3)
    assert ring_formula.formula(3, 200e6) == pytest.approx(0.394, abs=1e-3)


def test_workers_of_a_host_that_are_no_neighbours_share_its_link() -> None:
    assert [host_placement.edges(hosts) for hosts in host_placement.PLACES.values()] == [0, 1, 2, 1]


def test_as_many_servers_as_workers_have_a_link_for_each() -> None:
    one, two, four = (server_counts.server_step(servers) for servers in (1, 2, 4))
    assert one == 2 * two == 4 * four == pytest.approx(0.378, abs=1e-3)


def test_four_workers_gain_nothing_where_their_all_reduce_takes_three_steps_of_one() -> None:
    assert four_hosts.gain(0.1, 0.3) == pytest.approx(1)
    assert four_hosts.break_even(0.1, 0.3) == pytest.approx(four_hosts.SPEED)


def test_an_interval_needs_two_runs() -> None:
    assert study_figures.interval_words([1.1]) == "+10.0% (one run)"
    assert math.isnan(study_figures.interval([1.1])[2])
    assert study_figures.interval_words([1.1, 1.1]) == "+10.0% (+10.0% to +10.0%)"


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("name", study.STUDIES)
def test_runs_of_a_file_are_a_table_and_a_chart_without_a_training(
    name: str, rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "runs.json"
    module = study.importlib.import_module(name)
    monkeypatch.setattr(study, "shaped_run", lambda setting: replace(RUN, step=0.1 + len(setting.hosts) / 10))
    study.made_runs(module.SETTINGS, rounds, kept)
    monkeypatch.setattr(study, "shaped_run", pytest.fail)
    monkeypatch.setattr("sys.argv", ["study", name, "--rounds", str(rounds), "--json", str(kept)])
    monkeypatch.setattr(study, "leave_by_exception", lambda: None)
    assert study.main() == 0
    columns, *rows = (line.count("|") for line in capsys.readouterr().out.splitlines())
    assert columns == len(module.COLUMNS) + 1 and {*rows} == {columns}
    assert len(module.chart(study.made_runs(module.SETTINGS, rounds, kept)).rows) >= 3


def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path) -> None:
    (other := tmp_path / "notes.json").write_text('{"2 workers, 100 Mbit/s": [{"note": 1}]}')
    with pytest.raises(UsageError, match=r"notes\.json: no runs of a study"):
        study.made_runs(ring_formula.SETTINGS, 1, other)
    assert "note" in other.read_text()


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.skipif(bool(net_hosts.missing()), reason=net_hosts.missing())
def test_two_workers_exchange_the_bytes_of_the_formula_and_no_faster_than_their_links() -> None:
    speed, words = 20e6, ["mlp", "--strategy", "multi-worker", "--examples", "256", "--batch", "1", "--steps", "20"]
    run = study.shaped_run(Setting("small", words, {"worker": 2}, (0, 1), {0: speed, 1: speed}))
    assert run.payload == 940_584
    moved = volume(940_584, 2)
    assert all(moved <= sent < 1.2 * moved for sent in run.sent)
    assert run.transfer is not None and run.transfer > 0.95 * 8 * moved / speed
    assert run.step > run.transfer
