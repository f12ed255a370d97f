"""Bytes of a field are those that protobuf itself writes and reads."""

from __future__ import annotations

import math

import pytest
from tfscale.core.wire.fields import column, consecutive, delimited
from tfscale.v1 import telemetry_pb2

SUBJECT = telemetry_pb2.StepBatch.SUBJECT_FIELD_NUMBER


@pytest.mark.parametrize("first", [0, 1, 126, 127, 128, 16_383, 16_384, (1 << 35) - 3])
@pytest.mark.parametrize("count", [0, 1, 2, 128, 300])
def test_consecutive_numbers_are_written_as_protobuf_packs_them(first: int, count: int) -> None:
    packed = telemetry_pb2.PackedSteps(sequence=consecutive(first, count)).SerializeToString()
    assert list(telemetry_pb2.StepBatch.FromString(packed).sequence) == list(range(first, first + count))


@pytest.mark.parametrize("length", [0, 1, 127, 128, 20_000])
def test_a_field_with_a_length_is_read_by_protobuf(length: int) -> None:
    assert telemetry_pb2.StepBatch.FromString(delimited(SUBJECT, b"x" * length)).subject == "x" * length


def test_a_packed_column_is_its_numbers_and_none_that_is_cut() -> None:
    data = telemetry_pb2.StepBatch(compute=[0.5, 2.0, math.inf]).SerializeToString()[-12:]
    assert list(column("f", data)) == [0.5, 2.0, math.inf]
    with pytest.raises(ValueError, match="multiple"):
        column("d", data)
