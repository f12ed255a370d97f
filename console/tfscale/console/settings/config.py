"""Configuration of the console: its settings, each with its origin, and the command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tfscale.console.alerts.receiver import Receiver
from tfscale.console.export.outputs import FORMATS, WHOLE_FORMATS
from tfscale.console.export.rows import PARTS
from tfscale.console.settings.command_line import Invocation
from tfscale.console.settings.options import OPTIONS, TABLE
from tfscale.console.settings.written_files import PlacedPath, refuse_overwriting
from tfscale.console.sources.simulation.simulated_faults import Fault
from tfscale.console.tracking.tracker import Destination
from tfscale.core.cluster.cluster_spec import Address
from tfscale.core.cluster.file.find_cluster import cluster_file
from tfscale.core.errors import UsageError
from tfscale.core.settings.precedence import choose, config_path, is_flag


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration of one console."""

    cluster: Path | None = None
    """The cluster file; with None `agent` or `simulate` names the cluster, else it is looked for."""
    agent: Address | None = None
    """Address of any agent, which knows the others."""
    slurm: str | None = None
    """Number of the Slurm job whose agents are asked, empty for the only one of this user; None: no job."""
    simulate: int | None = None
    """Number of simulated workers; None: a real cluster."""
    fault: tuple[Fault, ...] = ()
    """Faults of the simulated workers."""
    rate: float = 10.0
    """Steps a second of simulated workers."""
    ps: int | None = None
    """Parameter servers of the simulated workers; None: they train in step."""
    spares: int | None = None
    """Hosts without a task in the simulated cluster."""
    stages: int | None = None
    """Stages of a pipeline in each simulated worker; None: the model is in one piece."""
    workers: int | None = None
    """Workers of the cluster that `run` starts; with None the program runs alone."""
    insecure: bool = False
    """Dial agents in plain text."""
    ca: Path | None = None
    """With `certificate` and `key`: TLS for agents that are found by `agent`."""
    certificate: Path | None = None
    key: Path | None = None
    runs: Path | None = None
    """Folder in which `watch` keeps its runs; None: the usual one of this user."""
    history: Path | None = None
    """Folder of a watched run with whose past the screen begins; None: that of this user's own watch, if any."""
    record: Path | None = None
    """File of the recording; None: nothing is recorded."""
    read_only: bool = False
    """Refuse every command that reaches into a task."""
    yes: bool = False
    """Restart, stop or start without a question."""
    without: str | None = None
    """Host on which a restart starts no task."""
    serve: Address | None = None
    """Address at which browsers get the screen; None: the screen is on the terminal."""
    metrics: Address | None = None
    """Address of the page for Prometheus, its host empty for the usual one; None: no page."""
    page_port: int = 9471
    """Port of the agents' pages for Prometheus, for a file of targets."""
    headless: bool = False
    """Write lines or tables instead of drawing a screen."""
    plain: bool = False
    """Write the headline and the events as lines of text instead of drawing a screen."""
    tail: int | None = None
    """Lines of a log before its end; None: the command's own number."""
    follow: bool = False
    """Go on with what is written to a log from now on."""
    out: Path | None = None
    """File for the output of a console without a screen; None: stdout."""
    format: str = "jsonl"
    only: str | None = None
    """One of PARTS; None: all."""
    profiles: Path | None = None
    """Folder of profiles that are drawn in a trace."""
    json: bool = False
    """Write the doctor's result as JSON."""
    bandwidth: bool = False
    """Have the doctor measure how much hosts can send to their neighbours."""
    rotate: int | None = None
    """Bytes at which a new file is begun; None: never."""
    keep: int = 5
    """Number of finished files that are kept."""
    once: bool = False
    """Write one snapshot and end."""
    explain: bool = False
    """Have `once` write an explanation for language models."""
    wait: float | None = None
    """Seconds for which `once` waits for a verdict; None: it does not."""
    until: tuple[str, ...] = ()
    """Conditions that end the console."""
    seconds: float | None = None
    """Seconds from the first step of all training tasks to the end of the console."""
    notify: tuple[Receiver, ...] = ()
    """Receivers of alerts."""
    on_event: str | None = None
    """Command to run for each alert."""
    webhook: Receiver | None = None
    """Web address to which each alert is posted."""
    alert_from: str = "warning"
    """Least severity of an alert, one of `SEVERITIES`."""
    cool_down: float = 300.0
    """Seconds in which a finding that was over is told no second time."""
    silence: float = 300.0
    """Seconds without news of a run after which that is told."""
    escalate: tuple[Receiver, ...] = ()
    """Receivers of what still holds long after its alert."""
    escalate_after: float = 900.0
    """Seconds from an alert to its escalation."""
    track: tuple[Destination, ...] = ()
    """Trackers to which the numbers of the run are added."""
    bell: bool = False
    """Ring the terminal's bell at each new serious finding."""
    theme: str | None = None
    """Name of the screen's colours; None: the theme that was chosen last."""
    log_level: str = "info"
    """Lowest level of the console's own log, one of `core.logs.LEVELS`."""
    log_format: str = "text"
    """Format of the console's own log, one of `core.logs.LOG_FORMATS`."""
    log_file: Path | None = None
    """File to append the console's own log to; None: stderr, and nothing while a screen is drawn."""
    ascii: bool = False
    """Draw without Unicode."""

    @property
    def has_screen(self) -> bool:
        return not (self.headless or self.plain)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, the command and the origin of each setting."""

    settings: Settings
    command: str = ""
    """Name of the command; empty: watch."""
    arguments: tuple[str, ...] = ()
    """Arguments of the command."""
    program: tuple[str, ...] = ()
    """Program that the command starts or is about, with its own arguments."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Place of each setting (flag, variable, or file and key); a setting with its default is absent."""
    environment: Mapping[str, str] = field(default_factory=dict)
    file: Path | None = None
    """Configuration file; None where it is absent or has no table for the console."""

    def describe(self) -> str:
        """Return every setting as a line of the configuration file, with its origin."""
        lines = [f"[{TABLE}]" + ("" if self.file else f"  # {config_path(self.environment)} is not there")]
        for setting in fields(Settings):
            value = getattr(self.settings, setting.name)
            line = f"# {setting.name} is not set" if value in (None, ()) else f"{setting.name} = {_toml(value)}"
            lines.append(f"{line:<40}  # {self.origins.get(setting.name, 'built in')}")
        return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(element) for element in value) + "]"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def configure(invocation: Invocation) -> Configuration:
    """Return the command and the settings that flags, variables and the configuration file give. Raises UsageError."""
    chosen = choose(OPTIONS, TABLE, invocation.flags, invocation.environment)
    # A format of reports or traces, in the file or a variable, is for the command that writes them.
    formats = (*FORMATS, *WHOLE_FORMATS) if invocation.command.name == "export" else FORMATS
    if is_flag(chosen.origins.get("format")) and (asked := chosen.values.get("format")) not in formats:
        raise UsageError(f"--format {asked} is for recordings: add --record FILE now, and export FILE then")
    values = {name: value for name, value in chosen.values.items() if name != "format" or value in formats}
    settings = Settings(**values)
    # A setting that is for another command is not refused: the file serves all of them.
    own = Settings(**{name: value for name, value in values.items() if name in invocation.command.options})
    _check(own, chosen.origins, draws=own.has_screen and invocation.command.name != "watch")
    is_flagged = any(map(is_flag, map(chosen.origins.get, _TABLES)))
    writes_tables = "format" in invocation.command.options
    if writes_tables and (invocation.command.name == "export" or not own.has_screen or is_flagged):
        _check_tables(own, chosen.origins)
    refuse_overwriting(_written(own, chosen.origins), _read(own, chosen.origins, invocation))
    origin, name = chosen.origins.get("read_only"), invocation.command.name
    if settings.read_only and invocation.command.name == "run":
        raise UsageError(f"{origin}: run starts and ends tasks; when it runs, ask another console")
    if settings.read_only and invocation.command.gives_orders:
        raise UsageError(f"{origin}: {name} reaches into a task, and this console is read-only")
    return Configuration(
        settings,
        invocation.command.name,
        invocation.arguments,
        program=invocation.program,
        origins=chosen.origins,
        environment=invocation.environment,
        file=chosen.file,
    )


