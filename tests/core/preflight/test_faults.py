"""Faults that a checkup shows: each once, with who, where and what to do; and clusters in which there is none."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.recovery_policy import RecoveryPolicy, RestartPolicy
from tfscale.core.cluster.task import Role, Task
from tfscale.core.preflight.checkup import Answer, Checkup, MeasuredTransfer
from tfscale.core.preflight.examination import Contact, Examination, FolderSpace, Program, ResolvedName
from tfscale.core.preflight.faults import faults_of

GB = 10**9
WELL = Examination(
    task_lives=False,
    port=2222,
    port_problem="",
    disks=(
        FolderSpace("working folder", "/job", 100 * GB, 200 * GB),
        FolderSpace("state folder", "/s", 9 * GB, 9 * GB),
    ),
    memory_available=60 * GB,
    memory_total=64 * GB,
    names=(),
    program=Program("/venv/bin/python", "3.11.7", "2.20.0", "3.12.0", "train.py", "ab" * 32),
    gpus=4,
)
W0, W1, W2 = (Task.parse(f"worker:{index}") for index in range(3))
CHIEF, PS = Task.parse("chief:0"), Task.parse("ps:0")


def cluster(*names: str) -> ClusterSpec:
    """Return a cluster of these tasks, each on a host of its own."""
    tasks = {Task.parse(name): Address(f"host-{place}", 2222) for place, name in enumerate(names)}
    return ClusterSpec("test", tasks, {task: Address(at.host, 7070) for task, at in tasks.items()})


MOVING = RecoveryPolicy(dict.fromkeys(Role, RestartPolicy.ON_FAILURE))
THREE = cluster("worker:0", "worker:1", "worker:2")


def checkup(spec: ClusterSpec = THREE, changes: Mapping[Task, Mapping[str, Any]] | None = None) -> Checkup:
    """Return the checkup of a cluster whose hosts are well but for these changes of what is found on them."""
    found = {task: replace(WELL, **(changes or {}).get(task, {})) for task in spec.tasks}
    answers = {
        task: Answer("", each, "run", spec.tasks[task].host, 0.001 * task.index, 0.0005) for task, each in found.items()
    }
    reached = {
        task: tuple(
            Contact(str(other), is_agent, str(at[other]))
            for is_agent, at in ((False, spec.tasks), (True, spec.agents))
            for other in spec.tasks
            if other != task
        )
        for task in spec.tasks
    }
    return Checkup(spec, answers, reached)


def told(checked: Checkup) -> list[str]:
    return [fault.sentence for fault in faults_of(checked)]


@pytest.mark.parametrize(
    "spec",
    [
        cluster("worker:0"),
        THREE,
        cluster("chief:0", "worker:0", "worker:1", "ps:0", "evaluator:0"),
        cluster("worker:0", "dispatcher:0", "dataworker:0"),
    ],
)
def test_where_all_is_well_nothing_is_said(spec: ClusterSpec) -> None:
    assert told(checkup(spec)) == []


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"port_problem": "taken by process 7 (x): end that first"},
            "worker:1: its port host-1:2222 is taken by process 7 (x): end that first",
        ),
        (
            {"memory_available": 9 * 10**8},
            "worker:1: 900 MB of memory available of 64.0 GB: see who uses it",
        ),
        (
            {"disks": (FolderSpace("working folder", "/job", 5 * 10**8, GB),)},
            "worker:1: its working folder /job: 500 MB free: make room",
        ),
        (
            {"disks": (FolderSpace("state folder", "/s", GB, GB, "not writable"),)},
            "worker:1: its state folder /s: not writable: give --state-dir",
        ),
        (
            {"program": replace(WELL.program, tensorflow="", keras="")},
            "worker:1: no TensorFlow in the environment of /venv/bin/python: install it there",
        ),
        (
            {"program": replace(WELL.program, tensorflow="2.19.1")},
            "the version of TensorFlow differs: 2.20.0 on worker:0 and worker:2; 2.19.1 on worker:1: install the same "
            "on all hosts",
        ),
        (
            {"program": replace(WELL.program, script_hash="cd" * 32)},
            "the script of workers differs: abababab on worker:0 and worker:2; cdcdcdcd on worker:1: copy the same "
            "file to all hosts",
        ),
        ({"gpus_seen": 0}, "worker:1: TensorFlow sees 0 of 4 GPUs: see the reason on the task's page"),
        (
            {"visible_devices": "0,1"},
            "the number of GPUs of workers differs: 4 on worker:0 and worker:2; 2 on worker:1: look at drivers and "
            "CUDA_VISIBLE_DEVICES",
        ),
        (
            {"names": (ResolvedName("host-1", ("127.0.1.1",)),)},
            "worker:1: host-1 is 127.0.1.1 there, which no other host reaches: correct /etc/hosts",
        ),
        (
            {"names": (ResolvedName("host-2", (), "Name or service not known"),)},
            "worker:1: host-2 is not known (Name or service not known): add it to /etc/hosts",
        ),
    ],
)
def test_a_fault_of_one_host_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    (fault,) = faults_of(checkup(changes={W1: changes}))
    assert (fault.sentence, fault.tasks) == (sentence, (W1,))


def test_a_patch_of_python_and_a_memory_that_the_task_itself_uses_are_no_faults() -> None:
    patched = {"program": replace(WELL.program, python="3.11.9")}
    assert told(checkup(changes={W1: patched, W2: {"task_lives": True, "memory_available": 10}})) == []


def test_a_script_of_its_own_for_each_role_is_no_fault() -> None:
    spec = cluster("chief:0", "worker:0", "ps:0")
    assert told(checkup(spec, {PS: {"program": replace(WELL.program, script_hash="cd" * 32)}})) == []


def _failed(checked: Checkup, problem: str, *ways: tuple[Task, Task]) -> Checkup:
    contacts = {
        task: tuple(
            replace(each, problem=problem) if (task, Task.parse(each.task)) in ways and not each.is_agent else each
            for each in tried
        )
        for task, tried in checked.contacts.items()
    }
    return replace(checked, contacts=contacts)


def test_a_port_that_nobody_reaches_is_told_once_and_one_that_some_do_not_with_their_names() -> None:
    everybody = _failed(checkup(), "no answer in 3 s", (W0, W1), (W2, W1))
    (only,) = faults_of(everybody)
    assert only.sentence == (
        "nobody reaches worker:1 at host-1:2222: no answer in 3 s: look at the firewall there, and the way to it"
    )
    assert (only.column, only.tasks) == ("reached", (W1,))
    (one,) = told(_failed(checkup(), "no route to host", (W2, W0)))
    assert one.startswith("worker:2 cannot reach worker:0 at host-0:2222: no route to host")


def test_a_refusal_says_nothing_of_a_task_that_lives_or_whose_port_is_not_listened_on() -> None:
    for changes in ({"task_lives": True, "port": 0}, {"port": 0}):
        assert told(_failed(checkup(changes={W1: changes}), "connection refused", (W0, W1), (W2, W1))) == []
    lives = checkup(changes={W1: {"task_lives": True, "port": 0}})
    assert len(told(_failed(lives, "no answer in 3 s", (W0, W1)))) == 1


def test_silent_agents_are_told_by_their_reason() -> None:
    whole = checkup()
    answers = dict(whole.answers) | dict.fromkeys((W1, W2), Answer("connection refused: start it"))
    (only,) = told(replace(whole, answers=answers, contacts={}))
    assert (
        only
        == "no answer of the agent of worker:1 (host-1:7070) and worker:2 (host-2:7070): connection refused: start it"
    )


@pytest.mark.parametrize(
    ("clock", "doubt", "is_apart"), [(0.4, 0.0, False), (3.0, 0.01, True), (-3.0, 0.01, True), (1.0, 0.8, False)]
)
def test_clocks_that_are_apart_are_told_beyond_their_doubt(clock: float, doubt: float, is_apart: bool) -> None:
    whole = checkup()
    answers = {**whole.answers, W1: replace(whole.answers[W1], clock=clock, doubt=doubt)}
    sentences = told(replace(whole, answers=answers))
    assert bool(sentences) is is_apart
    if is_apart:
        assert sentences[0].startswith(
            f"worker:1: its clock is 3.0 s {'ahead of' if clock > 0 else 'behind'} that of worker:"
        )


def test_other_runs_and_other_strategies_are_told() -> None:
    whole = checkup()
    answers = {**whole.answers, W1: replace(whole.answers[W1], run="other")}
    assert told(replace(whole, answers=answers)) == [
        "the run differs: run on worker:0 and worker:2; other on worker:1: give all the same --run"
    ]
    mixed = {W0: {"strategy": "MultiWorkerMirroredStrategy"}, W1: {"strategy": "MirroredStrategy"}}
    assert told(checkup(changes=mixed))[0].startswith("the strategy differs: ")


@pytest.mark.parametrize(
    ("names", "strategy", "words"),
    [
        (("chief:0", "chief:1"), None, "2 chiefs: TensorFlow takes one"),
        (("worker:0", "ps:0"), None, "no chief under ParameterServerStrategy"),
        (("chief:0", "ps:0"), None, "no worker under ParameterServerStrategy: nobody computes"),
        (("chief:0", "worker:0"), "ParameterServerStrategyV2", "no ps under ParameterServerStrategyV2"),
        (("chief:0", "worker:0", "ps:0"), "CollectiveAllReduceStrategy", "ps:0: CollectiveAllReduceStrategy uses no"),
        (("worker:0",), "CollectiveAllReduceStrategy", "one worker alone under CollectiveAllReduceStrategy"),
    ],
)
def test_roles_that_do_not_suit_the_strategy_are_told(names: tuple[str, ...], strategy: str | None, words: str) -> None:
    spec = cluster(*names)
    sentences = told(checkup(spec, {task: {"strategy": strategy} for task in spec.tasks}))
    assert [each for each in sentences if each.startswith(words)] == sentences != []


def test_a_loopback_address_among_several_hosts_is_told() -> None:
    spec = replace(THREE, tasks={**THREE.tasks, W2: Address("127.0.0.1", 2222)})
    (only,) = told(checkup(spec))
    assert only.startswith("worker:2: a loopback address in a cluster of several hosts")


def test_a_slow_transfer_is_told_against_the_others_and_against_what_the_file_says() -> None:
    fast = [MeasuredTransfer(W0, W1, 9.4e9), MeasuredTransfer(W1, W2, 9.2e9)]
    slow = MeasuredTransfer(W2, W0, 0.94e9)
    (only,) = told(replace(checkup(), transfers=(*fast, slow)))
    assert only.startswith("worker:2 to worker:0: 940 Mbit/s, 9.2 Gbit/s between most others")
    limited = replace(THREE, link_speeds={"default": 25e9})
    assert all("25 Gbit/s by [links]" in each for each in told(replace(checkup(limited), transfers=tuple(fast))))
    (failed,) = told(replace(checkup(), transfers=(*fast, replace(slow, rate=None, problem="no answer"))))
    assert failed == "worker:2 to worker:0: not measured: no answer"


def test_a_thousand_workers_are_judged_in_less_than_a_second() -> None:
    spec = cluster(*(f"worker:{index}" for index in range(1000)))
    whole = checkup(cluster("worker:0"))
    answers = {task: replace(next(iter(whole.answers.values())), host=str(task)) for task in spec.tasks}
    tasks = list(spec.tasks)
    contacts = {
        task: tuple(Contact(str(other), False, "a", "no answer in 3 s") for other in tasks[:10]) for task in spec.tasks
    }
    begin = time.process_time()
    faults = faults_of(Checkup(spec, answers, contacts))
    assert time.process_time() - begin < 1
    assert len(faults) == 10 and all(len(fault.sentence) < 300 for fault in faults)


@pytest.mark.parametrize(
    ("hosts", "spares", "recovery", "sentences"),
    [
        (
            2,
            0,
            replace(MOVING, min_workers=1),
            [
                "of two hosts (host-0 and host-1) neither moves a task without the other, also not by hand, because it "
                "may be the one that is cut off: add a third one, as in [spares]"
            ],
        ),
        (
            1,
            1,
            None,
            [
                "of two hosts (host-0 and spare-0) neither moves a task without the other, also not by hand, because "
                "it may be the one that is cut off: add a third one, as in [spares]"
            ],
        ),
        (2, 0, MOVING, []),
        (2, 0, None, []),
        (2, 1, MOVING, []),
        (3, 0, replace(MOVING, min_workers=2), []),
    ],
    ids=["two hosts", "one and a spare", "whose tasks stay", "that nobody restarts", "and a spare", "three hosts"],
)
def test_hosts_that_are_too_few_to_move_tasks_by_themselves_are_told(
    hosts: int, spares: int, recovery: RecoveryPolicy | None, sentences: list[str]
) -> None:
    spec = cluster(*(f"worker:{index}" for index in range(hosts)))
    free = {Address(f"spare-{number}", 7070): Address(f"spare-{number}", 2222) for number in range(spares)}
    found = faults_of(checkup(replace(spec, spares=free, recovery=recovery)))
    assert [each.sentence for each in found] == sentences
