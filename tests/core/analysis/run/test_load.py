from tfscale.core.analysis.findings import Findings, SubjectSummary
from tfscale.core.analysis.run.load import Load, load_of

WORKERS = [SubjectSummary(input=0.01, compute=0.05, update=0.01), SubjectSummary(input=0.03, compute=0.05)]


def test_the_load_is_in_medians_of_what_the_workers_report() -> None:
    load = load_of(Findings(step_time=0.1, transfer=0.2), WORKERS, None)
    assert load == Load(step=0.1, transfer=0.1, input=0.02, compute=0.05 + 0.01, ranks=2)
    assert load_of(Findings(step_time=0.1, transfer=0.2), WORKERS, 8) == Load(0.1, 0.1, 0.02, 0.05 + 0.01, 8)


def test_without_a_measured_step_or_an_all_reduce_there_is_no_load() -> None:
    assert load_of(Findings(transfer=0.2), WORKERS, None) is None
    assert load_of(Findings(step_time=0.1), WORKERS, None) is None
    assert load_of(Findings(step_time=0.1, transfer=0.2), [], None) is None


def test_the_bus_bandwidth_needs_bytes_a_transfer_and_a_peer() -> None:
    assert Load(1.0, 0.5, 0.0, 0.5, ranks=2, payload=1e6).bus == 8 * 2e6
    assert Load(1.0, 0.5, 0.0, 0.5, ranks=2).bus is None
    assert Load(1.0, 0.5, 0.0, 0.5, ranks=1, payload=1e6).bus is None
