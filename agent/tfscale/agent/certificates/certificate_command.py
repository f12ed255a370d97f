"""`tfscale-agent certificates`: an authority, and a folder of three files for each host and each person.

It is imported only for this command: agents read certificates without a library for them.
"""

from __future__ import annotations

import ipaddress
import os
import re
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tfscale.agent.certificates.authority import Authority, Signed
from tfscale.core.access.caller_role import CallerRole
from tfscale.core.errors import UsageError

COMMAND = "certificates"
_AUTHORITY = ("ca.pem", "ca.key")
_DAYS = 365
_MOST_DAYS = 3650
_HOST = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*", re.ASCII)
_PERSON = re.compile(r"\w[\w.@+-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Owner:
    """Receiver of a certificate."""

    name: str
    """Name of the folder, and common name of the certificate."""
    role: CallerRole
    hosts: tuple[str, ...] = ()
    """Names and addresses of an agent's host, empty for a person."""


def main(arguments: Sequence[str]) -> int:
    """Make certificates, say what goes where, and return the exit status. Raises UsageError."""
    flags = _parser().parse_args(arguments)
    owners = _owners(flags)
    if not owners:
        raise UsageError("nobody to make a certificate for: give --hosts, --operators or --observers")
    print(make_certificates(owners, flags.out, flags.days, _authority_files(flags), datetime.now(UTC)))
    return 0


def make_certificates(
    owners: Sequence[Owner], out: Path, days: int, files: tuple[Path, Path] | None, now: datetime
) -> str:
    """Write the folders, and return a text about them. `files` are those of an existing authority, None without one.

    Raises UsageError, and leaves existing files as they are.
    """
    for path in [out / owner.name for owner in owners] + ([out / name for name in _AUTHORITY] if files is None else []):
        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} is there already, and is not overwritten: give another --out, or move it away")
    authority = Authority.new(now) if files is None else Authority.read(*files, now)
    signed = [(owner, authority.sign(owner.name, owner.role, owner.hosts, days)) for owner in owners]
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        if files is None:
            for name, content in zip(_AUTHORITY, (authority.certificate, authority.key), strict=True):
                _write(out / name, content)
        for owner, made in signed:
            _write_folder(out / owner.name, authority, made)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None
    return _summary(signed, out, out / _AUTHORITY[1] if files is None else files[1])


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog=f"tfscale-agent {COMMAND}",
        description="Make a certificate authority, and certificates for agents and for people. Where --out has an "
        "authority already (ca.pem, ca.key), it signs the new ones.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--hosts", default="", metavar="A,B", help="hosts of agents, as the cluster file has them; A=B for two names"
    )
    parser.add_argument("--operators", default="", metavar="NAMES", help="people who may give orders")
    parser.add_argument("--observers", default="", metavar="NAMES", help="people who may only look")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of them all")
    parser.add_argument("--days", type=int, default=_DAYS, metavar="N", help=f"validity in days ({_DAYS})")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="certificate of an authority elsewhere")
    parser.add_argument("--ca-key", type=Path, metavar="FILE", help="its key")
    return parser


def _owners(flags: Namespace) -> list[Owner]:
    if not 1 <= flags.days <= _MOST_DAYS:
        raise UsageError(f"--days: {flags.days} is not a number from 1 to {_MOST_DAYS}")
    owners = [_agent(entry) for entry in _entries(flags.hosts)]
    owners += [_person(name, CallerRole.OPERATOR, "--operators") for name in _entries(flags.operators)]
    owners += [_person(name, CallerRole.OBSERVER, "--observers") for name in _entries(flags.observers)]
    for name, number in Counter(owner.name for owner in owners).items():
        if number > 1:
            raise UsageError(f"{name} is there {number} times: each needs a name of its own")
    return owners


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _agent(entry: str) -> Owner:
    hosts = tuple(_checked_host(host.strip().strip("[]")) for host in entry.split("="))
    return Owner(hosts[0], CallerRole.AGENT, hosts)


def _checked_host(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        if _HOST.fullmatch(host) is None or host in _AUTHORITY:
            raise UsageError(f"--hosts: {host!r} is neither the name of a host nor an IP address") from None
        return host


def _person(name: str, role: CallerRole, flag: str) -> Owner:
    if _PERSON.fullmatch(name) is None or name in _AUTHORITY:
        raise UsageError(f"{flag}: {name!r} must be letters, digits, '_', and after the first also . @ + -")
    return Owner(name, role)


def _authority_files(flags: Namespace) -> tuple[Path, Path] | None:
    if (flags.ca is None) != (flags.ca_key is None):
        raise UsageError("--ca and --ca-key: give both, or neither")
    if flags.ca is not None:
        return flags.ca, flags.ca_key
    found = flags.out / _AUTHORITY[0], flags.out / _AUTHORITY[1]
    return found if all(path.is_file() for path in found) else None


def _write_folder(folder: Path, authority: Authority, made: Signed) -> None:
    folder.mkdir(mode=0o700)
    for name, content in (("ca.pem", authority.certificate), ("own.pem", made.certificate), ("own.key", made.key)):
        _write(folder / name, content)


def _write(path: Path, content: bytes) -> None:
    """Write a new file. Raises OSError, also where the file exists."""
    mode = 0o600 if path.suffix == ".key" else 0o644
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _summary(signed: Sequence[tuple[Owner, Signed]], out: Path, key: Path) -> str:
    lines = [
        f"{out / owner.name}/  {owner.role}, until {made.end:%Y-%m-%d}: to "
        + (f"host {owner.name}" if owner.hosts else f"{owner.name}'s machine")
        for owner, made in signed
    ]
    return "\n".join(
        [
            *lines,
            "Copy the three files of each folder beside cluster.toml, and add to that, everywhere the same:",
            "[tls]",
            'ca = "ca.pem"',
            'certificate = "own.pem"',
            'key = "own.key"',
            f"{key} signs further ones: keep it off the hosts.",
        ]
    )