_SIMULATED = ("fault", "ps", "spares", "stages")
"""Settings of a simulation."""


def _check(settings: Settings, origins: Mapping[str, str], *, draws: bool) -> None:
    """Refuse settings that exclude each other; `draws` is True for a screen. Raises UsageError."""
    ways = [name for name in ("cluster", "agent", "slurm", "simulate") if is_flag(origins.get(name))]
    if len(ways) > 1:
        raise UsageError(f"--{ways[0]} and --{ways[1]} are two clusters: give one")
    if settings.simulate is None and (without := [name for name in _SIMULATED if getattr(settings, name)]):
        raise UsageError(f"{origins[without[0]]} needs --simulate")
    if settings.ps and settings.stages:
        raise UsageError("--ps and --stages are two trainings: give one")
    if settings.plain and (tables := [origins[name] for name in ("format", "only") if is_flag(origins.get(name))]):
        raise UsageError(f"--plain is lines of text, and {tables[0]} is for JSON or tables: leave out one of them")
    if (told := [name for name in ("metrics", "track") if is_flag(origins.get(name))]) and (draws or settings.once):
        raise UsageError(f"{origins[told[0]]}: goes with watch, --headless or --plain, not with a screen or --once")
    if settings.history is not None and is_flag(origins["history"]) and (not draws or settings.simulate is not None):
        raise UsageError(f"{origins['history']}: is for the screen of a real cluster")
    if settings.explain and not settings.once:
        raise UsageError(f"{origins['explain']} needs --once")
    if settings.explain and settings.plain:
        raise UsageError(f"{origins['explain']} is JSON, and --plain lines of text: leave out one of them")
    if settings.wait is not None and not settings.once:
        raise UsageError(f"{origins['wait']} needs --once")
    tls = (settings.ca, settings.certificate, settings.key)
    if any(tls) and not all(tls):
        raise UsageError("--ca, --certificate and --key go together: give all three")
    if settings.serve is not None and not settings.serve.is_loopback and not settings.insecure:
        raise UsageError(f"{origins['serve']} {settings.serve}: it has no password and no encryption: add --insecure")
    if settings.serve is not None and settings.record is not None:
        raise UsageError(f"{origins['serve']}: each page is a console of its own: record with another console")
    if settings.serve is not None and (told := [name for name in _CHANNELS if is_flag(origins.get(name))]):
        raise UsageError(
            f"{origins['serve']}: each page is a console of its own: {origins[told[0]]} with another console"
        )


