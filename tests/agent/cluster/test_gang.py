import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tfscale.agent.cluster import gang as gang_module
from tfscale.agent.cluster.gang import Busy, Gang, GangError, Overtaken, Superseded, Verb
from tfscale.agent.cluster.journal import Intent, Journal
from tfscale.agent.cluster.operation import Operation
from tfscale.agent.cluster.recovery_counts import RecoveryCounts
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.placement.host_failures import HostCount, HostFailures
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.core.records.task_status import Exit, Reason, Stage, TaskState, TaskStatus


class FakeMember:
    """A task that obeys like a real one, and that can be made to hesitate, to fail, or to be out of reach."""

    def __init__(self, name: str, journal: list[str]) -> None:
        self.name, self.journal = name, journal
        self.state, self.own, self.known = TaskState.RUNNING, 1, 1
        self.gate = asyncio.Event()
        self.gate.set()
        self.absent = False
        self.failure: GangError | None = None
        self.exit: Exit | None = None
        self.trouble = ""
        self.ended_for: Verb | None = None
        self.reason = Reason()

    async def check(self, _generation: int, is_start: bool, /) -> None:
        if self.absent:
            raise GangError(f"{self.name} does not answer")
        if self.trouble and is_start:
            raise GangError(f"{self.name} {self.trouble}")

    async def fence(
        self, generation: int, _reason: Reason, unreachable: Callable[[str], None], verb: Verb, /
    ) -> TaskStatus:
        await self._pass(unreachable)
        self.ended_for = verb
        self.known = generation
        if self.own < generation:
            self.state = TaskState.EXITED
        self.journal.append(f"{self.name} stopped for {generation}")
        return TaskStatus(self.state, self.own)

    async def run(self, generation: int, reason: Reason, unreachable: Callable[[str], None], /) -> TaskStatus:
        await self._pass(unreachable)
        self.own, self.state, self.reason = generation, TaskState.RUNNING, reason
        self.journal.append(f"{self.name} runs in {generation}")
        return TaskStatus(self.state, self.own)

    async def _pass(self, unreachable: Callable[[str], None]) -> None:
        if self.absent:
            unreachable(f"{self.name} does not answer")
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure

    async def generation(self) -> int | None:
        return None if self.absent else self.known

    async def status(self) -> TaskStatus | None:
        return None if self.absent else TaskStatus(self.state, self.own, exit=self.exit, started=1.0)


class Setup:
    def __init__(self, spec: ClusterSpec, folder: Path, strategy: str | None = None) -> None:
        self.done: list[str] = []
        self.path = folder / "agent.json"
        self.path.write_text('{"generation": 1, "intent": null}')
        self.journal = Journal(self.path)
        self.members = {task: FakeMember(str(task), self.done) for task in spec.tasks}
        self.spec, self.strategy = spec, strategy
        self.gang = self.next_lead()

    def next_lead(self) -> Gang:
        """Return the gang of an agent that has just read the journal."""
        return Gang(self.spec, Journal(self.path), self.members, lambda: self.strategy)

    def member(self, name: str) -> FakeMember:
        return self.members[Task.parse(name)]


@pytest.fixture(autouse=True)
def _proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gang_module, "_PROOF", 0.2)


@pytest.fixture
def setup(make_cluster: Callable[[int], ClusterSpec], tmp_path: Path) -> Setup:
    return Setup(make_cluster(3), tmp_path)


async def told(operation: Operation) -> list[Stage]:
    return [progress.stage async for progress in operation.progress()]


WORKER_1 = (Task.parse("worker:1"),)


async def test_a_restart_stops_all_before_it_starts_any(setup: Setup) -> None:
    operation = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    stages = await told(operation)
    assert stages[0] is Stage.PLANNED
    assert stages[-1] is Stage.DONE
    assert sorted(setup.done[:3]) == [f"worker:{i} stopped for 2" for i in range(3)]
    assert sorted(setup.done[3:]) == [f"worker:{i} runs in 2" for i in range(3)]
    assert Journal(setup.path).entry.intent is None
    assert Journal(setup.path).entry.generation == 2


