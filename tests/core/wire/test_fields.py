"""Fields of protobuf messages that are written without a message."""

from __future__ import annotations

import pytest
from tfscale.core.wire.fields import consecutive, delimited
from tfscale.v1 import report_pb2, telemetry_pb2


@pytest.mark.parametrize("first", [0, 1, 126, 127, 128, 16_383, 16_384, (1 << 35) - 3])
@pytest.mark.parametrize("count", [0, 1, 2, 128, 300])
def test_consecutive_numbers_are_written_as_protobuf_packs_them(first: int, count: int) -> None:
    packed = report_pb2.PackedSteps(sequence=consecutive(first, count)).SerializeToString()
    assert list(telemetry_pb2.StepBatch.FromString(packed).sequence) == list(range(first, first + count))


@pytest.mark.parametrize("length", [0, 127, 128, 20_000])
def test_a_field_follows_its_number_and_its_length(length: int) -> None:
    text = "a" * length
    reply = report_pb2.ReportReply.FromString(delimited(2, text.encode()))
    assert reply.refused == text
