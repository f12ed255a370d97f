"""Failures with `[recovery]`: restarted once, by whichever agent decides, as long as the limits allow it."""

from __future__ import annotations

import time
from dataclasses import replace
from signal import Signals

from tfscale.agent import wire
from tfscale.agent.cluster.failure_report import FailureReport
from tfscale.core.records.task_status import Exit, TaskState, TaskStatus

from faults import orders
from faults.fault import RUNS, Expectation, Fault, Setup
from faults.trial import Trial

LEAD, PEER = "worker:0", "worker:1"
BOTH = dict.fromkeys((LEAD, PEER), RUNS)


def _pair(policy: str = "OnFailure", *more: str, backoff: str = "1s") -> Setup:
    return Setup(workers=2, table="\n".join(["[recovery]", f'policy = "{policy}"', f'backoff = "{backoff}"', *more]))


PAIR = _pair("OnFailure", "max_restarts = 100", "without_progress = 100")
"""Limits that the faults which follow each other in one cluster do not reach: its program tells no steps."""
_LOST = 10
"""Most steps that a restart costs: as many as a checkpoint's period."""


def _back(task: str, words: str) -> Expectation:
    return Expectation(words, BOTH, is_new=(task,), one_generation=True, most_lost=_LOST, within=120)


def _kill(party: str, task: str, trial: Trial, name: str = "KILL") -> None:
    trial.signal(party, task, Signals[f"SIG{name}"])


def _lead_agent_then_worker(trial: Trial) -> None:
    _kill("agent", LEAD, trial)
    trial.agents[LEAD].wait(60)
    _kill("task", PEER, trial)


def _lead_agent_back(trial: Trial) -> None:
    _lead_agent_then_worker(trial)
    time.sleep(10)
    trial.start_agent(LEAD)


def _both_tasks(trial: Trial) -> None:
    _kill("task", LEAD, trial)
    _kill("task", PEER, trial)


def _false_reports(trial: Trial) -> None:
    to = orders.identity(trial.spec, LEAD)
    status = replace(
        orders.statuses(trial.spec)[PEER] or TaskStatus(TaskState.EXITED),
        state=TaskState.EXITED,
        exit=Exit(3, None, 5.0),
    )
    for _ in range(3):
        orders.call(trial.spec, LEAD, "ReportFailure", wire.failure_message(FailureReport(PEER, status), to))
        time.sleep(5)


def _always_fails(trial: Trial) -> None:
    trial.order(PEER, "exit")


def _fails_once(trial: Trial) -> None:
    """Let the task exit with 3, which its next process does not do."""
    trial.order(PEER, "exit")
    trial.until(lambda: "exited" in trial.states()[PEER] or "restart" in trial.said(LEAD), 30, "the end of the task")
    (trial.work / "worker-1.order").unlink()


def _stop_meanwhile(trial: Trial) -> str:
    _kill("task", PEER, trial)
    trial.until(lambda: trial.states()[PEER].startswith("exited"), 30, "the end of the task")
    return orders.order(trial.spec, "Stop", LEAD, PEER)[:100]


def _stop_as_the_lead_is_back(trial: Trial) -> str:
    """Have the lead's agent back while another one acts for it, and stop all tasks at once."""
    _lead_agent_then_worker(trial)
    time.sleep(6)
    trial.start_agent(LEAD)
    answer, deadline = "", time.monotonic() + 30
    while not answer.startswith("DONE") and time.monotonic() < deadline:
        answer = orders.order(trial.spec, "Stop", LEAD, PEER)
    time.sleep(5)
    return answer[:100]


_GIVEN_UP = Expectation("it is given up, with the reason", {PEER: "^exited 3"}, log={LEAD: "given up"}, within=150)
FAULTS = (
    Fault(
        "worker killed",
        "SIGKILL to worker:1, with [recovery]",
        _back(PEER, "restarted by itself, from its checkpoint"),
        lambda trial: _kill("task", PEER, trial),
        PAIR,
        quick=True,
    ),
    Fault(
        "lead killed",
        "SIGKILL to the lead's task, with [recovery]",
        _back(LEAD, "restarted by itself, from its checkpoint"),
        lambda trial: _kill("task", LEAD, trial),
        PAIR,
    ),
    Fault(
        "both killed",
        "SIGKILL to both tasks at once, with [recovery]",
        Expectation("one restart", BOTH, is_new=(LEAD, PEER), one_generation=True, most_lost=_LOST, within=120),
        _both_tasks,
        PAIR,
    ),
    Fault(
        "shim killed",
        "SIGKILL to the shim of worker:1, with [recovery]",
        _back(PEER, "restarted by itself, from its checkpoint"),
        lambda trial: _kill("shim", PEER, trial),
        PAIR,
    ),
    Fault(
        "segmentation fault",
        "SIGSEGV to worker:1, with [recovery]",
        _back(PEER, "restarted by itself, from its checkpoint"),
        lambda trial: _kill("task", PEER, trial, "SEGV"),
        PAIR,
    ),
    Fault(
        "lead's agent dead",
        "SIGKILL to the lead's agent, then to worker:1's task",
        Expectation("nobody is started unasked in vain; the lead's task lives on, or is restarted too", {PEER: "."}),
        _lead_agent_then_worker,
        PAIR,
    ),
    Fault(
        "lead's agent back",
        "the same; the lead's agent is back after 10 s",
        _back(PEER, "restarted by itself when all agents answer"),
        _lead_agent_back,
        PAIR,
    ),
    Fault(
        "budget spent",
        "worker:1 exits with 3 again and again; one restart is allowed",
        _GIVEN_UP,
        _always_fails,
        _pair("OnFailure", "max_restarts = 1"),
    ),
    Fault(
        "no progress",
        "worker:1 exits with 3 again and again",
        _GIVEN_UP,
        _always_fails,
        _pair("OnFailure", "without_progress = 1"),
    ),
    Fault(
        "permanent exit",
        "worker:1 exits with 3, which the policy ExitCode takes for permanent",
        Expectation("it is left as it ended", {PEER: "^exited 3", LEAD: RUNS}, (LEAD,), ended=(PEER,)),
        _always_fails,
        _pair("ExitCode"),
    ),
    Fault(
        "policy Never",
        "SIGKILL to worker:1, with the policy Never",
        Expectation("it is left as it ended", {PEER: "^exited SIGKILL", LEAD: RUNS}, (LEAD,)),
        lambda trial: _kill("task", PEER, trial),
        _pair("Never"),
    ),
    Fault(
        "exit once",
        "worker:1 exits with 3 once, with the policy OnFailure",
        _back(PEER, "restarted by itself"),
        _fails_once,
        PAIR,
    ),
    Fault(
        "false report",
        "the lead's agent is told three times that worker:1, which runs, has exited with 3",
        Expectation("nothing is restarted, and the log says so", BOTH, (LEAD, PEER), log={LEAD: "dropped a report"}),
        _false_reports,
        _pair(),
    ),
    Fault(
        "stop in the pause",
        "SIGKILL to worker:1; a stop is ordered before it is restarted",
        Expectation("the stop is obeyed", dict.fromkeys((LEAD, PEER), "^exited")),
        _stop_meanwhile,
        _pair(backoff="20s"),
    ),
    Fault(
        "stop as the lead's agent is back",
        "SIGKILL to the lead's agent, then to worker:1's task; the agent is back after 6 s, and a stop is ordered "
        "at once",
        Expectation("a stop that says DONE is one", dict.fromkeys((LEAD, PEER), "^exited")),
        _stop_as_the_lead_is_back,
        _pair(),
    ),
)