async def test_progress_names_each_task_at_each_stage(setup: Setup) -> None:
    operation = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    seen = {(progress.stage, task) async for progress in operation.progress() for task in progress.tasks}
    for stage in (Stage.STOPPING, Stage.STOPPED, Stage.STARTING, Stage.RUNNING):
        assert {task for at, task in seen if at is stage} == set(setup.members)


async def test_the_intent_is_on_disk_before_anything_is_touched(setup: Setup) -> None:
    setup.member("worker:0").gate.clear()
    await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    intent = Journal(setup.path).entry.intent
    assert intent is not None
    assert (intent.verb, intent.generation, intent.starting) == ("restart", 2, False)
    assert intent.tasks == ("worker:0", "worker:1", "worker:2")
    await setup.gang.close()


@pytest.mark.parametrize("phase", ["stopping", "starting"])
async def test_the_next_agent_of_the_lead_goes_on_with_the_same_reason(setup: Setup, phase: str) -> None:
    reason = Reason("slow", restarted_for="worker:1")
    operation = await setup.gang.command(Verb.RESTART, WORKER_1, reason, None)
    if phase == "stopping":
        setup.member("worker:2").gate.clear()
    async for progress in operation.progress():
        if progress.stage is (Stage.STOPPING if phase == "stopping" else Stage.STARTING):
            break
    await setup.gang.close()
    setup.member("worker:2").gate.set()
    heir = setup.next_lead()
    heir.resume()
    assert heir._operation is not None
    assert (await told(heir._operation))[-1] is Stage.DONE
    assert {member.own for member in setup.members.values()} == {2}
    assert {member.reason for member in setup.members.values()} == {reason}


async def test_a_second_restart_is_refused_while_one_is_under_way(setup: Setup) -> None:
    setup.member("worker:2").gate.clear()
    first = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    with pytest.raises(Busy, match="generation 2 is under way"):
        await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    setup.member("worker:2").gate.set()
    assert (await told(first))[-1] is Stage.DONE


async def test_an_agent_out_of_reach_is_named_and_the_restart_waits_for_it(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    peer = setup.member("worker:2")
    operation = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    peer.absent = True
    peer.gate.clear()
    assert (await told(operation))[-1] is Stage.FAILED
    (complaint,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "restart to generation 2: failed worker:2: worker:2 does not answer" in complaint
    assert not any("runs" in line for line in setup.done)
    peer.absent = False
    peer.gate.set()
    assert operation.driver is not None
    await operation.driver
    assert {member.own for member in setup.members.values()} == {2}


async def test_a_newer_restart_takes_the_place_of_one_that_waits(setup: Setup) -> None:
    peer = setup.member("worker:2")
    first = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    peer.absent = True
    peer.gate.clear()
    await told(first)
    peer.absent = False
    peer.gate.set()
    assert (await told(await setup.gang.command(Verb.RESTART, WORKER_1, Reason("again"), None)))[-1] is Stage.DONE
    assert {member.own for member in setup.members.values()} == {3}


@pytest.mark.parametrize(
    ("state", "end", "why"),
    [
        (TaskState.EXITED, Exit(1, None, 1.5), "worker:2 exited 1, 0.5 s after its start; see its log"),
        (TaskState.LOST, None, "worker:2 is lost"),
        (TaskState.EXITED, Exit(0, None, 1.5), None),
        (TaskState.EXITED, Exit(None, 15, 1.5, requested=True), None),
    ],
)
async def test_a_start_is_done_only_when_its_tasks_have_lived_for_a_while(
    setup: Setup, state: TaskState, end: Exit | None, why: str | None
) -> None:
    operation = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    async for progress in operation.progress():
        if progress.stage is Stage.RUNNING and progress.tasks == (Task.parse("worker:2"),):
            setup.member("worker:2").state, setup.member("worker:2").exit = state, end
    assert progress.stage is (Stage.DONE if why is None else Stage.FAILED)
    assert (why or "") in progress.message
    assert Journal(setup.path).entry.intent is None


async def test_a_newer_command_does_not_wait_for_the_proof_of_a_start(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang_module, "_PROOF", 60.0)
    restart = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    await restart.carried_out.wait()
    stop = await setup.gang.command(Verb.STOP, WORKER_1, Reason(), None)
    stages = [(progress.stage, progress.message) async for progress in restart.progress()]
    assert stages[-1] == (Stage.DONE, "not watched for 60 s, since another command came")
    assert (await told(stop))[-1] is Stage.DONE


async def test_the_expected_generation_is_compared(setup: Setup) -> None:
    with pytest.raises(Overtaken, match="generation 1, not 7"):
        await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), 7)
    assert (await told(await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), 1)))[-1] is Stage.DONE


