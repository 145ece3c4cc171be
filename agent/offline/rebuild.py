"""Time travel: reads the records behind a published event again and judges their window as the agent did."""

import asyncio
from pathlib import Path
from typing import Any

import orjson

from agent.errors import SettingsError
from agent.event_types import STATE
from agent.models.classifier import WindowClassifier
from agent.models.compatibility import LoadModel
from agent.models.normal_values import NormalValues
from agent.offline.said import SaidEvent, find_bundle, group_of, read_window
from agent.page.agent_feed import cannot
from agent.page.api import Rebuilt
from agent.page.explain import explain_window
from agent.page.signals import GroupFacts
from agent.page.stored_event import StoredEvent
from agent.settings import LoadedPlant, ResolvedGroup
from anchormoe.errors import ModelError
from anchormoe.windows import Floats
from connectors.errors import ConnectorError
from connectors.timestamps import parse_iso


class LogRebuild:
    """Says why, where the records or the bundle that spoke are gone."""

    def __init__(self, plant: LoadedPlant, load: LoadModel) -> None:
        self._plant, self._load = plant, load

    async def __call__(self, event: StoredEvent) -> Rebuilt:
        if event.type != STATE or not event.readable:
            return cannot(event, "only states that this version can read have a window")
        data = orjson.loads(event.raw)
        said = SaidEvent(event.id, parse_iso(data["window"]["end"]), data)
        group = group_of(self._plant, str(data.get("group", "")))
        bundle = None if group is None else await asyncio.to_thread(find_bundle, self._plant, group, said.digest)
        if group is None or bundle is None:
            return cannot(event, f"the bundle with the digest {said.digest[:12] or '–'} that spoke is not here")
        try:
            found = await read_window(self._plant, said, self._load)
        except (SettingsError, ConnectorError, ModelError) as error:
            return cannot(event, f"its records cannot be read again: {error}")
        if found is None or found.window is None:
            return cannot(event, "its records are not in the log any more, or another model is active now")
        window = found.window
        return await asyncio.to_thread(lambda: self._explain(event, data, group, bundle, window))

    def _explain(
        self, event: StoredEvent, data: dict[str, Any], group: ResolvedGroup, bundle: Path, window: Floats
    ) -> Rebuilt:
        predictor = self._load(bundle)
        config = predictor.config
        classifier = WindowClassifier(
            predictor, config.classes, config.channels, group.fill_rules, group.min_coverage, predictor.judge
        )
        facts = GroupFacts.of(group, config.classes, config.units, NormalValues.of(predictor))
        return explain_window(event.id, data, window, facts=facts, classifier=classifier, source="log")
