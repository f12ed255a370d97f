"""Options of the console: a table of all settings, and the options of each command."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tfscale.console.engine.stop_condition import CONDITIONS
from tfscale.console.export.outputs import FORMATS
from tfscale.console.export.rows import PARTS
from tfscale.console.sources.simulation.simulated import MOST_SIMULATED
from tfscale.console.sources.simulation.simulated_faults import EXAMPLE, Fault
from tfscale.console.transport.commands import PROFILE_SECONDS
from tfscale.core.cluster.cluster_spec import parse_address
from tfscale.core.errors import UsageError
from tfscale.core.logs import LEVELS, LOG_FORMATS
from tfscale.core.settings.precedence import Option, is_flag
from tfscale.core.settings.value_parsers import (
    SIZE_UNITS,
    any_text,
    at_most,
    count,
    one_of,
    path,
    placed,
    positive_number,
    size,
    switch,
)


def _conditions(text: str, place: str) -> tuple[str, ...]:
    return tuple(one_of(*CONDITIONS)(word.strip(), place) for word in text.split(","))


def _url(text: str, place: str) -> str:
    if not re.match(r"https?://[^\s/]+", text):
        raise UsageError(f"{place}: {text!r} is no web address: write http://... or https://...")
    return text


REPORT_FORMATS = ("text", "json", "html")


def _format(text: str, place: str) -> Any:
    """Return the format; in the file or a variable it may be one for the command `report`."""
    return one_of(*FORMATS, *(() if is_flag(place) else REPORT_FORMATS))(text, place)


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
    "simulate": Option(at_most(MOST_SIMULATED, count), "N", "instead of a cluster: N simulated workers"),
    "fault": Option(
        placed(Fault.parse), "FAULT", f"with --simulate, may be repeated: for example {EXAMPLE}", is_list=True
    ),
    "rate": Option(positive_number, "R", "with --simulate: steps a second (10)"),
    "workers": Option(count, "N", "start a cluster of N workers, not the program alone"),
    "insecure": Option(
        switch, "", "reach agents in plain text, also beyond this host and with [tls] in the cluster file"
    ),
    "ca": Option(path, "FILE", "with --agent: PEM file of the certificate authority, for TLS"),
    "certificate": Option(path, "FILE", "with --agent: PEM file of the console's certificate"),
    "key": Option(path, "FILE", "with --agent: PEM file of its key"),
    "record": Option(path, "FILE", "write a recording to a new file, for replay and export"),
    "read_only": Option(switch, "", "disable all keys and commands that reach into a task"),
    "serve": Option(parse_address, "HOST:PORT", f"serve the screen to browsers here ({SERVED})", otherwise=SERVED),
    "yes": Option(switch, "", "do not ask"),
    "without": Option(any_text, "HOST", "in place of TASK: start the tasks of this host on spares, or fewer workers"),
    "json": Option(switch, "", "write JSON instead of text"),
    "bandwidth": Option(switch, "", "measure for a second how much each host can send to the next"),
    "headless": Option(switch, "", "write JSON lines to stdout instead of drawing a screen"),
    "plain": Option(switch, "", "write headline and events as lines of text instead: for screen readers and logs"),
    "tail": Option(count, "N", "lines before the end (100)"),
    "follow": Option(switch, "", "go on with what comes"),
    "out": Option(path, "FILE", "without a screen: write to this file instead of stdout"),
    "format": Option(_format, "FORMAT", f"without a screen: {', '.join(FORMATS)} (jsonl)"),
    "only": Option(one_of(*PARTS), "PART", f"without a screen: only {', '.join(PARTS)}"),
    "rotate": Option(size(), "SIZE", f"with --out: begin a new file at this size ({SIZE_UNITS})"),
    "keep": Option(count, "N", "with --rotate: files kept besides the newest (5)"),
    "once": Option(
        switch,
        "",
        "write one snapshot as JSON; exit status 0 healthy, 1 nothing collected, 3 unhealthy, 5 nothing to be said yet",
    ),
    "wait": Option(positive_number, "S", "with --once: wait up to S seconds for agents, and for a first step"),
    "until": Option(_conditions, "WHAT", f"end once the training is {', '.join(CONDITIONS)}; several with commas"),
    "seconds": Option(positive_number, "S", "end S seconds after all training tasks have reported a step"),
    "on_event": Option(
        any_text, "COMMAND", "without a screen: run it for each important event, with JSON on its stdin"
    ),
    "webhook": Option(_url, "URL", "without a screen: post each important event to this address, as JSON"),
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


def _of(*names: str) -> dict[str, Option]:
    return {name: OPTIONS[name] for name in names}


_LOG = _of("log_level", "log_format", "log_file")
_END = _of("until", "seconds")
_SCREEN = _of("theme", "ascii", "bell")
_OUTPUT = _of("out", "format", "only", "rotate", "keep")
ON_CLUSTER = _of("cluster", "agent", "insecure", "ca", "certificate", "key") | _LOG
"""Options of a command that asks agents."""
DOCTOR = _of("json", "bandwidth") | ON_CLUSTER
PROFILE = (
    {"seconds": replace(OPTIONS["seconds"], help=f"length of the profile in seconds ({PROFILE_SECONDS:g})")}
    | _of("yes")
    | ON_CLUSTER
)
ORDER = _of("yes") | ON_CLUSTER
RESTART = _of("without") | ORDER
LOG = _of("tail", "follow") | ON_CLUSTER
READ = _of("json") | ON_CLUSTER
EXPORT = _of("plain") | _OUTPUT | _END | _LOG
REPLAY = _of("serve") | _END | _SCREEN | _LOG
RUN = _of("workers", "record", "headless", "plain", "on_event", "webhook") | _OUTPUT | _END | _SCREEN | _LOG
WATCH: Mapping[str, Option] = {
    name: option
    for name, option in OPTIONS.items()
    if name not in ("workers", "yes", "without", "json", "bandwidth", "tail", "follow")
}