async def test_two_at_once_give_one_restart(setup: Setup) -> None:
    both = [setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), 1) for _ in range(2)]
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["Operation", "Overtaken"]


async def test_a_refusal_is_told_and_leaves_no_intent(setup: Setup) -> None:
    setup.member("worker:2").failure = Overtaken("worker:2 is in generation 9")
    operation = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    assert (await told(operation))[-1] is Stage.FAILED
    assert Journal(setup.path).entry.intent is None
    assert not any("runs" in line for line in setup.done)


async def test_stop_fences_the_gang_and_starts_nothing(setup: Setup) -> None:
    assert (await told(await setup.gang.command(Verb.STOP, WORKER_1, Reason(), None)))[-1] is Stage.DONE
    assert {member.state for member in setup.members.values()} == {TaskState.EXITED}
    assert (await told(await setup.gang.command(Verb.START, WORKER_1, Reason(), None)))[-1] is Stage.DONE
    assert {(member.state, member.own) for member in setup.members.values()} == {(TaskState.RUNNING, 3)}


async def test_start_leaves_what_runs_alone(setup: Setup) -> None:
    assert await told(await setup.gang.command(Verb.START, WORKER_1, Reason(), None)) == [Stage.DONE]
    assert setup.done == []


async def test_the_leads_cold_start_passes_every_peers_generation_and_takes_along_who_is_there(setup: Setup) -> None:
    setup.member("worker:1").known = 9
    setup.member("worker:2").absent = True
    await setup.gang.begin()
    operation = setup.gang._operation
    assert operation is not None
    assert (await told(operation))[-1] is Stage.DONE
    assert [member.own for member in setup.members.values()] == [10, 10, 1]


async def test_a_peer_that_is_ahead_is_overtaken(setup: Setup) -> None:
    setup.member("worker:2").known = 40
    assert (await told(await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), 1)))[-1] is Stage.DONE
    assert {member.own for member in setup.members.values()} == {41}


@pytest.mark.parametrize("verb", [Verb.RESTART, Verb.STOP])
async def test_a_command_that_cannot_be_carried_out_costs_nothing(setup: Setup, verb: Verb) -> None:
    setup.member("worker:2").absent = True
    setup.member("worker:0").trouble = "cannot be started"
    with pytest.raises(GangError, match=r"nothing was stopped, .*worker:2 does not answer") as caught:
        await setup.gang.command(verb, WORKER_1, Reason("slow"), None)
    assert ("worker:0 cannot be started" in str(caught.value)) is (verb is Verb.RESTART)
    assert setup.done == [] and Journal(setup.path).entry.generation == 1


async def test_a_start_stops_nothing_that_runs(setup: Setup) -> None:
    setup.member("worker:1").state = TaskState.EXITED
    with pytest.raises(GangError, match="worker:0, worker:2 would have to begin anew: restart instead"):
        await setup.gang.command(Verb.START, WORKER_1, Reason(), None)
    assert setup.done == []


async def test_a_task_of_another_cluster_is_refused(setup: Setup) -> None:
    with pytest.raises(UsageError, match="worker:7: the cluster has no such task"):
        await setup.gang.command(Verb.RESTART, [Task.parse("worker:7")], "", None)


