"""Matrix of the links between hosts: how busy each is, from the host of the row to that of the column."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from tfscale.console.tui.widgets.appearance.theme import HEAT, Appearance
from tfscale.console.tui.widgets.hosts.host_facts import HostFacts, HostLink, Hosts
from tfscale.core.records.host_sample import PeerLink
from tfscale.core.text import bit_rate, duration, percent

_WIDE = 5
"""Cells of a link with its share in hundredths."""
_LIGHT = 0.6
"""Share from which on a cell is so light that its text must be dark."""


def matrix(hosts: Hosts, cursor: HostFacts | None, width: int, height: int, appearance: Appearance) -> list[Text]:
    """Return the matrix of some links in at most `height` lines; of many hosts those around the cursor."""
    linked = {end for ends in hosts.links for end in ends}
    facts = [each for each in hosts.facts if each.address in linked]
    digits, address = len(str(len(hosts.facts))), min(24, max(len(each.address) for each in facts))
    label = digits + address + 3
    shown = _around(facts, cursor, max(1, min(height - 1, (width - label) // _WIDE)))
    chosen = cursor.address if cursor else ""
    head = Text(" " * label, no_wrap=True)
    for each in shown:
        mark, style = _sign(each, hosts, chosen, appearance)
        head.append(f"{mark}{each.place}".rjust(_WIDE - 1), style=style).append(" ")
    lines = [head]
    for sender in shown:
        mark, style = _sign(sender, hosts, chosen, appearance)
        line = Text(no_wrap=True)
        line.append(f"{mark or ' '}{sender.place:>{digits}} {sender.address[:address]:<{address}} ", style=style)
        for receiver in shown:
            link = hosts.links.get((sender.address, receiver.address))
            line.append_text(_cell(link, sender is receiver, appearance)).append(" ")
        lines.append(line)
    return lines


def _sign(facts: HostFacts, hosts: Hosts, chosen: str, appearance: Appearance) -> tuple[str, str]:
    """Return mark and style of a host's name: a slow link is marked at both of its ends."""
    trouble = next((link.trouble for link in hosts.troubled.get(facts.address, ())), None)
    if trouble is not None:
        return appearance.glyphs.alarm, f"bold {appearance.severity(trouble.severity)}"
    return "", f"bold {appearance.palette.text}" if facts.address == chosen else appearance.palette.dim


def _around(facts: Sequence[HostFacts], cursor: HostFacts | None, most: int) -> Sequence[HostFacts]:
    """Return at most `most` hosts, with that under the cursor in their middle."""
    at = next((index for index, each in enumerate(facts) if cursor and each.address == cursor.address), 0)
    first = max(0, min(at - most // 2, len(facts) - most))
    return facts[first : first + most]


def _cell(link: HostLink | None, is_own: bool, appearance: Appearance) -> Text:
    palette = appearance.palette
    if link is None:
        return Text((appearance.glyphs.note if not is_own else appearance.glyphs.rule).rjust(_WIDE - 1), palette.faint)
    words = percent(link.own.busy).rjust(_WIDE - 1)
    if link.trouble is not None:
        marked = f"{appearance.glyphs.alarm}{words.strip():>{_WIDE - 2}}"[: _WIDE - 1]
        return Text(marked, style=f"bold {appearance.severity(link.trouble.severity)}")
    if appearance.letters:
        return Text(words, style=palette.text)
    level = HEAT[min(len(HEAT) - 1, int(link.own.busy * len(HEAT)))]
    front = "#000000" if link.own.busy >= _LIGHT else "#ffffff"
    return Text(words, style=f"{front} on {level}")


def link_words(link: HostLink, address: str) -> str:
    """Return a link in words, from the view of one of its hosts."""
    way = f"to {link.receiver}" if link.sender == address else f"from {link.sender}"
    return f"{way}: {peer_words(link.own)}"


def peer_words(link: PeerLink) -> str:
    """Return what TCP measured on a link."""
    lost = f", {link.retransmitted:.1%} lost" if link.retransmitted else ""
    return (
        f"{bit_rate(8 * link.sent)} sent, busy {percent(link.busy)} of the time, "
        f"round trip {duration(link.round_trip)}{lost}"
    )
