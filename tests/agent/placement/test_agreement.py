"""Agreement on the newest command, among real voters that keep real journals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tfscale.agent.cluster.gang import GangError, Overtaken, TasksEnded, Undecided
from tfscale.agent.cluster.journal import Intent
from tfscale.agent.cluster.recovery_counts import RecoveryCounts
from tfscale.agent.consensus.joining import Joining
from tfscale.agent.consensus.quorum import Quorum
from tfscale.agent.consensus.register import Register
from tfscale.agent.consensus.vote_journal import VoteFile, VoteJournal
from tfscale.agent.consensus.voter import Voter
from tfscale.agent.consensus.votes import Answer, Question, Silence
from tfscale.agent.placement.agreement import AgreedCommand, Agreement
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.file.cluster_file import parse_cluster
from tfscale.core.cluster.placement.electorate import Electorate, electorate_of
from tfscale.core.cluster.placement.placement import Placement, file_placement
from tfscale.core.cluster.task import Task

HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")


class Line:
    """Way to a voter, which can be cut."""

    def __init__(self, voter: Voter) -> None:
        self.voter, self.is_cut = voter, False

    async def ask(self, question: Question) -> Answer:
        return Silence("cut off") if self.is_cut else await self.voter.ask(question)


class Cluster:
    def __init__(self, spec: ClusterSpec, folder: Path) -> None:
        self.spec, self.electorate = spec, electorate_of(spec)
        self.lines = {name: Line(Voter(journal(folder, name, self.electorate))) for name in self.electorate.voters}

    async def found(self) -> None:
        for name, line in self.lines.items():
            await Joining(name, line.voter, self.electorate, Quorum(self.lines), Random()).run()

    def of(self, host: str) -> Agreement:
        """Return the agreement as the agent of a host has it."""
        register = Register(host, self.electorate, Quorum(self.lines), Random(), patience=0.3)
        return Agreement(self.spec, Address(host, 7070), register)


def journal(folder: Path, name: str, electorate: Electorate) -> VoteJournal:
    return VoteJournal(VoteFile(folder / f"{name}.json"), electorate.fingerprint, name)


@pytest.fixture
async def cluster(tmp_path: Path) -> Cluster:
    document = {
        "cluster": {"worker": [f"{host}:2222" for host in HOSTS]},
        "spares": {"agents": ["10.0.0.9:7070"]},
    }
    cluster = Cluster(parse_cluster(document, name="t", where="t", base=Path()), tmp_path)
    await cluster.found()
    return cluster


def intent(generation: int, verb: str = "restart", *tasks: str) -> Intent:
    return Intent(verb, tasks or ("worker:0", "worker:1", "worker:2"), generation, False, "test")


def moved(spec: ClusterSpec, generation: int) -> Placement:
    seats = {**spec.agents, Task.parse("worker:1"): Address("10.0.0.9", 7070)}
    return Placement(generation, seats)


async def test_every_agent_learns_the_newest_command(cluster: Cluster) -> None:
    home = file_placement(cluster.spec)
    assert await cluster.of(HOSTS[0]).newest() is None
    await cluster.of(HOSTS[0]).agree(intent(2), home, home, None)
    placed = moved(cluster.spec, 3)
    slow = RecoveryCounts(slow=("worker:2",))
    await cluster.of(HOSTS[1]).agree(intent(3), placed, home, None, slow)
    command = AgreedCommand(Address(HOSTS[1], 7070), "restart", intent(3).tasks, 3, placed)
    for host in (*HOSTS, "10.0.0.9"):
        newest = await cluster.of(host).newest()
        assert newest == command and newest.counts == slow


async def test_of_two_commands_of_one_generation_the_second_is_refused(cluster: Cluster) -> None:
    home = file_placement(cluster.spec)
    await cluster.of(HOSTS[0]).agree(intent(2), home, home, None)
    await cluster.of(HOSTS[0]).agree(intent(2), home, home, None)  # its own, asked for again
    with pytest.raises(Overtaken, match=r"the agent at 10\.0\.0\.1:7070 gave a command of generation 2"):
        await cluster.of(HOSTS[1]).agree(intent(2), moved(cluster.spec, 2), home, None)


async def test_an_agent_that_was_cut_off_while_tasks_moved_commands_nothing_in_the_old_placement(
    cluster: Cluster,
) -> None:
    home = file_placement(cluster.spec)
    await cluster.of(HOSTS[1]).agree(intent(2), moved(cluster.spec, 2), home, None)
    with pytest.raises(Overtaken, match="tasks were placed anew in generation 2"):
        await cluster.of(HOSTS[0]).agree(intent(3), home, home, None)


@pytest.mark.parametrize("verb", ["stop", "finish"])
async def test_a_failure_of_before_a_stop_restarts_nothing(cluster: Cluster, verb: str) -> None:
    home = file_placement(cluster.spec)
    await cluster.of(HOSTS[0]).agree(intent(5, verb, "worker:1", "worker:2"), home, home, None)
    for tasks in (("worker:0", "worker:1"), ("worker:2",)):
        with pytest.raises(TasksEnded, match="a stop in generation 5 has ended them"):
            await cluster.of(HOSTS[1]).agree(intent(6, "restart", *tasks), home, home, 4)
    await cluster.of(HOSTS[1]).agree(intent(6, "restart", "worker:0"), home, home, 4)
    await cluster.of(HOSTS[1]).agree(intent(7, "restart", "worker:1"), home, home, None)  # an operator may


async def test_what_was_ended_is_known_until_it_is_started(cluster: Cluster) -> None:
    home, agreement = file_placement(cluster.spec), cluster.of(HOSTS[0])

    async def ended() -> dict[str, int]:
        newest = await cluster.of(HOSTS[1]).newest()
        assert newest is not None
        return dict(newest.ended)

    await agreement.agree(intent(2, "stop"), home, home, None)
    await agreement.agree(Intent("uncordon", (), 2, False, "test"), replace(home, revision=1), home, None)
    assert await ended() == dict.fromkeys(intent(2).tasks, 2)
    with pytest.raises(TasksEnded, match="a stop in generation 2 has ended them"):
        await agreement.agree(intent(3), home, replace(home, revision=1), 1)
    await agreement.agree(intent(3, "start", "worker:0"), replace(home, revision=1), replace(home, revision=1), None)
    assert await ended() == {"worker:1": 2, "worker:2": 2}
    await agreement.agree(intent(4, "restart", "worker:2"), moved(cluster.spec, 4), replace(home, revision=1), None)
    assert await ended() == {}


async def test_a_host_is_uncordoned_in_the_generation_of_now(cluster: Cluster) -> None:
    cordoned = replace(file_placement(cluster.spec), cordoned={HOSTS[1]: "failed"})
    await cluster.of(HOSTS[0]).agree(intent(4), cordoned, cordoned, None)
    free = replace(cordoned, cordoned={}, revision=1)
    await cluster.of(HOSTS[0]).agree(intent(4, "uncordon"), free, cordoned, None)
    newest = await cluster.of(HOSTS[2]).newest()
    assert newest is not None and newest.placement == free and newest.generation == 4


async def test_without_a_majority_nothing_is_agreed_on_and_who_is_silent_is_named(cluster: Cluster) -> None:
    home = file_placement(cluster.spec)
    for host in HOSTS[1:]:
        cluster.lines[f"{host}:7070"].is_cut = True
    with pytest.raises(
        GangError, match=r"2 of 3 agents must agree: 10\.0\.0\.2:7070: cut off; 10\.0\.0\.3:7070: cut off"
    ):
        await cluster.of(HOSTS[0]).agree(intent(2), home, home, None)
    for host in HOSTS[1:]:
        cluster.lines[f"{host}:7070"].is_cut = False
    assert await cluster.of(HOSTS[2]).newest() is None


async def test_of_two_hosts_each_refusal_says_that_a_third_one_is_needed(tmp_path: Path) -> None:
    document = {"cluster": {"worker": ["10.0.0.1:2222"]}, "spares": {"agents": ["10.0.0.9:7070"]}}
    pair = Cluster(parse_cluster(document, name="t", where="t", base=Path()), tmp_path)
    await pair.found()
    pair.lines["10.0.0.9:7070"].is_cut = True
    advice = r"of two hosts \(10\.0\.0\.1 and 10\.0\.0\.9\) neither moves a task without the other, also not by hand"
    with pytest.raises(Undecided, match=f"2 of 2 agents must agree: 10.0.0.9:7070: cut off; {advice}"):
        await pair.of("10.0.0.1").newest()


async def test_a_command_to_a_thousand_tasks_fits(tmp_path: Path) -> None:
    workers = [f"gpu-node-{index}.cluster.example.org:2222" for index in range(1000)]
    spec = parse_cluster({"cluster": {"worker": workers}}, name="t", where="t", base=Path())
    cluster, home = Cluster(spec, tmp_path), file_placement(spec)
    await cluster.found()
    agreement = cluster.of("gpu-node-0.cluster.example.org")
    await agreement.agree(intent(2, "restart", *map(str, spec.tasks)), home, home, None)
    newest = await agreement.newest()
    assert newest is not None and newest.placement == home and len(newest.tasks) == 1000


async def test_what_another_version_agreed_on_is_one_clear_line(cluster: Cluster) -> None:
    agreement = cluster.of(HOSTS[0])
    await agreement._register.change(lambda _: b"of the future")
    with pytest.raises(GangError, match=r"the agents have agreed on what this agent cannot read .* one version"):
        await agreement.newest()
