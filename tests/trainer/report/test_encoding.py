"""Messages that are written and read without protobuf: they are those of protobuf, byte for byte."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tfscale.agent import wire as agent_wire
from tfscale.core.records.profile import ProfileOrder
from tfscale.core.wire.fields import WireError
from tfscale.trainer.probe.report import wire
from tfscale.trainer.probe.report.encoding import encoded
from tfscale.v1 import report_pb2, telemetry_pb2
from tfscale.v1.report_fields import ENUMS, MESSAGES

NUMBERS = {"pid": st.integers(0, 2**31 - 1), "stack_signal": st.integers(0, 64)}
SCALARS = {
    "number": st.integers(0, 2**32 - 1),
    # Minus zero is zero here, and a value of its own for protobuf: no time or duration is either.
    "double": st.floats(allow_nan=False).map(lambda number: number or 0.0),
    "float": st.floats(width=32, allow_nan=False),
    "text": st.text(),
}
BOOLEANS = {"trains", "between_steps", "finite", "compiled_stamps"}


def values(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of the values of some fields of a message."""
    rows = MESSAGES[kind]
    return st.fixed_dictionaries({}, optional={name: value(name, *rest) for name, _, *rest in rows})


def value(name: str, kind: str, is_repeated: bool, _: bool) -> st.SearchStrategy[Any]:
    """Return a strategy of one field's values."""
    if name in BOOLEANS:
        return st.booleans()
    if name == "sequence" and is_repeated:
        return st.builds(lambda first, count: list(range(first, first + count)), SCALARS["number"], st.integers(0, 400))
    if kind in MESSAGES:
        one: st.SearchStrategy[Any] = values(kind)
    elif kind in ENUMS:
        one = st.sampled_from([*ENUMS[kind]])
    else:
        one = NUMBERS.get(name, SCALARS[kind])
    return st.lists(one, max_size=3) if is_repeated else one


def record(kind: str, fields: dict[str, Any]) -> Any:
    """Return a record of these values; all other fields are None or empty, as those of records are."""
    made = {name: () if is_repeated else None for name, _, _, is_repeated, _ in MESSAGES[kind]}
    for name, _, its_kind, is_repeated, _ in MESSAGES[kind]:
        if name not in fields:
            continue
        if its_kind in ENUMS:
            made[name] = SimpleNamespace(name=fields[name])
        elif its_kind in MESSAGES:
            each = [record(its_kind, one) for one in (fields[name] if is_repeated else [fields[name]])]
            made[name] = each if is_repeated else each[0]
        else:
            made[name] = fields[name]
    return SimpleNamespace(**made)


def by_protobuf(kind: str, fields: dict[str, Any]) -> Any:
    """Return the message of these values that protobuf makes."""
    made = dict(fields)
    for name, _, its_kind, is_repeated, _ in MESSAGES[kind]:
        if name in fields and its_kind in ENUMS:
            prefix = "".join(f"_{char}" if char.isupper() else char.upper() for char in its_kind).lstrip("_")
            made[name] = f"{prefix}_{fields[name]}"
        elif name in fields and its_kind in MESSAGES:
            each = [by_protobuf(its_kind, one) for one in (fields[name] if is_repeated else [fields[name]])]
            made[name] = each if is_repeated else each[0]
    return (getattr(report_pb2, kind, None) or getattr(telemetry_pb2, kind))(**made)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values("TaskReport"))
def test_a_report_has_the_bytes_that_protobuf_gives_it(fields: dict[str, Any]) -> None:
    assert encoded("TaskReport", record("TaskReport", fields)) == by_protobuf("TaskReport", fields).SerializeToString()


@pytest.mark.parametrize("wrong", [{"lost": -1}, {"sequence": [3, -1]}])
def test_a_negative_number_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"range\(0, 256\)"):
        encoded("StepBatch", record("StepBatch", wrong))


def test_a_text_that_is_not_utf_8_is_shown() -> None:
    data = encoded("ProfileReport", record("ProfileReport", {"file": "/a\udcff"}))
    assert report_pb2.ProfileReport.FromString(data).file == "/a\\udcff"


@settings(deadline=None)
@given(st.text(), st.builds(ProfileOrder, st.integers(0, 2**63), st.floats(allow_nan=False), st.text()))
def test_a_reply_is_read_as_the_agent_has_written_it(why: str, order: ProfileOrder) -> None:
    assert wire.reply(agent_wire.acceptance_reply()) == wire.AgentReply(True, None, None, None)
    assert wire.reply(agent_wire.refusal_reply(why)) == wire.AgentReply(False, why, None, None)
    assert wire.reply(agent_wire.waiting_reply(why)) == wire.AgentReply(False, None, None, why)
    assert wire.reply(agent_wire.order_reply(order)) == wire.AgentReply(False, None, order, None)


@settings(deadline=None)
@given(
    st.binary() | st.builds(lambda end: agent_wire.order_reply(ProfileOrder(7, 2.5, "/a"))[:end], st.integers(0, 20))
)
def test_bytes_of_another_program_are_a_reply_or_an_error_with_words(data: bytes) -> None:
    try:
        assert isinstance(wire.reply(data), wire.AgentReply)
    except WireError as error:
        assert str(error)
