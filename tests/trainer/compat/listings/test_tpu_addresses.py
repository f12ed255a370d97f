"""Addresses of TPUs, asked for within seconds."""

from __future__ import annotations

import socket
import threading

import pytest
from tfscale.trainer.compat.listings import tpu_addresses
from tfscale.trainer.compat.listings.erratum import Erratum


def test_a_name_that_cannot_be_looked_up_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpu_addresses, "_PATIENCE", 0.1)
    is_over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [is_over.wait(60)])
    with pytest.raises(Erratum, match="'my-tpu' cannot be looked up"):
        tpu_addresses.check("my-tpu")
    is_over.set()


def test_an_address_where_nobody_listens_is_refused() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(Erratum, match="does not answer"):
            tpu_addresses.check(f"grpc://127.0.0.1:{port}")
        bound.listen()
        tpu_addresses.check(f"grpc://127.0.0.1:{port}")


@pytest.mark.parametrize("tpu", [None, "", "local"])
def test_what_tensorflow_finds_out_at_once_is_left_to_it(tpu: str | None) -> None:
    tpu_addresses.check(tpu)
