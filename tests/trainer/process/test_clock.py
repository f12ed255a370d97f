"""The wall clock, compared with the monotonic one."""

from tfscale.trainer.probe.process.clock import ClockWatch


def test_a_clock_that_was_set_is_seen_once() -> None:
    offset = [1000.0]
    steady = iter(range(1, 1000))
    now = [0.0]

    def tick() -> float:
        now[0] = float(next(steady))
        return now[0]

    watch = ClockWatch(wall=lambda: now[0] + 0.5 + offset[0], steady=tick)
    assert not watch.jumped()
    offset[0] += 0.002
    assert watch.jumped()
    assert not watch.jumped()


def test_slewing_is_no_jump() -> None:
    watch = ClockWatch()
    assert not any(watch.jumped() for _ in range(50))
