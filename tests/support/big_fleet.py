"""A page that is fed by ten thousand simulated assets: a tenth of them changes every second."""

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson

from agent.page.history import Wanted
from agent.page.state import Bounds, PageState, WindowFacts, event_head
from agent.page.stored_event import StoredEvent
from tests.support.page_plant import page_state, with_samples

GROUPS = tuple(f"hall-{number}" for number in range(4))
STATES = ("normal",) * 94 + ("worn",) * 3 + ("blocked",) * 2 + ("unknown",)
"""Most are well; as far as something is odd, there is a reason in words."""
_BEAT_S = 0.25


def big_state(assets: int = 10_000) -> PageState:
    state = page_state(groups=GROUPS, bounds=Bounds(assets=assets + 10))
    now_ms = int(time.time() * 1000)
    for number in range(assets):
        group = GROUPS[number * len(GROUPS) // assets]
        state.add_window(WindowFacts(asset_name(number), group, "normal", now_ms - 3_600_000, now_ms, 0.98))
    state.set_link("live")
    state.fleet.advance()
    return state


def asset_name(number: int) -> str:
    return f"pump-{number:05d}"


@dataclass(slots=True)
class Changes:
    """`share` of all assets get another window per second, most of them another probability, some another state."""

    state: PageState
    share: float = 0.1
    seed: int = 7
    made: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    async def run(self) -> None:
        """Until cancelled."""
        rows = self.state.fleet.rows
        while True:
            await asyncio.sleep(_BEAT_S)
            for at in self._random.sample(range(len(rows)), int(len(rows) * self.share * _BEAT_S)):
                self.change(rows[at].asset, self.state.fleet.groups[rows[at].group].name)

    def change(self, asset: str, group: str) -> None:
        now_ms = int(time.time() * 1000)
        said = self._random.choice(STATES)
        row = self.state.fleet.row(asset)
        same = row is not None and row.state == self.state.fleet.state_index(said)
        since_ms = row.since_ms if row is not None and same else now_ms
        reason = None if said == "normal" else "flow below normal 10:49:28–10:49:30"
        self.state.add_window(WindowFacts(asset, group, said, since_ms, now_ms, self._random.uniform(0.5, 1), reason))
        self.made += 1


@asynccontextmanager
async def changing(state: PageState, share: float = 0.1) -> AsyncIterator[Changes]:
    changes = Changes(state, share)
    task = asyncio.create_task(changes.run())
    try:
        yield changes
    finally:
        task.cancel()


def with_history(state: PageState, events: int) -> None:
    """Changes of state with evidence, spread over the assets; no two of them have the same figures."""
    small, chance = page_state(), random.Random(11)
    with_samples(small)
    heads, _ = small.history.find(Wanted(), 500)
    found = [small.history.get(head.id) for head in heads]
    known = [one.raw for one in found if one is not None and b'"evidence":{' in one.raw]
    rows, begun_ms = state.fleet.rows, int(time.time() * 1000) - events
    for number in range(events):
        row = rows[number % len(rows)]
        data = orjson.loads(_FIGURES.sub(lambda figures: _others(figures, chance), known[number % len(known)]))
        data["asset"], data["group"] = row.asset, state.fleet.groups[row.group].name
        head = event_head(f"{chance.getrandbits(128):032x}", begun_ms + number, data, version=2)
        state.history.add(StoredEvent(head, orjson.dumps(data)))
        at = begun_ms + number
        state.history.add_state(row.asset, data["group"], f"state-{number // len(rows) % 3}", start_ms=at, end_ms=at)


_FIGURES = re.compile(rb"(?<=\d\.)\d+")


def _others(figures: re.Match[bytes], chance: random.Random) -> bytes:
    """As many, so that the event is as long as before; the last one is odd: a 0 would be dropped."""
    many = len(figures.group())
    return b"%0*d" % (many, chance.randrange(10**many) | 1)
