"""gRPC service by which a console examines the host before a training. It only translates."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator

import grpc.aio
from tfscale.agent import wire
from tfscale.agent.preflight.contacts import reach, send
from tfscale.agent.preflight.examiner import MOST_SECONDS, Examiner
from tfscale.core.cluster.cluster_spec import ClusterSpec
from tfscale.core.cluster.task import Task
from tfscale.core.errors import UsageError
from tfscale.v1 import preflight_pb2, preflight_pb2_grpc

_logger = logging.getLogger(__name__)
PREFLIGHT_NAME = preflight_pb2.DESCRIPTOR.services_by_name["Preflight"].full_name
_Context = grpc.aio.ServicerContext


class PreflightService(preflight_pb2_grpc.PreflightServicer):
    """Service for `tfscale-console doctor`."""

    def __init__(self, spec: ClusterSpec, examiner: Examiner) -> None:
        self._spec, self._examiner = spec, examiner
        self._sending = asyncio.Lock()

    async def Examine(
        self,
        request: preflight_pb2.ExamineRequest,
        context: _Context[preflight_pb2.ExamineRequest, preflight_pb2.Examination],
    ) -> AsyncIterator[preflight_pb2.Examination]:
        _logger.info("%s examines this host", context.peer())
        async with self._examiner.examine(request.receives) as found:
            yield wire.examination_message(found)
            await asyncio.sleep(MOST_SECONDS)

    async def Reach(
        self,
        request: preflight_pb2.ReachRequest,
        context: _Context[preflight_pb2.ReachRequest, preflight_pb2.ReachReply],
    ) -> preflight_pb2.ReachReply:
        contacts = await reach(self._spec, [Task.parse(name) for name in request.tasks])
        return wire.reach_reply(time.time(), contacts)

    async def Send(
        self, request: preflight_pb2.SendRequest, context: _Context[preflight_pb2.SendRequest, preflight_pb2.SendReply]
    ) -> preflight_pb2.SendReply:
        task = Task.parse(request.task)
        if task not in self._spec.tasks:
            raise UsageError(f"the cluster has no {task}")
        async with self._sending:
            return wire.send_reply(await send(self._spec.tasks[task].host, request.port, request.seconds))
