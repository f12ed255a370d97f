"""The operator's controls of a replay: from event to event, to a time, slower and faster."""

from __future__ import annotations

import re
import time

from tfscale.console.engine.model import Snapshot
from tfscale.console.sources.recorded import Player
from tfscale.core.errors import UsageError
from tfscale.core.text import moment

_CLOCK = re.compile(r"(?:(\d{4}-\d{2}-\d{2})[ T]+)?(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")
_OFFSET = re.compile(r"([+-])\s*(\d+(?:\.\d+)?)\s*([smh]?)")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
MOMENTS = "12:03:20, 2026-11-27 12:03, +90s, -5m or 50%"
"""Moments as people name them."""
_SAME = 1.5
"""Seconds before now within which an event counts as the present one."""


class ReplayControls:
    """Controls of a player, which also watch its snapshots."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self._seeks_after: float | None = None
        """Time after which the next event is sought, None while none is."""
        self._is_damage_reported = False

    def watch(self, snapshot: Snapshot) -> None:
        """Pause the player where the sought event is."""
        after = self._seeks_after
        if after is None:
            return
        if any(entry.at > after for entry in snapshot.timeline) and snapshot.at > after:
            self._seeks_after = None
            self.player.pause(True)

    def next_event(self, snapshot: Snapshot) -> None:
        """Go to the next line of the event pane, and pause there."""
        self._seeks_after = max((entry.at for entry in snapshot.timeline), default=0.0)
        self._seeks_after = max(self._seeks_after, snapshot.at)
        self.player.play_fast()

    def last_event(self, snapshot: Snapshot) -> None:
        """Go back to the previous line of the event pane, or to the beginning, and pause there."""
        before = [entry.at for entry in snapshot.timeline if entry.at < self.player.now() - _SAME]
        self.player.seek(max(before, default=self.player.position.begin))
        self.player.hold()

    def go_to(self, text: str) -> None:
        """Go to `12:03`, `12:03:20` (the first such time), `2026-11-27 12:03`, `+90s`, `-5m` (from here) or `50%`.

        Raises UsageError for what is no moment, and for one with a date that is not in the recording.
        """
        self.player.seek(self._time(text.strip()))

    def title(self) -> str:
        """Return date, position and speed in a few words."""
        date = time.strftime("%Y-%m-%d", time.localtime(self.player.position.at))
        return f"{date}, {self.place()}"

    def place(self) -> str:
        """Return position and speed in fewer words; on the way to another time, what is looked for."""
        position = self.player.position
        length = max(position.end - position.begin, 1e-9)
        done = f"{(position.at - position.begin) / length:.0%}"
        if self.player.is_catching_up:
            return f"{done}, {'looking for an event' if self._seeks_after is not None else 'on the way'}"
        return done if position.is_paused else f"{done} {position.speed:g}x"

    def keys(self, *, has_title: bool) -> tuple[tuple[str, str], ...]:
        """Return the keys of a replay with their meanings; before them the position, where no title has it."""
        place = () if has_title else (("replay", self.place()),)
        goes_on = "play" if self.player.position.is_paused else "pause"
        return (*place, ("p", goes_on), ("n N", "events"), ("[ ]", "seconds"), ("+ -", "speed"), (":", "a time"))

    def new_damage(self) -> str | None:
        """Return the damage of the file, once; else None."""
        if self._is_damage_reported or self.player.damage is None:
            return None
        self._is_damage_reported = True
        return self.player.damage

    def _time(self, text: str) -> float:
        position = self.player.position
        if (match := _CLOCK.fullmatch(text)) is not None:
            second = float(match[4] or 0.0)
            if match[1] is None:
                return _clock(position.begin, int(match[2]), int(match[3]), second)
            return self._dated(text, f"{match[1]} {match[2]}:{match[3]}", second)
        if (match := _OFFSET.fullmatch(text)) is not None:
            return position.at + float(match[1] + match[2]) * _SECONDS[match[3]]
        if text.endswith("%") and text[:-1].replace(".", "", 1).isdecimal():
            return position.begin + (position.end - position.begin) * min(float(text[:-1]), 100.0) / 100
        raise UsageError(f"{text!r} is no moment: write {MOMENTS}")

    def _dated(self, text: str, minute: str, second: float) -> float:
        """Return the Unix time of `2026-11-27 12:03` and some seconds."""
        try:
            at = time.mktime(time.strptime(minute, "%Y-%m-%d %H:%M")) + second
        except (ValueError, OverflowError):
            raise UsageError(f"{text!r} is no moment: no calendar has it") from None
        begin, end = self.player.position.begin, self.player.position.end
        if not begin - 60 <= at <= end:
            raise UsageError(f"{text!r} is not in the recording, which goes from {moment(begin)} to {moment(end)}")
        return at


def _clock(begin: float, hour: int, minute: int, second: float) -> float:
    """Return the first Unix time since `begin` at which the clock showed this time."""
    day = time.localtime(begin)
    at = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, hour, minute, 0, 0, 0, -1)) + second
    return at if at >= begin - 60 else at + 86_400
