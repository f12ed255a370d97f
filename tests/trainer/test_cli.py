"""The command line of `tfscale-train`, as far as nothing is started."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from tfscale.trainer import cli
from tfscale.trainer.launch.catalogue import entries

MIRRORED = ("run", "digits", "--strategy", "mirrored", "--replicas", "2")
CENTRAL = ("run", "digits", "--strategy", "central-storage")
SERVERS = ("run", "digits", "--strategy", "parameter-server")
OWN = [name for name, entry in entries("program").items() if "main" in entry.functions]
"""Programs with a command line of their own."""


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["list", "--help"]])
def test_every_help_has_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0
    _, examples = capsys.readouterr().out.split("example", 1)
    assert "  tfscale-train " in examples


@pytest.mark.parametrize("program", OWN)
def test_the_help_of_a_program_has_its_own_flags(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", program, "--help"])
    assert ended.value.code == 0 and "--steps N" in capsys.readouterr().out


def test_what_its_modules_refuse_is_known_without_tensorflow_and_they_are_whole_afterwards() -> None:
    """Programs and techniques in a process of their own, where nothing has been imported."""
    script = """
import sys
from tfscale.trainer import cli
assert [cli.main(["run", "digits", "--with", text]) for text in ("accumulation=5", "learning-rate=x")] == [2, 2]
assert [cli.main(["run", name, "--steps", "0"]) for name in sys.argv[1:]] == [2] * len(sys.argv[1:])
left = [name for name in sys.modules if name.startswith(("tensorflow", "sklearn", "tfscale.trainer.programs."))]
assert not left, left
"""
    subprocess.run([sys.executable, "-c", script, *OWN], timeout=240, check=True)


def test_the_chosen_keras_is_looked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tf_keras" else there(name))
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert cli.main(["run", "mlp"]) == 2
    assert capsys.readouterr().err == "tfscale-train: tf_keras is not installed here: pip install 'tfscale[demo]'\n"


def test_run_has_a_flag_for_each_option_of_a_strategy_and_says_whose_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "--reduction X auto, nccl, hierarchical-copy, one-device (mirrored)" in told
    assert "--workers N a number (multi-worker, parameter-server)" in told


def test_list_tells_programs_strategies_and_techniques(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["programs:", "strategies:", "techniques:"]
    assert any(line.split()[:2] == ["multi-worker", "Multi-worker"] for line in lines)
    technique = next(place for place, line in enumerate(lines) if line.startswith("  accumulation  "))
    assert lines[technique + 1].split() == ["accumulation=micro-batches", "of", "a", "step,", "2", "or", "more"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "arguments are required: COMMAND"),
        (["train", "digits"], "invalid choice: 'train'"),
        (["list", "extra"], "unrecognized arguments: extra"),
        (["run"], "arguments are required: PROGRAM"),
        (["run", ""], "there is no program '': use one of"),
        (["run", "--strategy", "mirrored"], "arguments are required: PROGRAM"),
        (["run", "digits", "mlp"], "unrecognized arguments: mlp"),
        (["run", "digits", "--strategy"], "--strategy: expected one argument"),
        (["run", "digits", "--strategy", "Mirrored"], "there is no strategy 'Mirrored': use one of central-storage"),
        (["run", "digits", "--strategy", "mirrored", "--replicas", "two"], "--replicas: invalid int value: 'two'"),
        (["run", "digits", "--strategy", "mirrored", "--replicas", "65"], "--replicas 65: use from 1 to 64"),
        (["run", "digits", "--strategy", "parameter-server", "--shard-bytes", "0"], "--shard-bytes 0: use from 1"),
        (["run", "digits", "--strategy", "parameter-server", "--evaluators", "2"], "--evaluators 2: use from 0 to 1"),
        (["run", "digits", "--steps", "1e3"], "--steps: invalid int value: '1e3'"),
        (["run", "digits", "--json", ""], "argument --json: is empty, name a place"),
        (
            ["run", "digits", "--json", "/proc/x.json"],
            "--json /proc/x.json: no file can be made in /proc: No such file",
        ),
        (["run", "digits", "--save", ""], "argument --save: is empty, name a place"),
        (["run", "pipeline", "--json", "/proc/x.json"], "--json: /proc/x.json: no file can be made in /proc: No such"),
        (["run", "pipeline", "--json", "/"], "argument --json: /: is a folder, name a file in it"),
        (["run", "model-parallel", "--json", ""], "argument --json: is empty, name a place"),
        (["run", "digits", "--tensorboard", ""], "argument --tensorboard: is empty, name a place"),
        (["run", "digits", "--tensorboard", "/dev/null/x"], "--tensorboard /dev/null/x: /dev/null is no folder"),
        (["run", "digits", "--tensorboard", "/proc/x"], "--tensorboard /proc/x: no file can be made in /proc: No such"),
        (["run", "digits", "--checkpoints", "/proc/x"], "--checkpoints /proc/x: no file can be made in /proc: No such"),
        (["run", "digits", "--checkpoints", ""], "argument --checkpoints: is empty, name a place"),
        (["run", "digits", "--checkpoints", "/etc/passwd"], "--checkpoints /etc/passwd: is no folder"),
        (["run", "digits", "--with", ","], "--with ',': names no technique"),
        (["run", "digits", "--with", "=4"], "there is no technique '': use one of accumulation"),
        (["run", "digits", "--with", "Accumulation=4"], "there is no technique 'Accumulation'"),
        (["run", "digits", "--with", "wire=bfloat16"], "--with wire: not with one-device: "),
        (["run", "digits", "--with", "accumulation"], "--with accumulation=: write the number of micro-batches"),
        (
            ["run", "digits", "--with", "accumulation=5"],
            "--with: a replica's batch of 64 examples cannot be cut into 5",
        ),
        (["run", "digits", "--with", "mixed=float8"], "--with mixed=float8: write float16 or bfloat16"),
        (["run", "digits", "--with", "learning-rate=x"], "--with learning-rate=x: write steps of warm-up"),
        ([*MIRRORED, "--with", "top-k=2"], "--with top-k=2: write the share of the entries"),
        ([*MIRRORED, "--with", "wire=float16"], "--with wire=float16: write bfloat16"),
        ([*MIRRORED, "--devices", "CPU:0"], "--replicas and --devices: give one of them"),
        (["run", "digits", "--strategy", "mirrored", "--devices", "GPU:0,GPU:0"], "GPU:0,GPU:0: names a device twice"),
        ([*CENTRAL, "--replicas", "2", "--compute-devices", "CPU:0"], "--compute-devices: give one of them"),
        ([*CENTRAL, "--compute-devices", "GPU:0,GPU:0"], "GPU:0,GPU:0: names a device twice"),
        ([*SERVERS, "--shards", "2"], "--shards 2: only with --partitioner fixed or min-size"),
        ([*SERVERS, "--partitioner", "fixed"], "--partitioner fixed: a variable of Keras 3 cannot be split"),
        (["run", "asynchrony", "--slow", "worker:5=3x"], "--slow worker:5: the workers are 0 to 1"),
        (["run", "asynchrony", "--steps", "8"], "--steps 8: at least 9"),
        (["run", "backup-workers", "--needed", "9"], "--needed 9: from 1 to 3, the number of workers"),
        (["run", "batch-by-speed", "--global-batch", "1"], "--global-batch 1: at least one example for each of 2"),
        (["run", "pipeline", "--layers", "3"], "--layers 3: not divisible by --stages 2"),
        (["run", "tensor-parallel", "--width", "511"], "--width 511: not divisible by --model-parts 2"),
        (["run", "model-parallel", "--steps", "x"], "--steps: 'x' is not a whole number above 0"),
        (["run", "digits", "--slow", "worker:0"], "--slow 'worker:0': write TASK=DELAY"),
        (["run", "digits", "--slow", "ps:0=60ms"], "the tasks that train are worker:0"),
        (["run", "asynchrony", "--workers", "0"], "--workers 0: use 1 to 64 with "),
        (["run", "asynchrony", "--workers", "x"], "--workers: invalid int value: 'x'"),
        (["run", "digits", "--loops", "fit"], "unrecognized arguments: --loops fit"),
        (["run", "digits", "--loop", "for"], "invalid choice: 'for'"),
        (["run", "digits", "--steps", "many"], "invalid int value: 'many'"),
        (["run", "faces"], "there is no program 'faces': use one of asynchrony"),
        (["run", "digits", "--strategy", "mirrored", "--workers", "2"], "--workers: mirrored does not take it"),
        (["run", "digits", "--slow", "worker:1=60ms"], "the tasks that train are worker:0"),
    ],
)
def test_mistakes_are_one_line_and_status_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TF_CONFIG", "TF_USE_LEGACY_KERAS"):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tfscale-train: ") and said in line