@pytest.fixture
def servers(tmp_path: Path) -> Setup:
    """Return a chief with two workers and a parameter server."""
    tasks = [Task.parse(name) for name in ("chief:0", "worker:0", "worker:1", "ps:0")]
    addresses = {task: Address("127.0.0.1", 2000 + number) for number, task in enumerate(tasks)}
    return Setup(ClusterSpec("test", addresses, addresses), tmp_path)


async def test_whoever_served_a_finished_chief_is_stopped(servers: Setup) -> None:
    servers.member("chief:0").state = TaskState.EXITED
    servers.member("worker:1").state = TaskState.LOST
    operation = await servers.gang.finish()
    assert operation is not None
    assert (await told(operation))[-1] is Stage.DONE
    assert sorted(servers.done) == ["ps:0 stopped for 2", "worker:0 stopped for 2"]
    assert operation.intent.reason == "chief:0 has finished"
    assert servers.member("ps:0").ended_for is Verb.FINISH
    assert await servers.gang.finish() is None


async def test_a_finished_chief_waits_for_the_command_under_way(servers: Setup) -> None:
    servers.member("worker:1").gate.clear()
    restart = await servers.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    finish = asyncio.create_task(servers.gang.finish())
    await asyncio.sleep(0.05)
    assert not finish.done()
    servers.member("worker:1").gate.set()
    operation = await finish
    assert operation is not None
    assert (await told(restart))[-1] is (await told(operation))[-1] is Stage.DONE
    assert sorted(servers.done[-3:]) == ["ps:0 stopped for 3", "worker:0 stopped for 3", "worker:1 stopped for 3"]


async def test_workers_of_a_synchronous_gang_end_by_themselves(setup: Setup) -> None:
    assert await setup.gang.finish() is None


class FakePlacer:
    """Agreement without other agents, which tells what it is asked in the order of the members' own words."""

    def __init__(self, done: list[str]) -> None:
        self.done = done
        self.agreed = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.majority = asyncio.Event()
        self.majority.set()

    async def newest(self) -> int:
        if not self.majority.is_set():
            raise GangError("1 of 3 agents answers")
        return self.agreed

    async def agree(self, intent: Intent, _counts: RecoveryCounts, _failed_in: int | None, /) -> None:
        if self.agreed >= intent.generation:
            raise Overtaken(f"a command of generation {self.agreed} came first")
        self.agreed = intent.generation

    async def confirm(self, generation: int, /) -> None:
        await self.majority.wait()
        if self.agreed > generation:
            raise Superseded(f"a newer command, of generation {self.agreed}")

    async def hand_over(self, placement: str, reason: Reason, /) -> None:
        await self.gate.wait()
        self.done.append(f"handed over {placement} ({reason.text})")

    def follow(self) -> None:
        self.done.append("followed")


def moving(setup: Setup) -> FakePlacer:
    setup.gang.placer = FakePlacer(setup.done)
    return setup.gang.placer


def placement_in(generation: int) -> str:
    return f"placement {generation}"


async def test_a_move_stops_what_answers_then_tells_the_placement_and_starts_nothing_here(setup: Setup) -> None:
    moving(setup)
    setup.member("worker:1").absent = True
    living = (Task.parse("worker:0"), Task.parse("worker:2"))
    operation = await setup.gang.move(living, Reason("without worker:1"), placement_in)
    assert (await told(operation))[-1] is Stage.DONE
    await operation.carried_out.wait()
    assert sorted(setup.done[:2]) == ["worker:0 stopped for 2", "worker:2 stopped for 2"]
    assert setup.done[2:] == ["handed over placement 2 (without worker:1)", "followed"]
    assert Journal(setup.path).entry.intent is None


