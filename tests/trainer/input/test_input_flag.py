"""Parts of the input pipeline that the command line asks for."""

from __future__ import annotations

import pytest
from tfscale.core.errors import UsageError
from tfscale.trainer.input.input_flag import AUTO, USUAL, InputParts, parse_input
from tfscale.trainer.launch.plan import make_plan


def test_only_what_is_asked_for_is_in_the_pipeline() -> None:
    read = parse_input("shuffle=1000,map=4,work=50,cache,prefetch=auto,auto-shard=data", "multi-worker")
    assert read == InputParts(1000, 4, 50, True, AUTO, "data")
    assert parse_input("cache", "one-device") == InputParts(cache=True)
    assert parse_input(None, "one-device") == USUAL
    assert parse_input("service=2", "one-device") == InputParts(service=2, sharding="dynamic")


def test_parts_are_told_as_they_were_asked_for() -> None:
    text = "shuffle=1,map=auto,work=50,cache,prefetch=2,auto-shard=off"
    told = parse_input(text, "multi-worker").asked
    assert ",".join(f"{name}={value}" if value else name for name, value in told.items()) == text
    assert parse_input("service=2,sharding=off", "mirrored").asked == {"service": "2", "sharding": "off"}
    assert USUAL.asked == {"shuffle": "10000", "prefetch": "2"}


@pytest.mark.parametrize(
    ("text", "strategy", "said"),
    [
        ("interleave=2", "one-device", "there is no part 'interleave=2': use shuffle=N"),
        ("", "one-device", "there is no part ''"),
        ("cache=1", "one-device", "there is no part 'cache=1'"),
        ("shuffle=0", "one-device", "shuffle=0: use a whole number from 1 on"),
        ("shuffle=auto", "one-device", "shuffle=auto: use a whole number from 1 on"),
        ("prefetch=-1", "one-device", "prefetch=-1: use a whole number from 1 on or auto"),
        ("cache,cache", "one-device", "cache is given twice"),
        ("map=4", "one-device", "map and work need each other"),
        ("work=4", "one-device", "map and work need each other"),
        ("auto-shard=file", "multi-worker", "are arrays and in no files"),
        ("auto-shard=all", "multi-worker", "auto-shard=all: use one of auto, data, off"),
        ("service=0", "mirrored", "service=0: use a whole number from 1 on"),
        ("prefetch=99999999999999999999", "mirrored", "prefetch=9+: use from 1 to 10000"),
        ("shuffle=" + "9" * 5000, "mirrored", "shuffle=9+: use from 1 to 2147483647"),
        ("map=99999999999,work=1", "mirrored", "map=99999999999: use from 1 to 1024"),
        ("map=1,work=99999999999", "mirrored", "work=99999999999: use from 1 to 2147483647"),
        ("service=65", "mirrored", "service=65: use from 1 to 64"),
        ("service=2,sharding=data", "mirrored", "needs a worker of the service in each training process"),
        ("service=2,sharding=file", "mirrored", "are arrays and in no files"),
        ("service=2,sharding=all", "mirrored", "sharding=all: use one of dynamic, off"),
        ("sharding=off", "mirrored", "sharding is a mode of the service"),
        ("service=2,auto-shard=data", "multi-worker", "auto-shard and service: not together"),
        ("auto-shard=data", "mirrored", "only workers of multi-worker share one dataset, not mirrored"),
        ("auto-shard=data", "parameter-server", "only workers of multi-worker"),
    ],
)
def test_what_is_not_allowed_is_refused_in_one_line(text: str, strategy: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        make_plan({"program": "digits", "strategy": strategy, "input": text})
    assert "\n" not in str(raised.value) and raised.value.exit_status == 2
