"""Notifier: delivers messages to all receivers, each at its own pace, without delaying the console."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence

from tfscale.console.alerts.message import Message
from tfscale.console.alerts.receiver_channels import Channel, NotSentError

_logger = logging.getLogger(__name__)
WAITING = 64
"""Messages that may wait for one receiver; beyond it the oldest are dropped, and the next message names them."""
TRIES = 3
_AT_THE_END = 10.0
"""Seconds that the end of the console waits for messages under way."""
_SILENTLY = 1.0
"""Seconds of it after which it says for whom."""
_MOST_MISSED = 5
"""Titles of lost messages that the next message names."""


class Notifier:
    """Reporter of messages to all channels; those of `escalation` get only what is escalated."""

    def __init__(
        self,
        channels: Sequence[Channel] = (),
        escalation: Sequence[Channel] = (),
        tell: Callable[[str], None] = _logger.warning,
    ) -> None:
        """Take the channels; `tell` is called with a line about a receiver that fails, and once it works again."""
        self._posts = [_Post(channel, self._tell) for channel in channels]
        self._escalation = [_Post(channel, self._tell) for channel in escalation]
        self.tell = tell
        self._closed = asyncio.Event()

    @property
    def has_escalation(self) -> bool:
        return bool(self._escalation)

    @property
    def channels(self) -> list[Channel]:
        """All channels."""
        return [post.channel for post in (*self._posts, *self._escalation)]

    def send(self, message: Message) -> None:
        """Have a message sent."""
        for post in self._posts:
            post.put(message)

    def escalate(self, message: Message) -> None:
        """Have a message sent to the receivers of what lasts."""
        for post in self._escalation:
            post.put(message)

    def close(self) -> None:
        """End `run` once all waiting messages are sent, or after ten seconds."""
        self._closed.set()

    async def run(self) -> None:
        """Send messages until closed."""
        posts = [*self._posts, *self._escalation]
        running = [asyncio.create_task(post.run()) for post in posts]
        try:
            await self._closed.wait()
            if not await _all_sent(posts, min(_SILENTLY, _AT_THE_END)):
                late = ", ".join(post.channel.name for post in posts if not post.is_idle)
                self.tell(f"waits up to {_AT_THE_END:.0f} s for the last alerts to be sent: {late}")
                await _all_sent(posts, _AT_THE_END - _SILENTLY)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        for post in posts:
            post.tell_unsent()

    def _tell(self, text: str) -> None:
        self.tell(text)


async def _all_sent(posts: Sequence[_Post], patience: float) -> bool:
    """Wait for so many seconds until nothing waits; return whether that is so."""
    if waiting := [asyncio.create_task(post.sent()) for post in posts]:
        await asyncio.wait(waiting, timeout=patience)
    return all(post.is_idle for post in posts)


class _Post:
    """Messages that wait for one receiver."""

    def __init__(self, channel: Channel, tell: Callable[[str], None]) -> None:
        self.channel, self._tell = channel, tell
        self._waiting: deque[Message] = deque()
        self._sending: Message | None = None
        self._filled, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._missed: list[str] = []
        """Titles of the messages that were lost since the last that arrived."""

    def put(self, message: Message) -> None:
        self._waiting += message.apart() if self.channel.is_program else (message,)
        while len(self._waiting) > WAITING:
            self._missed.append(self._waiting.popleft().title)
        self._filled.set()
        self._idle.clear()

    async def run(self) -> None:
        """Send what waits, until cancelled."""
        while True:
            await self._filled.wait()
            while self._waiting:
                self._sending = self._waiting.popleft()
                await self._send(self._sending)
                self._sending = None
            self._filled.clear()
            self._idle.set()

    @property
    def is_idle(self) -> bool:
        return self._idle.is_set()

    async def sent(self) -> None:
        """Return when nothing waits."""
        await self._idle.wait()

    async def _send(self, message: Message) -> None:
        titles = self._missed[-_MOST_MISSED:]
        if len(self._missed) > _MOST_MISSED:
            titles.insert(0, f"{len(self._missed) - _MOST_MISSED} older ones")
        why = await self._tried(message.after(titles))
        if why is None:
            if self._missed:
                self._tell(f"{self.channel.name}: alerts arrive again; {len(self._missed)} before did not")
            self._missed.clear()
            return
        if not self._missed:
            self._tell(f"{self.channel.name}: {why}: an alert did not arrive ({message.title})")
        self._missed.append(message.title)

    async def _tried(self, message: Message) -> str | None:
        """Send a message, up to three times, and return why it did not arrive; None if it did."""
        why = ""
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(2 ** (attempt - 1) * random.uniform(0.5, 1.0))
            try:
                await self.channel.send(message)
                return None
            except NotSentError as error:
                why = str(error)
                if error.is_final:
                    break
            except Exception as error:
                return f"{type(error).__name__}"
        return why

    def tell_unsent(self) -> None:
        """Tell how many messages still waited at the end."""
        if number := len(self._waiting) + (self._sending is not None):
            self._tell(
                f"{self.channel.name}: {number} {'alert was' if number == 1 else 'alerts were'} not sent in time"
            )