async def test_the_next_lead_hands_a_placement_over_that_the_last_one_could_not(setup: Setup) -> None:
    moving(setup).gate.clear()
    living = (Task.parse("worker:0"), Task.parse("worker:2"))
    await setup.gang.move(living, Reason("without worker:1"), placement_in)
    await asyncio.sleep(0.1)
    await setup.gang.close()
    assert "followed" not in setup.done
    setup.gang = setup.next_lead()
    moving(setup)
    setup.gang.resume()
    assert setup.gang._operation is not None
    assert (await told(setup.gang._operation))[-1] is Stage.DONE
    assert setup.done[-2:] == ["handed over placement 2 (without worker:1)", "followed"]


async def test_a_move_costs_nothing_where_a_task_cannot_be_stopped(setup: Setup) -> None:
    moving(setup)
    setup.member("worker:2").absent = True
    with pytest.raises(GangError, match="worker:2 does not answer"):
        await setup.gang.move(tuple(setup.members), Reason("without nobody"), placement_in)
    assert setup.done == []


async def test_without_a_majority_nothing_is_stopped(setup: Setup) -> None:
    moving(setup).majority.clear()
    with pytest.raises(GangError, match="1 of 3 agents answers"):
        await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    assert setup.done == []


async def test_a_command_is_above_all_that_agents_agreed_on(setup: Setup) -> None:
    moving(setup).agreed = 7
    operation = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    assert operation.intent.generation == 8


@pytest.mark.parametrize("resumed", [False, True])
async def test_a_lead_in_whose_place_another_one_gave_a_command_starts_nothing(setup: Setup, resumed: bool) -> None:
    setup.member("worker:1").gate.clear()
    placer = moving(setup)
    operation = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    await asyncio.sleep(0.05)
    if resumed:
        await setup.gang.close()
        setup.gang = setup.next_lead()
        placer = moving(setup)
    before = list(setup.done)
    placer.agreed = 3
    setup.member("worker:1").gate.set()
    if resumed:
        setup.gang.resume()
        assert setup.gang._operation is not None
        operation = setup.gang._operation
    assert (await told(operation))[-1] is Stage.FAILED
    assert not [each for each in setup.done[len(before) :] if "runs in" in each]
    assert Journal(setup.path).entry.intent is None


async def test_a_lead_without_a_majority_waits_before_it_starts_what_it_stopped(setup: Setup) -> None:
    setup.member("worker:1").gate.clear()
    placer = moving(setup)
    operation = await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    placer.majority.clear()
    setup.member("worker:1").gate.set()
    await asyncio.sleep(0.1)
    assert not [each for each in setup.done if "runs in" in each]
    placer.majority.set()
    assert (await told(operation))[-1] is Stage.DONE
    assert [each for each in setup.done if "runs in" in each]


async def test_the_failures_of_an_uncordoned_host_count_anew(setup: Setup) -> None:
    once, twice = HostCount((1.0,), 1), HostCount((1.0, 2.0), 1)
    await setup.journal.count(lambda own: replace(own, hosts=HostFailures({"host-a": twice, "host-b": once})))
    await setup.next_lead().forgive("host-a")
    hosts = Journal(setup.path).entry.counts.hosts.by_host
    assert {host: len(count.times) for host, count in hosts.items()} == {"host-b": 1, "host-a": 0}


async def test_a_stop_whose_number_another_command_had_is_repeated_above_it(setup: Setup) -> None:
    setup.member("worker:2").own = 2  # started by another lead, which gave the same number
    operation = await setup.gang.command(Verb.STOP, WORKER_1, Reason("enough"), None)
    assert (await told(operation))[-1] is Stage.DONE
    assert {member.state for member in setup.members.values()} == {TaskState.EXITED}
    assert Journal(setup.path).entry.generation == 3


async def test_a_command_is_left_to_a_lower_agent_that_is_back(setup: Setup) -> None:
    setup.gang.lower = [Task.parse("worker:0")]
    with pytest.raises(Overtaken, match="the agent of worker:0 is there, and leads: ask it"):
        await setup.gang.command(Verb.RESTART, WORKER_1, Reason("slow"), None)
    assert setup.done == []
