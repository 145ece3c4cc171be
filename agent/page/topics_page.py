"""`anchormoe-agent page`: the whole fleet from the topics, whoever judges it."""

import asyncio
import time
from collections.abc import Mapping
from socket import socket

from agent.errors import SettingsError
from agent.events.payloads import event_source
from agent.models.schedule import ActiveModel
from agent.page.advice import advice_for
from agent.page.agent_page import PageHooks, bounds_of, limits_of, page_serving
from agent.page.agents_progress import agents_progress
from agent.page.alarm_topics import alarm_topics, make_sender, max_shelving_s
from agent.page.api import ModelHealth
from agent.page.app import PageParts, PageRoutes
from agent.page.cards import read_cards
from agent.page.hub import Hub
from agent.page.sessions import Sessions
from agent.page.signals import GroupFacts
from agent.page.state import PageState
from agent.page.topic_records import TopicRecords
from agent.page.topics_feed import Topic, TopicsFeed
from agent.settings import Http, KafkaSinkSettings, LoadedPlant
from agent.settings.connections import sink_cluster
from agent.web.from_settings import access_of
from agent.web.server import make_app, serve

_DAY_S = 86_400.0


class TopicsPage:
    """`models` are the configured ones, for the channels' normal values and to judge windows again."""

    def __init__(
        self,
        plant: LoadedPlant,
        models: Mapping[str, ActiveModel],
        hooks: PageHooks,
        *,
        since_s: float = _DAY_S,
    ) -> None:
        """Raises SettingsError where the plant has no Kafka sink."""
        settings = plant.settings
        sink = settings.kafka_sink
        if sink is None:
            raise SettingsError(
                "sinks: none is of kind kafka, so there are no topics to show; `run` shows its own work"
            )
        facts = [_facts(plant, models, group.name) for group in plant.groups]
        bounds = bounds_of(settings.page)
        self.state = PageState(facts, namespace=settings.namespace, kind="topics", bounds=bounds)
        self.state.models = _models(plant, models)
        self.state.no_signals = "The topics hold no samples; those of an event's window are read from the log."
        self.hub = Hub(self.state, limits_of(settings.page))
        self._settings, self._hooks, self._sink = settings, hooks, sink
        self.feed = self._feed(sink, since_s)
        self._sender = make_sender(settings)
        self._progress = progress = agents_progress(settings)
        if progress is not None:
            self.state.lag, self.state.agents_ms = lambda: progress.lag, lambda: progress.moved_ms

    async def run(self, listener: socket, http: Http) -> None:
        """Until cancelled."""
        sessions = Sessions(access_of(http), tls=http.cert_file is not None)
        parts = PageParts(
            self.state,
            self.hub,
            sessions,
            rebuild=self._hooks.from_log,
            send=self._sender,
            max_shelving_s=max_shelving_s(self._settings),
            replay_command="anchormoe-agent dead-letters replay --config plant.yaml",
        )
        app = make_app(PageRoutes(parts).routes())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.feed.run())
                group.create_task(self.hub.run())
                if self._progress is not None:
                    group.create_task(self._progress.run())
                group.create_task(serve(app, listener, page_serving(http, self._settings.page, self.hub)))
        finally:
            if self._sender is not None:
                await self._sender.close()

    def _feed(self, sink: KafkaSinkSettings, since_s: float) -> TopicsFeed:
        records = TopicRecords(self.state, event_source(self._settings.namespace), self._hooks.headline)
        since_ms = int((time.time() - since_s) * 1000)
        topics = [
            Topic(sink.topics.states, records.state),
            Topic(sink.topics.events, records.event, since_ms),
            Topic(sink.topics.dead_letters, records.letter, since_ms),
        ]
        topics += alarm_topics(self._settings, records, since_ms)
        return TopicsFeed(sink_cluster(sink), self.state, tuple(topics))


def _facts(plant: LoadedPlant, models: Mapping[str, ActiveModel], name: str) -> GroupFacts:
    group, model = next(one for one in plant.groups if one.name == name), models[name]
    advice = advice_for(name, plant.settings)
    return GroupFacts.of(group, model.classifier.classes, model.units, model.normal, advice)


def _models(plant: LoadedPlant, models: Mapping[str, ActiveModel]) -> dict[str, ModelHealth]:
    cards = read_cards(plant.groups)
    return {
        name: ModelHealth(
            group=name,
            name=model.name.name,
            version=model.name.version,
            digest=model.name.digest,
            source="configured",
            card=cards[name],
        )
        for name, model in models.items()
    }
