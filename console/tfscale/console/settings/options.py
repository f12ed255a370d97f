"""Options of the console: a table of all settings, and the options of each command."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tfscale.console.alerts.receiver import parse_receiver, parse_web_address
from tfscale.console.analysis.findings import SEVERITIES
from tfscale.console.engine.stop_condition import CONDITIONS
from tfscale.console.export.outputs import FORMATS, WHOLE_FORMATS
from tfscale.console.export.rows import PARTS
from tfscale.console.sources.simulation.simulated import MOST_SIMULATED
from tfscale.console.sources.simulation.simulated_faults import EXAMPLE, Fault
from tfscale.console.tracking.tracker import FORMS, Destination
from tfscale.console.transport.commands import PROFILE_SECONDS
from tfscale.core.cluster.cluster_spec import parse_address
from tfscale.core.errors import UsageError
from tfscale.core.logs import LEVELS, LOG_FORMATS
from tfscale.core.metrics.page_address import page_address
from tfscale.core.plots.plot_flags import THEMES, plot_place
from tfscale.core.settings.precedence import Option, is_flag
from tfscale.core.settings.value_parsers import (
    SIZE_UNITS,
    any_text,
    at_most,
    count,
    number_from_0,
    one_of,
    path,
    placed,
    positive_number,
    share,
    size,
    switch,
    words,
)


def _conditions(text: str, place: str) -> tuple[str, ...]:
    return tuple(one_of(*CONDITIONS)(word.strip(), place) for word in text.split(","))


GATE_FORMATS = ("text", "json", "junit", "html")
REPORT_FORMATS = ("text", "json", "html")


def _format(text: str, place: str) -> Any:
    """Return the format; in the file or a variable it may be one for the command `report`."""
    return one_of(*FORMATS, *WHOLE_FORMATS, *(() if is_flag(place) else REPORT_FORMATS))(text, place)


def _plot(text: str, place: str) -> str:
    try:
        return plot_place(text)
    except ArgumentTypeError as error:
        raise UsageError(f"{place}: {error}") from None


TABLE = "console"
"""The console's table of the configuration file."""
SERVED = "127.0.0.1:8571"
"""Address of `--serve` alone."""

