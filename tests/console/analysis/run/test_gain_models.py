import pytest
from tfscale.console.analysis.run import gain_models
from tfscale.core.records.diagnosis import Remedy


def test_the_gains_of_a_step_that_is_half_transfer() -> None:
    assert gain_models.half_the_bytes(0.2, 0.1) == pytest.approx(0.2 / 0.15)
    assert gain_models.faster_link(0.2, 0.1, 4) == pytest.approx(0.2 / 0.125)
    assert gain_models.accumulated(0.2, 0.1, 4) == pytest.approx(0.2 / 0.125)
    assert gain_models.larger_batch(0.2, 0.1, 2) == pytest.approx(2 * 0.2 / 0.3)
    assert gain_models.half_the_compute(0.2, 0.1) == pytest.approx(0.2 / 0.15)


def test_input_beside_training_costs_what_is_longer() -> None:
    assert gain_models.prefetched(0.2, 0.05) == pytest.approx(0.2 / 0.15)
    assert gain_models.prefetched(0.2, 0.15) == pytest.approx(0.2 / 0.15)


def test_more_workers_by_the_ring() -> None:
    assert gain_models.more_workers(0.2, 0.1, 2, 4) == pytest.approx(4 / (0.1 + 0.15) / (2 / 0.2))
    assert gain_models.more_workers(0.2, 0.0, 1, 3) == 3


def test_fewer_workers_by_the_ring() -> None:
    assert gain_models.fewer_workers(0.2, 0.15, 2, 1) == pytest.approx(0.2 / (2 * 0.05))
    assert gain_models.fewer_workers(0.2, 0.15, 4, 2) == pytest.approx(2 / 0.15 / (4 / 0.2))


def test_more_servers_help_as_much_as_their_links_were_the_limit() -> None:
    assert gain_models.more_servers([0.5], 1, 2) == pytest.approx(1 / 0.75)
    assert gain_models.more_servers([1.0], 8, 1) == pytest.approx(1)
    full, half = (gain_models.more_servers([use], 4, 2) for use in (0.99, 0.5))
    assert 1 < half < full < 2


@pytest.mark.parametrize(("use", "measured"), [(0.69, 1.52), (0.54, 1.46)])
def test_twice_the_servers_never_brought_more_than_at_most(use: float, measured: float) -> None:
    # Pulls fill one direction of a server's link, pushes the other: by one direction alone it was 1.37 and 1.24.
    assert measured <= gain_models.more_servers([use, use], 2, 2) <= 2


def test_a_remedy_without_a_model_promises_nothing() -> None:
    assert str(Remedy("fewer, stronger GPUs")) == "fewer, stronger GPUs"
    assert str(Remedy("links twice as fast", 1.25, "half the transfer", at_most=True)) == (
        "links twice as fast (at most +25% throughput)"
    )