_CHANNELS = ("notify", "escalate", "on_event", "webhook")
"""Settings of receivers of alerts."""
_TABLES = ("format", "only", "rotate")
"""Settings of tables: one of them as a flag has all three checked together."""


def _check_tables(settings: Settings, origins: Mapping[str, str]) -> None:
    """Raise UsageError for tables that a console without a screen cannot write."""
    if settings.profiles is not None and settings.format != "perfetto":
        raise UsageError(f"{origins['profiles']} needs --format perfetto")
    if settings.format in WHOLE_FORMATS:
        _check_whole(settings, origins)
    elif settings.format != "jsonl" and settings.only is None:
        raise UsageError(f"--format {settings.format} holds one table: add --only {' or --only '.join(PARTS)}")
    if settings.format == "parquet" and settings.out is None:
        raise UsageError("--format parquet needs --out")
    if settings.rotate is not None and settings.out is None:
        raise UsageError(f"{origins['rotate']} needs --out")


def _check_whole(settings: Settings, origins: Mapping[str, str]) -> None:
    """Raise UsageError for words that do not go with a format that holds a whole run."""
    for name in ("only", "rotate"):
        if is_flag(origins.get(name)):
            raise UsageError(f"--format {settings.format} holds the whole run: leave out {origins[name]}")
    if settings.format in ("perfetto", "tensorboard") and settings.out is None:
        raise UsageError(f"--format {settings.format} needs --out")
    if settings.format in ("wandb", "mlflow") and settings.out is not None:
        raise UsageError(f"--format {settings.format} goes where its own variables say: leave out --out")


def _written(settings: Settings, origins: Mapping[str, str]) -> Iterator[PlacedPath]:
    """Yield the files that the command writes, including those that `--rotate` keeps."""
    for name in ("out", "record", "log_file"):
        if (path := getattr(settings, name)) is not None:
            yield origins[name], path
    if settings.rotate is not None and (out := settings.out) is not None:
        for number in range(1, settings.keep + 1):
            yield origins["out"], out.with_name(f"{out.name}.{number}")


def _read(settings: Settings, origins: Mapping[str, str], invocation: Invocation) -> Iterator[PlacedPath]:
    """Yield the files that the command reads."""
    for name in ("cluster", "ca", "certificate", "key"):
        if (path := getattr(settings, name)) is not None:
            yield origins[name], path
    if invocation.command.argument == "FILE":
        yield "the recording", Path(invocation.arguments[0])
    yield "the configuration file", config_path(invocation.environment)
    if (found := cluster_file(invocation.environment)) is not None:
        yield "the cluster file", found
