"""Journal of a voter: one JSON file, replaced as a whole before each answer.

A journal that is missing begins a new life, in which the voter abstains at first; a damaged one is an error. So no
voter takes what it has forgotten for what never was.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tfscale.agent.checked_json import checked, with_checksum
from tfscale.agent.consensus.ballot import Ballot
from tfscale.agent.consensus.decision import Decision
from tfscale.agent.consensus.voter import VoterEntry
from tfscale.agent.consensus.votes import Founder
from tfscale.agent.file_thread import DiskHangs, FileThread
from tfscale.agent.kept_file import keep
from tfscale.core.errors import TfscaleError

_VERSION = 1


class VoteJournalError(TfscaleError):
    """A journal of a voter that cannot be read or written."""


class ReplacedFile(Protocol):
    """File that is replaced as a whole; `str` gives its name."""

    def read(self) -> bytes:
        """Return its content. Raises OSError."""

    async def replace(self, text: str) -> None:
        """Return once the new content is on disk. Raises OSError and DiskHangs."""


class VoteFile:
    """File of a voter on this host."""

    def __init__(self, path: Path) -> None:
        self._path, self._files = path, FileThread()

    def __str__(self) -> str:
        return str(self._path)

    def read(self) -> bytes:
        """Return its content. Raises OSError."""
        return self._path.read_bytes()

    async def replace(self, text: str) -> None:
        """Return once the new content is on disk. Raises OSError and DiskHangs."""
        await keep(self._files, self._path, text)


class VoteJournal:
    """Entry of a voter that is kept on disk; `new_life` names it where there is none. Raises VoteJournalError.

    `electorate` is the fingerprint of the voters: votes among others count for nothing.
    """

    def __init__(self, file: ReplacedFile, electorate: str, new_life: str) -> None:
        self._file, self._electorate = file, electorate
        self._is_kept = True
        self.entry = self._read(new_life)

    async def put(self, entry: VoterEntry) -> None:
        """Keep another entry, on disk first. Raises VoteJournalError, and keeps the former one."""
        if self._is_kept and entry == self.entry:
            return
        try:
            await self._file.replace(with_checksum(_document(entry, self._electorate)))
        except (OSError, DiskHangs) as error:
            raise VoteJournalError(f"{self._file}: cannot be written: {error}") from error
        self.entry, self._is_kept = entry, True

    def _read(self, new_life: str) -> VoterEntry:
        try:
            given = checked(self._file.read())
            if "crc32" not in given:
                raise ValueError("it has no checksum")
            entry, electorate = _entry(given), given["electorate"]
        except FileNotFoundError:
            self._is_kept = False
            return VoterEntry(new_life)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise VoteJournalError(
                f"{self._file}: cannot be read ({error}): remove it, and this agent votes again once it has learned "
                "from the others what was decided"
            ) from error
        if electorate != self._electorate:
            raise VoteJournalError(
                f"{self._file}: is of other voters than those of the cluster file: give the file the hosts that it "
                "had, or end all agents and remove this file on each host"
            )
        return entry


def _document(entry: VoterEntry, electorate: str) -> dict[str, object]:
    return {
        "version": _VERSION,
        "electorate": electorate,
        "life": entry.life,
        "is_voting": entry.is_voting,
        "founders": {founder.name: founder.life for founder in entry.founders},
        "promised": [entry.promised.number, entry.promised.proposer],
        "accepted": [entry.accepted.number, entry.accepted.proposer],
        "decided": entry.decision.version,
        "value": b64encode(entry.decision.value).decode(),
        "changes": list(entry.decision.changes),
    }


def _entry(given: Mapping[str, Any]) -> VoterEntry:
    if given["version"] > _VERSION:
        raise ValueError("a newer version of tfscale has written it")
    return VoterEntry(
        life=given["life"],
        is_voting=given["is_voting"],
        founders=tuple(Founder(name, life) for name, life in given["founders"].items()),
        promised=Ballot(*given["promised"]),
        accepted=Ballot(*given["accepted"]),
        decision=Decision(given["decided"], b64decode(given["value"]), tuple(given["changes"])),
    )
