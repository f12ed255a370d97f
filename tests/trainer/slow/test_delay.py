"""Texts that `--slow` takes, and those that it refuses."""

import pytest
from tfscale.trainer.slow.delay import Delay


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("60ms", Delay("compute", seconds=0.06)),
        ("0.5s,host", Delay("host", seconds=0.5)),
        ("1.3x@30s", Delay("compute", factor=1.3, start=30)),
        (".5s,update@2.s", Delay("update", seconds=0.5, start=2)),
        ("30ms,input@1.5s", Delay("input", seconds=0.03, start=1.5)),
    ],
)
def test_delays_are_read(text: str, delay: Delay) -> None:
    assert Delay.parse(text) == delay


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("60", "is not a delay"),
        ("60ms,reduce", "not a phase"),
        ("1.3x,input", "only be compute"),
        ("0.9x", "below 1"),
        ("60ms@", "is not a delay"),
        ("1.2.3ms", "is not a delay"),
        ("60ms@1.2.3s", "is not a delay"),
        (".x", "is not a delay"),
        ("9" * 400 + "s", "at most an hour, or 1000x"),
        ("1001x", "at most an hour, or 1000x"),
    ],
)
def test_mistakes_are_named(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        Delay.parse(text)
