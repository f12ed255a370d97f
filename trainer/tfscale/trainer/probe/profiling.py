"""TensorFlow's profile of this process, when its agent asks for one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from tensorflow.python.framework.errors_impl import AlreadyExistsError, OpError
from tensorflow.python.profiler import profiler_v2
from tfscale.v1 import report_pb2

_ORDERS, _PROFILED = "/tfscale.v1.Reports/Orders", "/tfscale.v1.Reports/Profiled"
Wait = Callable[[float], bool]
"""So many seconds; True when the process ends meanwhile."""


class ProfileError(Exception):
    """There is no profile; the text says why."""


def obey(channel: grpc.Channel, hello: report_pb2.Hello, until: grpc.Future[Any], wait: Wait) -> None:
    """Take the profiles that the agent orders, in this thread, until `until` is done. Raises grpc.RpcError."""
    listen = channel.unary_stream(
        _ORDERS,
        request_serializer=report_pb2.Hello.SerializeToString,
        response_deserializer=report_pb2.ProfileOrder.FromString,
    )
    tell = channel.unary_unary(
        _PROFILED,
        request_serializer=report_pb2.ProfileReport.SerializeToString,
        response_deserializer=report_pb2.ReportReply.FromString,
    )
    orders = listen(hello)

    def end(_: object) -> None:
        orders.cancel()

    until.add_done_callback(end)
    for order in orders:
        _take(order, lambda report: tell(report, timeout=5.0), wait)


def _take(order: report_pb2.ProfileOrder, tell: Callable[[report_pb2.ProfileReport], object], wait: Wait) -> None:
    def said(stage: report_pb2.ProfileStage.ValueType, file: str = "", message: str = "") -> None:
        # Where the agent has gone meanwhile, what was begun must come to its end all the same.
        with suppress(grpc.RpcError):
            tell(report_pb2.ProfileReport(number=order.number, stage=stage, file=file, message=message))

    try:
        begin(order.folder)
        said(report_pb2.PROFILE_STAGE_CAPTURING)
        if wait(order.seconds):
            raise ProfileError("the process has come to its end")
        said(report_pb2.PROFILE_STAGE_WRITING)
        said(report_pb2.PROFILE_STAGE_WRITTEN, file=str(write(order.folder)))
    except (ProfileError, OSError) as error:
        said(report_pb2.PROFILE_STAGE_FAILED, message=str(error))


def begin(folder: str) -> None:
    """Begin to record what TensorFlow's ops and devices do. Python's own calls are left out: to trace them slows every
    one of them. Raises ProfileError."""
    options = profiler_v2.ProfilerOptions(host_tracer_level=2, python_tracer_level=0, device_tracer_level=1)
    try:
        profiler_v2.start(folder, options)
    except AlreadyExistsError:
        raise ProfileError("another profiler is at work in the process, its TensorBoard callback perhaps") from None
    except OpError as error:
        raise ProfileError(error.message) from None


def write(folder: str) -> Path:
    """End the recording; the file that holds it, in the layout that TensorBoard opens. Raises ProfileError."""
    before = set(_files(folder))
    try:
        profiler_v2.stop()
    except OpError as error:
        raise ProfileError(error.message) from None
    fresh = sorted(set(_files(folder)) - before)
    if not fresh:
        raise ProfileError(f"{folder}: TensorFlow has written nothing there")
    return fresh[-1]


def _files(folder: str) -> list[Path]:
    return list(Path(folder).glob("plugins/profile/*/*.xplane.pb"))
