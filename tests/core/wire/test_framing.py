from __future__ import annotations

import pytest
from tfscale.core.wire.framing import HEADER_BYTES, LONGEST, FramingError, framed, length


@pytest.mark.parametrize("message", [b"", b"x", b"x" * 70_000], ids=len)
def test_a_message_comes_after_its_length(message: bytes) -> None:
    whole = framed(message)
    assert length(whole[:HEADER_BYTES]) == len(message)
    assert whole[HEADER_BYTES:] == message


def test_what_is_too_long_is_another_protocols() -> None:
    assert length(LONGEST.to_bytes(HEADER_BYTES, "big")) == LONGEST
    with pytest.raises(FramingError, match="67,108,865 bytes"):
        length((LONGEST + 1).to_bytes(HEADER_BYTES, "big"))
