"""Messages of the agents' votes, and the records that they carry."""

from __future__ import annotations

from tfscale.agent import wire
from tfscale.agent.consensus.decision import KEPT_CHANGES, MOST_VALUE
from tfscale.agent.consensus.votes import (
    Abstention,
    Accept,
    Acceptance,
    Answer,
    Introduce,
    Introduction,
    Look,
    Prepare,
    Promise,
    Question,
    Refusal,
    Sight,
)
from tfscale.core.cluster.task_identity import TaskIdentity
from tfscale.core.wire.convert import message_of, record_of
from tfscale.core.wire.fields import WireError
from tfscale.v1 import consensus_pb2

Request = (
    consensus_pb2.PrepareRequest
    | consensus_pb2.AcceptRequest
    | consensus_pb2.LookRequest
    | consensus_pb2.IntroduceRequest
)
_MOST_NUMBER = 1 << 53
_MOST_NAME = 400
"""Characters of a proposer's name, which ends with the name of a host."""
_ANSWERS: dict[str, type[Promise | Sight | Acceptance | Refusal | Abstention | Introduction]] = {
    "promise": Promise,
    "sight": Sight,
    "acceptance": Acceptance,
    "refusal": Refusal,
    "abstention": Abstention,
    "introduction": Introduction,
}
"""Record of each kind of answer."""


def request_of(question: Question, to: TaskIdentity, electorate: str) -> Request:
    """Return the message of a question."""
    match question:
        case Prepare():
            request: Request = message_of(consensus_pb2.PrepareRequest, question)
        case Accept():
            request = message_of(consensus_pb2.AcceptRequest, question)
        case Look():
            request = consensus_pb2.LookRequest()
        case Introduce():
            request = consensus_pb2.IntroduceRequest()
    request.to.CopyFrom(wire.identity_message(to))
    request.electorate = electorate
    return request


def question_of(request: Request) -> Question:
    """Return the question of a message. Raises WireError where it can be none."""
    if isinstance(request, consensus_pb2.IntroduceRequest):
        return Introduce()
    if isinstance(request, consensus_pb2.LookRequest):
        return Look()
    _check_ballot(request.ballot)
    if isinstance(request, consensus_pb2.PrepareRequest):
        return record_of(Prepare, request)
    _check_decision(request.decision)
    return record_of(Accept, request)


def reply_of(answer: Answer) -> consensus_pb2.VoteReply:
    """Return the message of an answer."""
    reply = consensus_pb2.VoteReply()
    name = next(name for name, kind in _ANSWERS.items() if isinstance(answer, kind))
    field = getattr(reply, name)
    field.SetInParent()
    field.CopyFrom(message_of(type(field), answer))
    return reply


def answer_of(reply: consensus_pb2.VoteReply) -> Answer:
    """Return the answer of a message. Raises WireError where it can be none."""
    name = reply.WhichOneof("answer")
    if name is None:
        raise WireError("a newer version of tfscale answers what this one does not know: upgrade it")
    if name in ("promise", "sight"):
        _check_decision(getattr(reply, name).decision)
    return record_of(_ANSWERS[name], getattr(reply, name))


def _check_ballot(ballot: consensus_pb2.Ballot) -> None:
    if not (0 < ballot.number <= _MOST_NUMBER and 0 < len(ballot.proposer) <= _MOST_NAME):
        raise WireError("a ballot without a number and a proposer's name that are possible")


def _check_decision(decision: consensus_pb2.Decision) -> None:
    if len(decision.value) > MOST_VALUE or len(decision.changes) > KEPT_CHANGES:
        raise WireError(f"a decision has at most {MOST_VALUE} bytes and {KEPT_CHANGES} changes")
