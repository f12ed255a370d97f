"""`advise` from a recording, and before a first step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_words import run_command
from simulated_runs import record, simulated
from tfscale.console.advice.first_rules import Facts, facts_of, first_advice, first_lines
from tfscale.console.sources.simulation.simulated import simulated_spec
from tfscale.core.cluster.file.cluster_file import load_cluster
from tfscale.core.errors import UsageError

CLUSTER = '[cluster]\nworker = ["127.0.0.1:1", "127.0.0.1:2"]\n[agents]\n'


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return record(tmp_path / "run.tfrec", simulated(30, 4, "worker:1=1.6x@5s"), simulated_spec(4))


def test_a_recording_has_advice_of_its_newest_measured_moment(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("advise", recording) == 0
    told = capsys.readouterr().out.splitlines()
    assert " a step of 4 workers, of which all-reduce " in told[0]
    assert told[1] == "First, what is wrong:" and told[2].startswith("  worker:1 ")
    numbered = [line for line in told if line.lstrip()[:1].isdigit()]
    assert "worker:1 as fast as the others (+" in numbered[0] and "devices twice as fast" in numbered[-1]


def test_json_has_the_same_remedies(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("advise", recording, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["type"] == "advice" and told["load"]["ranks"] == 4
    first = told["would_help"][0]
    assert first["throughput_factor"] > 1.2 and first["assumes"] == "as long in a step as the median of the others"
    assert all("record" in each and "command" in each for each in told["would_help"])


def test_wrong_words_are_told(recording: Path) -> None:
    with pytest.raises(UsageError, match="leave out what follows --"):
        run_command("advise", recording, "--", "python", "train.py")
    with pytest.raises(UsageError, match="--agent are two runs"):
        run_command("advise", recording, "--agent", "127.0.0.1:1")
    with pytest.raises(UsageError, match="takes one recording"):
        run_command("advise", recording, recording)
    with pytest.raises(UsageError, match=r"other\.tfrec"):
        run_command("advise", recording.with_name("other.tfrec"))


def test_a_run_without_a_predicted_gain_is_told_where_its_findings_are() -> None:
    with pytest.raises(UsageError, match="no remedy has a gain that a model predicts, as most need an all-reduce"):
        run_command("advise", Path(__file__).parents[2] / "data" / "runs" / "parameter-servers.tfrec")


def test_before_a_start_rules_are_told_with_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path := tmp_path / "cluster.toml").write_text(CLUSTER + '"worker:0" = "127.0.0.1:3"\n"worker:1" = "127.0.0.1:4"\n')
    assert run_command("advise", "--cluster", path, "--", "python", "train.py") == 5
    told = capsys.readouterr().out
    assert "GPUs not known, since no agent answers" in told
    assert "tfscale-console run -- python train.py" in told and "MultiWorkerMirroredStrategy" in told


def test_rules_hold_only_of_what_is_known(tmp_path: Path) -> None:
    def sentences(facts: Facts) -> str:
        return " ".join(sentence for sentence, _ in first_advice(facts, ()))

    one = Facts(workers=1, servers=0, has_chief=False, hosts=1)
    assert "MirroredStrategy" not in sentences(one) and "float16" not in sentences(one)
    gpus = Facts(workers=1, servers=0, has_chief=False, hosts=1, gpus=(4,), memory=(1,))
    assert "MirroredStrategy" in sentences(gpus) and "capability 7.0" in sentences(gpus)
    assert "on 1 host (GPUs by host: 4), the simplest" in next(first_lines(gpus, ()))
    unequal = Facts(workers=2, servers=0, has_chief=False, hosts=2, gpus=(1, 1), memory=(100, 200))
    assert "ParameterServerStrategy" in sentences(unequal) and "MultiWorker" not in sentences(unequal)
    slow = Facts(workers=2, servers=0, has_chief=False, hosts=2, slowest=1e9)
    assert "bfloat16 on the wire" in sentences(slow)
    (path := tmp_path / "c.toml").write_text(
        '[cluster]\nworker = ["a:1"]\nps = ["b:1"]\n[links]\ndefault = "1Gbit/s"\n'
    )
    facts = facts_of(load_cluster(path), None)
    assert (facts.workers, facts.servers, facts.hosts, facts.slowest) == (1, 1, 1, 1e9)
    assert "wait for ever" in sentences(facts)
