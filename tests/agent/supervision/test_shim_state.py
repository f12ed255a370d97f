"""State of a shim as the agent reads it from the file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from tfscale.agent.checked_json import with_checksum
from tfscale.agent.supervision.shim_state import ShimState, read_state


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    state = ShimState("boot", 7, 100, generation=1, attempt=2, argv=("python", "train.py"), code=3, ended=9.5)
    (tmp_path / "state").write_text(json.dumps(asdict(state)))
    assert read_state(tmp_path / "state") == state


def test_a_state_in_which_a_bit_has_changed_is_not_taken_for_another_one() -> None:
    state = ShimState("boot", 7, 100, generation=1, attempt=2, argv=("python", "train.py"), code=0, ended=9.5)
    text = with_checksum(asdict(state)).encode()
    for bit in range(8 * len(text)):
        damaged = bytearray(text)
        damaged[bit // 8] ^= 1 << bit % 8
        assert ShimState.from_json(bytes(damaged)) in (None, state)


def test_a_state_that_is_none_is_none(tmp_path: Path) -> None:
    for text in (b"", b"{", b"[]", b'{"boot": "x"}', b'{"argv": 3}'):
        (tmp_path / "state").write_bytes(text)
        assert read_state(tmp_path / "state") is None
    assert read_state(tmp_path / "absent") is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("generation", -1),
        ("generation", 1 << 64),
        ("generation", 1.5),
        ("attempt", "1"),
        ("shim_pid", None),
        ("shim_pid", True),
        ("boot", 3),
        ("argv", [3]),
        ("code", "x"),
        ("code", 1 << 40),
        ("signal", 900),
        ("ended", float("inf")),
        ("started", "now"),
        ("message", None),
        ("requested", "yes"),
    ],
)
def test_a_value_that_makes_no_sense_is_no_state(field: str, value: object) -> None:
    state = asdict(ShimState("boot", 7, 100, generation=1, attempt=2, argv=("python",)))
    assert ShimState.from_json(json.dumps(state | {"later": {"colour": 3}})) is not None
    assert ShimState.from_json(json.dumps(state | {field: value})) is None