OPTIONS: dict[str, Option] = {
    "cluster": Option(
        path,
        "FILE",
        "the cluster file, TOML or JSON; left out: TF_CONFIG in the environment, else cluster.toml in this folder or "
        "in $XDG_CONFIG_HOME/tfscale, else what runs on this machine",
    ),
    "agent": Option(parse_address, "HOST:PORT", "instead of the cluster file: one agent, which names the others"),
    "slurm": Option(
        any_text,
        "JOBID",
        "instead of the cluster file: the agents of a Slurm job, left out: your only one",
        otherwise="",
    ),
    "simulate": Option(at_most(MOST_SIMULATED, count), "N", "instead of a cluster: N simulated workers"),
    "fault": Option(
        placed(Fault.parse), "FAULT", f"with --simulate, may be repeated: for example {EXAMPLE}", is_list=True
    ),
    "rate": Option(positive_number, "R", "with --simulate: steps a second (10)"),
    "ps": Option(count, "N", "with --simulate: N parameter servers and a chief, with workers at their own pace"),
    "spares": Option(count, "N", "with --simulate: N spare hosts"),
    "stages": Option(count, "N", "with --simulate: a pipeline of N stages in each worker"),
    "workers": Option(count, "N", "start a cluster of N workers, not the program alone"),
    "insecure": Option(
        switch, "", "reach agents in plain text, also beyond this host and with [tls] in the cluster file"
    ),
    "ca": Option(path, "FILE", "with --agent: PEM file of the certificate authority, for TLS"),
    "certificate": Option(path, "FILE", "with --agent: PEM file of the console's certificate"),
    "key": Option(path, "FILE", "with --agent: PEM file of its key"),
    "runs": Option(path, "FOLDER", "keep a folder for each run here ($XDG_STATE_HOME/tfscale/watch)"),
    "history": Option(path, "FOLDER", "begin the screen with the past in this folder of a watched run"),
    "record": Option(path, "FILE", "write a recording to a new file, for replay and export"),
    "read_only": Option(switch, "", "disable all keys and commands that reach into a task"),
    "serve": Option(parse_address, "HOST:PORT", f"serve the screen to browsers here ({SERVED})", otherwise=SERVED),
    "yes": Option(switch, "", "do not ask"),
    "without": Option(any_text, "HOST", "in place of TASK: start the tasks of this host on spares, or fewer workers"),
    "json": Option(switch, "", "write JSON instead of text"),
    "bandwidth": Option(switch, "", "measure for a second how much each host can send to the next"),
    "headless": Option(switch, "", "write JSON lines to stdout instead of drawing a screen"),
    "plain": Option(switch, "", "write headline and events as lines of text instead: for screen readers and logs"),
    "metrics": Option(
        page_address, "[HOST]:PORT", "without a screen: serve /metrics for Prometheus there; :9472 is on loopback"
    ),
    "page_port": Option(at_most(65_535, count), "PORT", "port of the agents' pages for Prometheus (9471)"),
    "tail": Option(count, "N", "lines before the end (100)"),
    "follow": Option(switch, "", "go on with what comes"),
    "out": Option(path, "FILE", "without a screen: write to this file instead of stdout"),
    "format": Option(_format, "FORMAT", f"without a screen: {', '.join(FORMATS)} (jsonl)"),
    "profiles": Option(path, "FOLDER", "with --format perfetto: draw the profiles that `profile --out` fetched"),
    "only": Option(one_of(*PARTS), "PART", f"without a screen: only {', '.join(PARTS)}"),
    "rotate": Option(size(), "SIZE", f"with --out: begin a new file at this size ({SIZE_UNITS})"),
    "keep": Option(count, "N", "with --rotate: files kept besides the newest (5)"),
    "once": Option(
        switch,
        "",
        "write one snapshot as JSON; exit status 0 healthy, 1 nothing collected, 3 unhealthy, 5 nothing to be said yet",
    ),
    "explain": Option(switch, "", "with --once: findings, evidence and what was tried as JSON for language models"),
    "wait": Option(positive_number, "S", "with --once: wait up to S seconds for agents, and for a first step"),
    "until": Option(_conditions, "WHAT", f"end once the training is {', '.join(CONDITIONS)}; several with commas"),
    "seconds": Option(positive_number, "S", "end S seconds after all training tasks have reported a step"),
    "notify": Option(
        parse_receiver,
        "URL",
        "send alerts there: slack://..., mailto://..., ntfy://... (apprise), or @FILE with such lines; may be repeated",
        is_list=True,
    ),
    "on_event": Option(any_text, "COMMAND", "run it for each alert, with JSON on its stdin"),
    "webhook": Option(parse_web_address, "URL", "post each alert to this address, or that in @FILE, as JSON"),
    "alert_from": Option(
        one_of(*SEVERITIES), "SEVERITY", f"least severity of an alert: {', '.join(SEVERITIES)} (warning)"
    ),
    "cool_down": Option(number_from_0, "S", "seconds in which a finding that was over is told no second time (300)"),
    "silence": Option(positive_number, "S", "alert when nothing was heard from the run for S seconds (300)"),
    "escalate": Option(parse_receiver, "URL", "as --notify: what still holds --escalate-after its alert", is_list=True),
    "escalate_after": Option(positive_number, "S", "seconds from an alert to its escalation (900)"),
    "track": Option(
        placed(Destination.parse),
        "TRACKER",
        f"without a screen: add the run's numbers to {', '.join(FORMS)}; may be repeated",
        is_list=True,
    ),
    "theme": Option(
        one_of("dark", "light", "contrast"), "NAME", "colours of the screen: dark, light, contrast (as last time)"
    ),
    "bell": Option(switch, "", "ring the terminal's bell at each new serious finding"),
    "log_level": Option(one_of(*LEVELS), "LEVEL", f"lowest level of the console's own log: {', '.join(LEVELS)} (info)"),
    "log_format": Option(one_of(*LOG_FORMATS), "FORMAT", f"format of that log: {', '.join(LOG_FORMATS)} (text)"),
    "log_file": Option(path, "FILE", "append that log to this file; left out: stderr, and with a screen nowhere"),
    "ascii": Option(switch, "", "draw with ASCII only; the default where the locale is not UTF-8"),
}
"""Every setting of the console."""

REPORT = {
    "csv": Option(path, "FILE", "measurements instead: step,worker,input_s,compute_s,reduce_s,update_s"),
    "format": Option(one_of(*REPORT_FORMATS), "FORMAT", f"{', '.join(REPORT_FORMATS)} (text)"),
    "out": Option(path, "FILE", "write to this file instead of stdout"),
}
"""Options of `report`, which takes only its format from variables and the configuration file."""

GATE = {
    "max_regression": Option(share, "P", "slowdown of a step that is allowed, such as 3%% (3%%)"),
    "across": Option(words, "WORDS", "what may differ: program, batch, size, precision, versions, hardware"),
    "format": Option(one_of(*GATE_FORMATS), "FORMAT", f"{', '.join(GATE_FORMATS)} (text)"),
    "out": Option(path, "FILE", "write to this file, and the text to stdout"),
}
"""Options of `compare`, none of which comes from variables or the configuration file."""

