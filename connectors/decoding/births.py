"""What the births of a Sparkplug edge node and its devices have defined, by the offset of the log. Pure.

DATA carries aliases that only the last BIRTH explains, so that the meaning of a record depends on the log before it. It
depends on nothing else: tables are kept with the offset of the birth that defined them, and a record is read with the
last one before it, however far the reading has got. What is stored with the windows are the tables in force at their
position.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

import msgspec

Place = tuple[str, str]
"""Edge node (group/node), device; the device of the node itself is empty."""
MAX_NODES = 10_000
MAX_RUNS = 256
"""Of aliases one after the other. A birth whose aliases lie in more of them is not asked whether it has one."""
Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Birth:
    """From `offset` on. `names` by alias; None: dead. `kinds` are the datatypes by name; `session` is bdSeq, of a node.

    `aliases` are all that it has defined, wanted or not, from first to last; None where that is not known.
    """

    offset: int
    names: Mapping[int, str] | None
    session: int | None = None
    kinds: Mapping[str, int] = field(default_factory=dict)
    aliases: Runs | None = None

    def lacks(self, alias: int) -> bool:
        """True for an alias that it has not defined: what it means was said in a birth that is not in the log."""
        if self.aliases is None:
            return False
        at = bisect_right(self.aliases, (alias, inf))
        return not at or alias > self.aliases[at - 1][1]


class _Stored(msgspec.Struct):
    node: str
    device: str
    offset: int
    names: dict[int, str] | None = None
    session: int | None = None
    kinds: dict[str, int] = {}
    aliases: Runs | None = None


_decode = msgspec.json.Decoder(list[_Stored]).decode


@dataclass(slots=True)
class BirthTables:
    """Of one partition. Only the names that some channel is read from are kept: `wanted`."""

    wanted: Collection[str]
    _births: dict[Place, list[Birth]] = field(default_factory=dict)
    _devices: dict[str, set[str]] = field(default_factory=dict)
    _stored: tuple[int, bytes | None] | None = None

    def born(
        self, place: Place, offset: int, names: Mapping[int, str], kinds: Mapping[str, int], session: int | None
    ) -> None:
        """A node's birth ends what its devices had defined: they are born again after it."""
        kept = {alias: name for alias, name in names.items() if name in self.wanted}
        own = {name: kind for name, kind in kinds.items() if name in self.wanted}
        self._add(place, Birth(offset, kept, session, own, _runs(names)))
        if not place[1]:
            self._end_devices(place[0], offset)

    def died(self, place: Place, offset: int, session: int | None) -> bool:
        """False for the death of an earlier session, which a broker may deliver after the new birth."""
        last = self.find(place, offset)
        if not place[1] and last is not None and None not in (session, last.session) and session != last.session:
            return False
        if place in self._births:
            self._add(place, Birth(offset, None))
        if not place[1]:
            self._end_devices(place[0], offset)
        return True

    def find(self, place: Place, offset: int) -> Birth | None:
        """The last one before an offset."""
        births = self._births.get(place)
        if not births:
            return None
        at = bisect_left(births, offset, key=lambda birth: birth.offset)
        return births[at - 1] if at else None

    def stored(self, position: int) -> bytes | None:
        """The tables in force at a position, to be stored with its windows; forgets what came before them."""
        if self._stored is not None and self._stored[0] == position:
            return self._stored[1]
        found = [
            _Stored(
                node, device, birth.offset, dict(birth.names or {}), birth.session, dict(birth.kinds), birth.aliases
            )
            for (node, device), birth in self._in_force(position)
        ]
        document = msgspec.json.encode(found) if found else None
        self._stored = position, document
        return document

    def oldest(self, position: int) -> int | None:
        """The offset of the oldest birth that is in force: a rebuild must not begin after it."""
        return min((birth.offset for _, birth in self._in_force(position) if birth.names is not None), default=None)

    def restore(self, document: bytes | None) -> None:
        """Raises nothing: what cannot be read is as if it were not there, and the log tells again."""
        if document is None:
            return
        try:
            entries = _decode(document)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        for each in entries[:MAX_NODES]:
            self._add((each.node, each.device), Birth(each.offset, each.names, each.session, each.kinds, each.aliases))

    def _in_force(self, position: int) -> Iterator[tuple[Place, Birth]]:
        for place, births in list(self._births.items()):
            at = bisect_left(births, position, key=lambda birth: birth.offset)
            if at > 1:
                del births[: at - 1]
            if at and births[0].names is not None:
                yield place, births[0]
            elif at and len(births) == 1:
                self._forget(place)

    def _forget(self, place: Place) -> None:
        """The dead say no more than those that nobody has heard of, and there is room for so many only."""
        del self._births[place]
        devices = self._devices.get(place[0], set())
        devices.discard(place[1])
        if not devices:
            self._devices.pop(place[0], None)

    def _add(self, place: Place, birth: Birth) -> None:
        births = self._births.get(place)
        if births is None:
            if len(self._births) >= MAX_NODES:
                return
            births = self._births[place] = []
        if not births or births[-1].offset < birth.offset:
            births.append(birth)
            self._stored = None
        if place[1]:
            self._devices.setdefault(place[0], set()).add(place[1])

    def _end_devices(self, node: str, offset: int) -> None:
        """Only of those that live: else births of a node with many devices would cost each device an entry each."""
        for device in self._devices.get(node, ()):
            if self._births[node, device][-1].names is not None:
                self._add((node, device), Birth(offset, None))


def _runs(aliases: Iterable[int]) -> Runs | None:
    """From first to last, of numbers one after the other."""
    runs: list[tuple[int, int]] = []
    for alias in sorted(aliases):
        if runs and alias == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], alias
        else:
            runs.append((alias, alias))
    return tuple(runs) if len(runs) <= MAX_RUNS else None
