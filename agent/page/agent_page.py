"""The page inside `run`: its parts, made from the plant and the pipeline."""

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import Any

from starlette.routing import BaseRoute

from agent.page.agent_feed import AgentFeed, AgentHealth, AgentRebuild, Headline, facts_of, models_of, recent_samples
from agent.page.alarm_topics import alarm_feed, make_sender, max_shelving_s
from agent.page.api import Rebuilt
from agent.page.app import PageParts, PageRoutes
from agent.page.cards import read_cards
from agent.page.hub import Hub, StreamLimits
from agent.page.sessions import Sessions
from agent.page.state import Bounds, PageState
from agent.page.stored_event import StoredEvent
from agent.runtime.pipeline import Pipeline
from agent.settings import Http, LoadedPlant
from agent.settings.page import Page
from agent.web.connections import MAX_CONNECTIONS
from agent.web.from_settings import access_of, serving_of
from agent.web.server import Serving

Helper = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class PageHooks:
    """What the layers above give: an event in one line, a window from the log, where to say the address."""

    headline: Headline = lambda data: str(data.get("type", ""))
    from_log: Callable[[StoredEvent], Awaitable[Rebuilt]] | None = None
    announce: Callable[[str], None] = lambda url: None


def bounds_of(page: Page) -> Bounds:
    return Bounds(page.history.assets, page.history.events, int(page.history.memory))


def limits_of(page: Page) -> StreamLimits:
    return StreamLimits(page.streams.per_session, page.streams.total)


def page_serving(http: Http, page: Page, hub: Hub) -> Serving:
    """Streams are connections, too; they end first, so that stopping does not wait for them."""
    connections = MAX_CONNECTIONS + page.streams.total
    return replace(serving_of(http), max_connections=connections, before_stop=hub.stop)


class AgentPage:
    def __init__(self, plant: LoadedPlant, pipeline: Pipeline, hooks: PageHooks) -> None:
        self._settings = plant.settings
        groups = pipeline.groups
        facts = facts_of(groups, plant)
        state = PageState(
            facts, namespace=plant.settings.namespace, kind="agent", bounds=bounds_of(plant.settings.page)
        )
        state.recent, state.models = recent_samples(pipeline), models_of(groups, read_cards(plant.groups))
        state.lag = lambda: pipeline.progress.total_lag
        state.no_signals = "the agent has no samples of this asset"
        self.feed = AgentFeed(state, hooks.headline)
        self.hub = Hub(state, limits_of(plant.settings.page), self.feed.drain)
        self.state = state
        self._work = AgentHealth(pipeline, no_progress_s=plant.settings.limits.no_progress.seconds)
        self._rebuild = AgentRebuild(self.feed, state, groups, hooks.from_log)
        self._alarms = alarm_feed(plant.settings, state)

    def helpers(self) -> Iterator[Helper]:
        yield self.hub.run
        if self._alarms is not None:
            yield self._alarms.run

    def serving(self, http: Http) -> Serving:
        return page_serving(http, self._settings.page, self.hub)

    def routes(self) -> list[BaseRoute]:
        http = self._settings.http
        assert http is not None
        sessions = Sessions(access_of(http), tls=http.cert_file is not None)
        parts = PageParts(
            self.state,
            self.hub,
            sessions,
            work=self._work,
            rebuild=self._rebuild,
            send=make_sender(self._settings),
            max_shelving_s=max_shelving_s(self._settings),
        )
        return PageRoutes(parts).routes()
