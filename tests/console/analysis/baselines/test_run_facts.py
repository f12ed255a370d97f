"""Facts of a run: its program, its hardware, and what differs from another one."""

from dataclasses import replace

import pytest
from tfscale.console.analysis.baselines.run_facts import RunFacts, RunIdentity, Work, changes, program_name
from tfscale.core.records.frame import Description, Frame
from tfscale.core.records.host_sample import GpuSample, HostSample
from tfscale.core.records.probe_status import ProbeState, ProbeStatus
from tfscale.core.records.task_status import TaskState, TaskStatus

PROBE = ProbeStatus(ProbeState.MEASURING, strategy="MirroredStrategy", replicas=4, reduced_bytes_per_step=400)


def description(host: str, run: str = "digits") -> Description:
    return Description("1", run, "worker:0", "worker:0", host, "{}", ("python", "/home/a/train.py"), "", 1, 0.0, 1)


def frame(gpus: int = 0, cores: int = 8) -> Frame:
    host = HostSample(0.5, cores, 1.0, 1, 2, 0)
    samples = tuple(GpuSample(index, str(index), "H100") for index in range(gpus))
    return Frame(0, 0.0, TaskStatus(TaskState.RUNNING), host=host, gpus=samples)


def identity(*hosts: str, gpus: int = 0) -> RunIdentity:
    known = RunIdentity()
    for index, host in enumerate(hosts):
        known.describe(f"worker:{index}", description(host))
        known.observe(f"worker:{index}", frame(gpus))
    return known


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "train.py", "--x"), "train.py"),
        (("/usr/bin/python3.11", "-u", "/a/b/train.py"), "train.py"),
        (("python", "-m", "pkg.train", "data.csv"), "-m pkg.train"),
        (("bash", "train.sh"), "bash train.sh"),
        (("./train",), "train"),
        ((), ""),
    ],
)
def test_a_program_is_called_by_its_script(command: tuple[str, ...], name: str) -> None:
    assert program_name(command) == name


def test_a_key_tells_models_hardware_and_the_tasks_of_a_host_apart() -> None:
    names = ["worker:0", "worker:1"]
    apart, together = identity("a", "b", gpus=2).key(names, PROBE), identity("a", "a", gpus=2).key(names, PROBE)
    assert apart is not None and together is not None
    assert apart.program == "train.py, MirroredStrategy, 400 bytes"
    assert (apart.size, apart.hardware) == (4, "8 cores, 2 H100, 1 a host")
    assert together.hardware == "8 cores, 2 H100, 2 a host"


def test_rows_of_sparse_gradients_do_not_make_another_program() -> None:
    few = ProbeStatus(
        ProbeState.MEASURING, reduced_bytes_per_step=500, gathered_bytes_per_step=100, dense_bytes_per_step=9000
    )
    many = ProbeStatus(
        ProbeState.MEASURING, reduced_bytes_per_step=700, gathered_bytes_per_step=300, dense_bytes_per_step=9000
    )
    one = identity("a")
    assert one.key(["worker:0"], few) == one.key(["worker:0"], many)


def test_where_the_model_is_not_known_the_folder_stands_for_it_else_the_run() -> None:
    known, probe = identity("a"), ProbeStatus(ProbeState.MEASURING)
    key = known.key(["worker:0"], probe)
    assert key is not None and key.program == "train.py, no strategy, run digits"
    known.describe("worker:0", replace(description("a"), directory="/home/a"))
    key = known.key(["worker:0"], probe)
    assert key is not None and key.program == "train.py, no strategy, in /home/a"


def test_without_a_host_sample_or_a_description_there_is_no_key() -> None:
    known = RunIdentity()
    known.observe("worker:0", frame())
    assert known.key(["worker:0"], PROBE) is None
    known = RunIdentity()
    known.describe("worker:0", description("a"))
    assert known.key(["worker:0"], PROBE) is None


def test_gpus_that_are_told_later_are_noted() -> None:
    known = identity("a")
    known.observe("worker:0", frame(gpus=8))
    key = known.key(["worker:0"], PROBE)
    assert key is not None and key.hardware == "8 cores, 8 H100, 1 a host"


def test_of_many_hosts_it_is_kept_that_they_are_others() -> None:
    many = identity(*(f"node-{index}" for index in range(100)))
    (told,) = many.facts([f"worker:{index}" for index in range(100)], PROBE).hosts
    assert told.startswith("100 hosts (")


def test_changes_are_told_with_what_was_before() -> None:
    before = RunFacts(
        Work(64, dtype_policy="float32"),
        "2.16.1",
        "Keras 3.4",
        ("python", "train.py", "--lr", "0.1"),
        ("a", "b", "c"),
        "/x",
    )
    now = RunFacts(
        Work(128, 4, dtype_policy="mixed_float16"),
        "2.17.0",
        "Keras 3.5",
        ("python", "train.py", "--lr", "0.2", "--jit"),
        ("a", "b", "d"),
        "/y",
    )
    assert list(changes(before, now)) == [
        "batch 128, before 64",
        "micro-batches 4, before 1",
        "types mixed_float16, before float32",
        "TensorFlow 2.17.0, before 2.16.1",
        "Keras 3.5, before Keras 3.4",
        "arguments 0.2 --jit, before 0.1",
        "working folder /y, before /x",
        "hosts d, before c",
    ]
    assert list(changes(before, before)) == []
    assert list(changes(RunFacts(), now)) == ["micro-batches 4, before 1"]
