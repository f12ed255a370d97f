import pytest
from tfscale.core.cluster.cluster_spec import Address, ClusterSpec
from tfscale.core.cluster.restart import RestartError, governing, keeps_training, plan_finish, plan_restart
from tfscale.core.cluster.task import Task
from tfscale.core.records.probe_status import ProbeState, ProbeStatus


def cluster(*names: str) -> ClusterSpec:
    tasks = sorted(map(Task.parse, names))
    addresses = {task: Address("127.0.0.1", 2000 + number) for number, task in enumerate(tasks)}
    return ClusterSpec("test", addresses, addresses)


WORKERS = cluster("worker:0", "worker:1", "worker:2", "evaluator:0")
CHIEF = cluster("chief:0", "worker:0", "worker:1")
SERVICE = cluster("worker:0", "worker:1", "dispatcher:0", "dataworker:0", "dataworker:1")
PS = cluster("chief:0", "worker:0", "worker:1", "ps:0", "ps:1", "evaluator:0")


@pytest.mark.parametrize(
    ("spec", "strategy", "failed", "together"),
    [
        (WORKERS, "MultiWorkerMirroredStrategy", "worker:1", "worker:0 worker:1 worker:2"),
        (WORKERS, "CollectiveAllReduceStrategyV1", "worker:1", "worker:0 worker:1 worker:2"),
        (WORKERS, None, "worker:1", "worker:0 worker:1 worker:2"),
        (WORKERS, "SomebodysOwnStrategy", "worker:0", "worker:0 worker:1 worker:2"),
        (WORKERS, "MirroredStrategy", "worker:1", "worker:1"),
        (WORKERS, "OneDeviceStrategy", "worker:1", "worker:1"),
        (WORKERS, "_DefaultDistributionStrategy", "worker:1", "worker:1"),
        (WORKERS, None, "evaluator:0", "evaluator:0"),
        (CHIEF, None, "worker:1", "chief:0 worker:0 worker:1"),
        (PS, None, "worker:1", "worker:1"),
        (PS, "ParameterServerStrategyV2", "worker:1", "worker:1"),
        (PS, "ParameterServerStrategyV2", "ps:1", "chief:0 ps:1"),
        (PS, "_DefaultDistributionStrategy", "ps:1", "chief:0 ps:1"),
        (PS, "ParameterServerStrategyV2", "chief:0", "chief:0"),
        (PS, "ParameterServerStrategyV2", "evaluator:0", "evaluator:0"),
        (SERVICE, None, "worker:1", "worker:0 worker:1"),
        (SERVICE, None, "dataworker:0", "dataworker:0"),
        (SERVICE, None, "dispatcher:0", "worker:0 worker:1 dispatcher:0 dataworker:0 dataworker:1"),
        (cluster("worker:0"), None, "worker:0", "worker:0"),
    ],
)
def test_who_restarts_together(spec: ClusterSpec, strategy: str | None, failed: str, together: str) -> None:
    assert " ".join(map(str, plan_restart(spec, strategy, [Task.parse(failed)]))) == together


def test_several_are_united_in_the_clusters_order() -> None:
    planned = plan_restart(PS, None, map(Task.parse, ["ps:0", "worker:1"]))
    assert [str(task) for task in planned] == ["chief:0", "worker:1", "ps:0"]


def test_strangers_and_nobody_are_refused() -> None:
    with pytest.raises(RestartError, match="worker:9: the cluster has no such task"):
        plan_restart(PS, None, [Task.parse("worker:9")])
    with pytest.raises(RestartError, match="name at least one"):
        plan_restart(PS, None, [])


def test_a_chief_that_has_finished_lets_go_of_its_workers_and_servers() -> None:
    assert [str(task) for task in plan_finish(PS, None)] == ["worker:0", "worker:1", "ps:0", "ps:1"]
    assert plan_finish(CHIEF, "MultiWorkerMirroredStrategy") == ()
    assert plan_finish(WORKERS, None) == ()
    assert [str(task) for task in plan_finish(SERVICE, None)] == ["dispatcher:0", "dataworker:0", "dataworker:1"]


@pytest.mark.parametrize(
    ("spec", "strategy", "names", "keeps"),
    [
        (PS, None, ["worker:1"], True),
        (PS, None, ["worker:0", "evaluator:0"], True),
        (PS, None, ["chief:0"], False),
        (PS, None, ["chief:0", "ps:0"], False),
        (PS, "ParameterServerStrategyV2", ["worker:1"], True),
        (WORKERS, None, ["worker:1"], False),
        (WORKERS, "MultiWorkerMirroredStrategy", ["worker:1"], False),
        (WORKERS, None, ["evaluator:0"], True),
        (SERVICE, None, ["dataworker:1"], True),
        (SERVICE, None, ["dispatcher:0"], False),
        (PS, "MirroredStrategy", ["worker:1"], False),
    ],
)
def test_whose_restart_loses_nothing(spec: ClusterSpec, strategy: str | None, names: list[str], keeps: bool) -> None:
    assert keeps_training(spec, strategy, map(Task.parse, names)) is keeps


@pytest.mark.parametrize(
    ("strategy", "replicas", "state", "governed"),
    [
        (None, (1, 1), "measuring", "_DefaultDistributionStrategy"),
        ("MirroredStrategy", (2, 2), "measuring", "_DefaultDistributionStrategy"),
        ("MultiWorkerMirroredStrategy", (1, 1), "measuring", "_DefaultDistributionStrategy"),
        ("MultiWorkerMirroredStrategy", (4, 2), "measuring", "MultiWorkerMirroredStrategy"),
        ("ParameterServerStrategy", (1, 1), "measuring", "ParameterServerStrategy"),
        ("SomebodysOwnStrategy", (1, 1), "measuring", "SomebodysOwnStrategy"),
        ("TPUStrategy", (8, 8), "measuring", "TPUStrategy"),
        ("MultiWorkerMirroredStrategy", (1, 1), "waiting", "MultiWorkerMirroredStrategy"),
        (None, (1, 1), "waiting", None),
        (None, (None, None), "measuring", None),
    ],
)
def test_no_strategy_governs_a_task_whose_measured_replicas_are_all_its_own(
    strategy: str | None, replicas: tuple[int | None, int | None], state: str, governed: str | None
) -> None:
    probe = ProbeStatus(ProbeState(state), strategy=strategy, replicas=replicas[0], local_replicas=replicas[1])
    assert governing(probe) == governed
