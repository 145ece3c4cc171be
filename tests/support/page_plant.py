"""A small plant for the page: the agent's own samples of every kind of event, alarms, and a server around them."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from agent.page.api import Accepted, Command, SentCommand
from agent.page.app import PageParts, PageRoutes, Rebuild
from agent.page.hub import Hub, StreamLimits
from agent.page.letters import letter_of
from agent.page.sessions import Sessions
from agent.page.signals import GroupFacts
from agent.page.state import Bounds, PageState
from agent.page.static_files import StaticFiles
from agent.page.topic_records import TopicRecords
from agent.page.traces import Recent
from agent.settings import ResolvedChannel
from agent.web.access import Access
from agent.web.server import Serving, listen, make_app, serve
from agent.web.users import User, UsersFile
from anchormoe.windows import FillRule, Grid, WindowShape
from connectors.records import Message, Partition, Record
from tests.support.event_samples import samples

SOURCE = "/anchormoe-agent/plant"
EVENTS = Partition("events", 0)
CHANNELS = ("p", "q")


def group_facts(name: str = "pumps") -> GroupFacts:
    channels = tuple(
        ResolvedChannel(one, "bar", one, 1.0, 0.0, (0.0, 10.0), FillRule("hold", 3), f"channel {one}")
        for one in CHANNELS
    )
    return GroupFacts(
        name, ("a", "b", "c"), channels, ("bar", "bar"), Grid(10**9), WindowShape(20, 5, lateness=2), None
    )


def record(message: Message, offset: int = 0) -> Record:
    return Record(offset, 1_700_000_000_000, message.key, message.value, message.headers)


def page_state(*, bounds: Bounds | None = None, groups: tuple[str, ...] = ("pumps",)) -> PageState:
    return PageState([group_facts(name) for name in groups], namespace="plant", kind="topics", bounds=bounds)


def sample_source() -> str:
    return next(value.decode() for name, value in samples().events[0].headers if name == "ce_source")


def with_samples(state: PageState) -> TopicRecords:
    """Every kind of event that the agent publishes, its last states and dead letters."""
    records = TopicRecords(state, sample_source(), lambda data: f"{data['asset']}: {data['type']}")
    for offset, message in enumerate(samples().events):
        records.event(EVENTS, record(message, offset))
    for message in samples().states:
        records.state(Partition("states", 0), record(message))
    for letter in samples().dead_letters:
        state.add_letter(letter_of(letter.message))
    state.set_link("live")
    state.fleet.advance()
    return records


def alarm(name: str = "wear:pump-1", **changes: Any) -> dict[str, Any]:
    rule, asset = name.split(":", 1)
    return {
        "alarm": name, "console": "main", "rule": rule, "asset": asset, "channel": None, "priority": "high",
        "kind": "process", "state": "unacknowledged", "active": True, "acknowledged": False,
        "raised": "2026-11-18T10:00:00Z", "returned": None, "acknowledged_at": None, "changed": "2026-11-18T10:00:00Z",
        "occurrences": 1, "chattering": False, "held": False, "shelved": None, "out_of_service": None,
        "suppressed_by": [], "members": [], "rationale": None, "raised_by": None, "strongest": None,
        "notice": "Decision support only.", **changes,
    }  # fmt: skip


@dataclass(slots=True)
class PageServer:
    """A page on a real socket. `sent` are the commands that reached the log."""

    url: str
    state: PageState
    hub: Hub
    sent: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    stop: Callable[[], Awaitable[float]] | None = None

    def client(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=60, **options)


@asynccontextmanager
async def serving_page(
    state: PageState | None = None,
    *,
    users: Path | None = None,
    token: str | None = None,
    limits: StreamLimits | None = None,
    static: StaticFiles | None = None,
    port: int = 0,
    serving: Serving | None = None,
    rebuild: Rebuild | None = None,
) -> AsyncIterator[PageServer]:
    if state is None:
        state = page_state()
        with_samples(state)
    hub = Hub(state, limits)
    listener = listen("127.0.0.1", port)
    server = PageServer(f"http://127.0.0.1:{listener.getsockname()[1]}", state, hub)

    async def send(user: User, verb: str, body: Command) -> Accepted:
        server.sent.append((user.name, verb, tuple(body.alarms)))
        return Accepted(
            by=user.name, commands=[SentCommand(alarm=one, command=f"c-{one}", error="") for one in body.alarms]
        )

    sessions = Sessions(Access(lambda: token, None if users is None else UsersFile(users)))
    parts = PageParts(state, hub, sessions, rebuild=rebuild, send=send, max_shelving_s=8 * 3600)
    app = make_app(PageRoutes(parts, static).routes())
    configured = replace(serving or Serving(), before_stop=hub.stop, max_connections=200)
    async with asyncio.TaskGroup() as group:
        beating = group.create_task(hub.run())
        task = group.create_task(serve(app, listener, configured))

        async def stop() -> float:
            """Seconds that it took."""
            begun = time.monotonic()
            task.cancel()
            await asyncio.wait([task])
            return time.monotonic() - begun

        server.stop = stop
        await asyncio.sleep(0)
        yield server
        beating.cancel()
        task.cancel()


async def eventually(condition: Callable[[], object], seconds: float = 60) -> None:
    """Returns when it holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # what is waited for has no event
            await asyncio.sleep(0.02)


def waves(asset: str) -> Recent | None:
    """Samples that go on with the clock, with a gap in the second channel."""
    end = int(time.time())
    steps = np.arange(end - 40, end)
    values = np.stack([5 + np.sin(steps / 5), 5 + np.cos(steps / 7)]).astype(np.float32)
    values[1, 10:18] = np.nan
    return Recent("pumps", end, values) if asset.startswith("p") else None


RATIONALE = {
    "cause": "A bearing is worn.",
    "consequence": "The bearing seizes within days.",
    "action": "Plan the exchange of the bearing.",
    "respond_within_s": 600,
}


def busy_state() -> PageState:
    """Every kind of event, samples that go on, alarms of every priority, one of them on the shelf, and an audit."""
    state = page_state()
    with_samples(state)
    state.recent = waves
    now = datetime.now(UTC).replace(microsecond=0)
    raised = now.isoformat().replace("+00:00", "Z")
    until = (now + timedelta(minutes=10)).isoformat().replace("+00:00", "Z")
    hidden = {"by": "ada", "why": "waits for a part", "at": raised, "until": until}
    state.add_alarm(alarm("wear:pump-1", raised=raised, rationale=RATIONALE))
    state.add_alarm(alarm("noise:pump-1", raised=raised, priority="medium", state="acknowledged", acknowledged=True))
    state.add_alarm(alarm("leak:pümp-2", raised=raised, priority="low"))
    state.add_alarm(alarm("heat:pümp-2", raised=raised, state="shelved", shelved=hidden))
    state.set_alarm_link("live")
    state.fleet.advance(force=True)
    return state


def audit_record(input: str, outcome: str = "done", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"audit-{input}", "input": input, "at": "2026-11-18T10:00:00Z", "console": "main", "act": "ack",
        "alarm": "wear:pump-1", "by": "ada", "why": "", "outcome": outcome, "reason": "", **changes,
    }  # fmt: skip


async def _main(port: int) -> None:
    """`python -m tests.support.page_plant`: the page with samples, to look at without an agent."""
    async with serving_page(busy_state(), port=port) as server:
        print(server.url)
        await asyncio.Event().wait()


if __name__ == "__main__":
    import sys

    asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