EARLIER = {
    "json": OPTIONS["json"],
    "plot": Option(_plot, "FILE", "draw the newest of them, in a name that ends in .png or .svg; - for characters"),
    "plot_theme": Option(one_of(*THEMES), "NAME", f"of that file: {', '.join(THEMES)} (light)"),
}
"""Options of `runs`, none of which comes from variables or the configuration file."""

INIT = {
    "workers": Option(any_text, "HOSTS", "hosts of the workers: host[1-4],host7; a host that is named twice has two"),
    "chief": Option(any_text, "HOST", "host of the chief; left out: worker 0 leads"),
    "ps": Option(any_text, "HOSTS", "hosts of parameter servers"),
    "evaluator": Option(any_text, "HOST", "host of the evaluator"),
    "port": Option(at_most(65_535, count), "PORT", "port of the tasks (2222); a second task of a host has the next"),
    "name": Option(any_text, "NAME", "name of the run; left out: the file's name"),
    "tls": Option(switch, "", "with the table [tls], whose files tfscale-agent certificates makes"),
    "insecure": OPTIONS["insecure"],
    "out": Option(path, "FILE", "write this file (cluster.toml)"),
    "force": Option(switch, "", "replace a file that is there"),
    "schema": Option(switch, "", "print the JSON schema of a cluster file instead"),
}
"""Options of `init`, none of which comes from variables or the configuration file."""


def _of(*names: str) -> dict[str, Option]:
    return {name: OPTIONS[name] for name in names}


_LOG = _of("log_level", "log_format", "log_file")
_END = _of("until", "seconds")
_SCREEN = _of("theme", "ascii", "bell")
_OUTPUT = _of("out", "format", "only", "rotate", "keep")
ON_CLUSTER = _of("cluster", "agent", "slurm") | _of("insecure", "ca", "certificate", "key") | _LOG
"""Options of a command that asks agents."""
_SIMULATION = _of("simulate", "fault", "rate", "ps", "spares", "stages")
MCP = _of("read_only") | _SIMULATION | ON_CLUSTER
DOCTOR = _of("json", "bandwidth") | ON_CLUSTER
PROFILE = (
    {"seconds": replace(OPTIONS["seconds"], help=f"length of the profile in seconds ({PROFILE_SECONDS:g})")}
    | {"out": replace(OPTIONS["out"], metavar="FOLDER", help="fetch them into this folder, for TensorBoard")}
    | _of("yes")
    | ON_CLUSTER
)
ORDER = _of("yes") | ON_CLUSTER
RESTART = _of("without") | ORDER
LOG = _of("tail", "follow") | ON_CLUSTER
READ = _of("json") | ON_CLUSTER
TARGETS = {
    "page_port": OPTIONS["page_port"],
    "out": replace(OPTIONS["out"], help="write to this file instead of stdout"),
} | ON_CLUSTER
EXPORT = (
    _of("plain")
    | _OUTPUT
    | {"format": replace(OPTIONS["format"], help=f"{', '.join((*FORMATS, *WHOLE_FORMATS))} (jsonl)")}
    | _of("profiles")
    | _END
    | _LOG
)
REPLAY = _of("serve") | _END | _SCREEN | _LOG
TEST = Option(
    parse_receiver, "URL", "send a message there, or to all that are set, and wait for it", is_list=True, otherwise=""
)
_CHANNELS = _of("notify", "on_event", "webhook", "escalate")
NOTIFY = {"test": TEST} | _CHANNELS | _LOG
_TOLD = _of("metrics", "track") | _CHANNELS | _of("alert_from", "cool_down", "silence", "escalate_after")
RUN = _of("workers", "record", "headless", "plain") | _TOLD | _OUTPUT | _END | _SCREEN | _LOG
STAY = (
    ON_CLUSTER
    | _SIMULATION
    | _of("runs", "read_only")
    | _TOLD
    | {
        "cluster": replace(OPTIONS["cluster"], help="the cluster file, or a folder of cluster files", metavar="PATH"),
        "slurm": replace(OPTIONS["slurm"], help="the agents of a Slurm job, left out: of all your jobs"),
        "rotate": replace(OPTIONS["rotate"], help=f"begin a new recording of a run at this size (1GB; {SIZE_UNITS})"),
        "keep": replace(OPTIONS["keep"], help="recordings of a run that are kept besides the newest (5)"),
    }
)
"""Options of `watch`."""
WATCH: Mapping[str, Option] = {
    name: option
    for name, option in OPTIONS.items()
    if name not in ("profiles", "runs", "workers", "yes", "without", "json", "bandwidth", "page_port", "tail", "follow")
}
