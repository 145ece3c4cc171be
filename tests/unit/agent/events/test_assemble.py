"""Events out of ingested batches: states follow each other in log order, whatever is classified together."""

import threading
from typing import Any

import numpy as np

from agent.events.assemble import EventAssembler
from agent.events.scoring import classify_batches
from agent.models.activations import Activation
from agent.models.classifier import HISTORY_LOST, Classification, ModelName
from agent.models.schedule import ActiveModel
from agent.windows.asset_state import AssetState
from agent.windows.ingest import ClearedAsset, DueWindow, Ingested
from tests.support.plant import A, B, pumps

HIGH, LOW = 1.0, -1.0


def due(
    end: int, value: float = HIGH, *, asset: str = "p1", offset: int | None = None, complete: bool = True
) -> DueWindow:
    return DueWindow(asset, end, end if offset is None else offset, np.full((2, 4), value, np.float32), complete)


def ingested(*windows: DueWindow, cleared: list[ClearedAsset] | None = None, partition: Any = A) -> Ingested:
    return Ingested("pumps", partition, due=list(windows), cleared=cleared or [])


def published(results: Any) -> list[tuple[str | None, str]]:
    events = [outgoing.event.data for result in results for outgoing in result.events]
    return [(event["previous_state"], event["state"]) for event in events]


def test_a_state_is_published_when_it_differs_from_the_one_a_hop_before() -> None:
    assembler = EventAssembler({"pumps": pumps()})
    results = assembler.assemble([ingested(due(102), due(104)), ingested(due(106, LOW), due(108, LOW))])
    assert published(results) == [(None, "high"), ("high", "low")]
    assert results[1].changes == {"p1": AssetState(108, "low", 106, ())}


def test_a_cleared_asset_has_no_previous_state_from_its_offset_on() -> None:
    assembler = EventAssembler({"pumps": pumps()})
    batch = ingested(due(102), due(104), due(106), cleared=[ClearedAsset("p1", 105)])
    (result,) = assembler.assemble([batch])
    assert published([result]) == [(None, "high"), (None, "high")]
    assert result.changes == {"p1": AssetState(106, "high", 106, ())}
    (result,) = assembler.assemble([ingested(cleared=[ClearedAsset("p1", 110)])])
    assert result.changes == {"p1": None}


def test_partitions_have_states_of_their_own_which_can_be_restored_and_forgotten() -> None:
    assembler = EventAssembler({"pumps": pumps()})
    assembler.restore(A, {"pumps": {"p1": AssetState(100, "high", 90, ())}})
    assert published(assembler.assemble([ingested(due(102)), ingested(due(102), partition=B)])) == [(None, "high")]
    assembler.forget(A)
    assert published(assembler.assemble([ingested(due(104)), ingested(due(104), partition=B)])) == [(None, "high")]


def test_what_a_batch_returns_is_not_changed_by_later_ones() -> None:
    assembler = EventAssembler({"pumps": pumps()})
    (first,) = assembler.assemble([ingested(due(102))])
    assembler.assemble([ingested(due(104, LOW))])
    assert first.changes == {"p1": AssetState(102, "high", 102, ())}


def test_a_window_that_reaches_into_lost_history_is_unknown() -> None:
    (result,) = EventAssembler({"pumps": pumps()}).assemble([ingested(due(102, complete=False))])
    (outgoing,) = result.events
    assert (outgoing.event.data["state"], outgoing.event.data["abstention"]) == ("unknown", HISTORY_LOST)
    assert outgoing.event.data["evidence"] is None


def test_events_are_in_the_order_of_the_records_that_caused_them() -> None:
    assembler = EventAssembler({"pumps": pumps(policy="all")})
    windows = [due(102, offset=7), due(90, asset="p2", offset=3), due(100, asset="p3", offset=7)]
    (result,) = assembler.assemble([ingested(*windows)])
    assert [(one.event.offset, one.event.asset) for one in result.events] == [(3, "p2"), (7, "p3"), (7, "p1")]


def test_the_payload_decides_nothing() -> None:
    """Offset and time that decide are fields of the event; the payload only repeats them."""
    (result,) = EventAssembler({"pumps": pumps()}).assemble([ingested(due(102, offset=7))])
    event = result.events[0].event
    assert event.offset == event.data["input"]["offset"] == 7


class Recording:
    """A classifier that remembers which windows it was asked for."""

    def __init__(self, state: str) -> None:
        self.state, self.calls = state, list[list[float]]()

    def classify(self, windows: np.ndarray) -> list[Classification]:
        self.calls.append(windows[:, 0, 0].tolist())
        return [Classification((self.state,), self.state, None, 1.0, (), None, -1)] * len(windows)


def test_each_model_is_asked_once_for_its_windows_of_all_batches() -> None:
    old, new = Recording("old"), Recording("new")
    group = pumps()
    group = type(group)(group.spec, ActiveModel(old, ModelName("old", "1", "")), group.publishing, group.schedule)  # type: ignore[arg-type]
    model = ActiveModel(new, ModelName("new", "2", ""))  # type: ignore[arg-type]
    loaded: Any = threading.local()
    loaded.result = lambda: model
    group.schedule.add(Activation("pumps", 104 * 10**9, "d", "new", "ada", 0, ""), lambda activation: loaded)
    scored = classify_batches([(group, [due(102, 1.0), due(104, 2.0)]), (group, [due(103, 3.0), due(106, 4.0)])])
    assert [[one.classified.state for one in batch] for batch in scored] == [["old", "new"], ["old", "new"]]
    assert (old.calls, new.calls) == ([[1.0, 3.0]], [[2.0, 4.0]])
