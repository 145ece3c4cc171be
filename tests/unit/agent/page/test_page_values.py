"""What the page computes: sums, runs, bounds, late samples; expected values by hand."""

from types import SimpleNamespace

import numpy as np
import orjson
import pytest

from agent.page.advice import advice_for
from agent.page.api import EventHead, Run
from agent.page.fleet import FleetTable
from agent.page.history import History, Wanted, merge_runs
from agent.page.letters import letter_of
from agent.page.signals import samples_since, signals_of
from agent.page.state import Bounds, WindowFacts, strongest_evidence
from agent.page.stored_event import Examples, StoredEvent
from agent.page.sums import margin_sum, score_sum
from agent.page.traces import Recent, Trace, Traces
from agent.page.trend import Trends
from agent.settings import AlarmRule
from agent.settings.page import Page
from connectors.records import Message
from tests.support.event_samples import samples
from tests.support.page_plant import group_facts, page_state, with_samples


def state_data(context: float, spans: list[float], remainder: float, logit: float) -> dict[str, object]:
    return {
        "type": "state",
        "classes": [{"class": "worn", "probability": 0.9, "logit": logit}],
        "evidence": {
            "class": "worn",
            "context": context,
            "spans": [{"contribution": one} for one in spans],
            "remainder": remainder,
        },
    }


def test_published_digits_add_up_although_their_binary_fractions_do_not() -> None:
    assert 0.1 + 0.2 != 0.3
    found = score_sum(state_data(0.1, [0.2], 0.0, 0.3))
    assert found is not None
    assert (found.difference, found.exact) == (0.0, True)


def test_a_forged_sum_is_told_with_its_size() -> None:
    small = score_sum(state_data(1e-12, [2e-12], 0.0, 3e-12))
    assert small is not None
    assert small.exact
    small = score_sum(state_data(1e-12, [2e-12], 0.0, 3.1e-12))
    assert small is not None
    assert not small.exact
    found = score_sum(state_data(0.1, [0.2, -0.05], 0.01, 0.36))
    assert found is not None
    assert found.total == pytest.approx(0.26)
    assert found.difference == pytest.approx(-0.1)
    assert not found.exact


@pytest.mark.parametrize("wrong", ["1.0", None, True, [], {}])
def test_what_is_no_number_gives_no_sum(wrong: object) -> None:
    data = state_data(0.1, [0.2], 0.0, 0.3)
    data["evidence"]["context"] = wrong  # type: ignore[index]
    assert score_sum(data) is None


def test_a_margin_is_the_same_sum() -> None:
    why_not = {"class": "fine", "margin": 1.5, "context": 0.5, "spans": [{"contribution": 2.0}], "remainder": -1.0}
    found = margin_sum({"why_not": why_not})
    assert found is not None
    assert found.exact


def published(number: int) -> bytes:
    raw = samples().events[number].value
    assert raw is not None
    return raw


def test_a_packed_event_is_given_back_byte_by_byte_and_costs_less() -> None:
    raw, head = published(5), event(1).head
    held = StoredEvent(head, raw)
    held.pack(Examples())
    assert held.raw == raw
    assert held.head == head
    assert held.cost < len(raw)
    short = StoredEvent(head, b"\x00\xff")
    short.pack(Examples())
    assert short.raw == b"\x00\xff"


def test_what_events_of_a_group_have_in_common_is_held_once() -> None:
    full = full_of_other_groups()
    costs = {"own": 0, "none": 0}
    own = Examples()
    for number in range(3, 9):
        for name, examples in (("own", own), ("none", full)):
            one = StoredEvent(event(number).head, published(number))
            one.pack(examples)
            assert one.raw == published(number)
            costs[name] += one.cost
    assert costs["own"] < costs["none"] - 6 * 150


def test_examples_are_bounded_whatever_groups_events_claim() -> None:
    assert len(full_of_other_groups()) == 256


def full_of_other_groups() -> Examples:
    examples = Examples()
    for number in range(300):
        head = event(number).head.model_copy(update={"group": f"hostile-{number}"})
        one = StoredEvent(head, published(5))
        one.pack(examples)
        assert one.raw == published(5)
    return examples


@pytest.mark.parametrize(
    ("direction", "words"),
    [
        ("below", "flow below normal 10:49:28–10:49:30"),
        ("within", "flow by its course 10:49:28–10:49:30"),
        (7, "flow 10:49:28–10:49:30"),
    ],
)
def test_the_reason_is_the_strongest_evidence_in_words(direction: object, words: str) -> None:
    span = {"channels": ["flow"], "start": "2026-11-18T10:49:28.8Z", "end": "2026-11-18T10:49:30Z"}
    known = [{"name": "level", "direction": "above"}, {"name": "flow", "direction": direction}, None]
    assert strongest_evidence({"evidence": {"spans": [span], "channels": known}}) == words
    assert strongest_evidence({"evidence": {"spans": [{"channels": None}]}}) == ""


def test_what_to_do_is_said_by_alarm_rules_first_and_by_the_page_where_there_are_none() -> None:
    page = {"advice": [{"group": "pumps", "states": ["worn"], "action": "grease it"}]}
    rule = {"name": "wear", "group": "pumps", "states": ["worn"], "action": "stop it", "cause": "age"}
    other = {**rule, "name": "other", "group": "fans"}
    silent = {"name": "silent", "group": "pumps", "states": ["odd"]}
    rules = [AlarmRule.model_validate(one) for one in (rule, other, silent)]
    settings = SimpleNamespace(alarms=SimpleNamespace(rules=rules), page=Page.model_validate(page))
    found = advice_for("pumps", settings)  # type: ignore[arg-type]
    assert [(one.rule, one.action, one.cause) for one in found] == [("wear", "stop it", "age"), ("", "grease it", "")]
    assert advice_for("fans", SimpleNamespace(alarms=None, page=settings.page)) == ()  # type: ignore[arg-type]


def test_every_sample_that_the_agent_publishes_adds_up() -> None:
    state = page_state()
    with_samples(state)
    sums = [
        score_sum(orjson.loads(event.raw))
        for head in state.history.find(Wanted(type="state"), 500)[0]
        if (event := state.history.get(head.id)) is not None
    ]
    assert sum(one is not None for one in sums) > 20
    assert all(one is None or one.exact for one in sums)


def event(number: int, size: int = 10, asset: str = "pump-1") -> StoredEvent:
    head = EventHead(
        id=f"e{number}", time_ms=number, asset=asset, group="pumps", type="state", state="a", previous=None, p=None,
        text="", version=2,
    )  # fmt: skip
    return StoredEvent(head, b"x" * size)


def test_the_oldest_events_go_first_and_are_counted() -> None:
    history = History(max_events=3, max_bytes=1 << 20, max_assets=10)
    for number in range(5):
        history.add(event(number))
    assert [head.id for head in history.find(Wanted(), 10)[0]] == ["e4", "e3", "e2"]
    assert (history.dropped, history.get("e1")) == (2, None)


def test_a_history_of_50_mb_stays_within_its_memory_and_is_still_found() -> None:
    history = History(max_events=1_000_000, max_bytes=8 << 20, max_assets=100)
    for number in range(5_000):
        history.add(event(number, 10_000, f"pump-{number % 7}"))
    reach = history.reach()
    assert reach.bytes <= 8 << 20
    assert reach.events + reach.dropped == 5_000
    found, more = history.find(Wanted(asset="pump-3"), 5)
    assert [head.time_ms % 7 for head in found] == [3] * 5
    assert more


def test_a_repeated_event_is_held_once_and_pages_follow_each_other() -> None:
    history = History(max_events=100, max_bytes=1 << 20, max_assets=10)
    assert [history.add(event(number)) for number in (1, 2, 2, 3)] == [True, True, False, True]
    first, more = history.find(Wanted(), 2)
    assert ([head.id for head in first], more) == (["e3", "e2"], True)
    rest, more = history.find(Wanted(before="e2"), 2)
    assert ([head.id for head in rest], more) == (["e1"], False)


def run(start: int, end: int, state: str) -> Run:
    return Run(start_ms=start, end_ms=end, state=state, mixed=1)


def test_runs_shorter_than_a_pixel_become_one_that_says_so() -> None:
    runs = [run(0, 100, "a"), run(100, 101, "b"), run(101, 103, "c"), run(103, 104, "b"), run(104, 200, "a")]
    merged = merge_runs(runs, 10)
    assert [(one.start_ms, one.end_ms, one.state, one.mixed) for one in merged] == [
        (0, 100, "a", 1),
        (100, 104, "c", 3),
        (104, 200, "a", 1),
    ]


@pytest.mark.parametrize("px", [1, 7, 100])
def test_a_timeline_has_at_most_two_runs_per_pixel(px: int) -> None:
    history = History(max_events=1, max_bytes=1, max_assets=1)
    for at in range(1_500):
        history.add_state("pump-1", "pumps", "ab"[at % 2], start_ms=at * 10, end_ms=at * 10 + 10)
    timeline = history.timeline("pump-1", None, None, px)
    assert timeline is not None
    assert len(timeline.runs) <= 2 * px + 1
    assert sum(one.mixed for one in timeline.runs) == 1_500


def test_where_only_changes_are_published_a_state_lasts_until_the_next_one_says_so() -> None:
    history = History(max_events=9, max_bytes=10**6, max_assets=9)
    history.add_state("pump-1", "pumps", "normal", start_ms=0, end_ms=10)
    history.add_state("pump-1", "pumps", "worn", start_ms=90, end_ms=100, previous="normal")
    history.add_state("pump-1", "pumps", "normal", start_ms=190, end_ms=200, previous="blocked")  # one was not seen
    timeline = history.timeline("pump-1", None, None, 600)
    assert timeline is not None
    runs = [(run.start_ms, run.end_ms, run.state) for run in timeline.runs]
    assert runs == [(0, 90, "normal"), (90, 100, "worn"), (190, 200, "normal")]


def test_a_period_ranks_by_time_that_was_not_normal() -> None:
    history = History(max_events=10, max_bytes=1 << 20, max_assets=10)
    history.add_state("calm", "pumps", "normal", start_ms=0, end_ms=1_000)
    history.add_state("bad", "pumps", "normal", start_ms=0, end_ms=200)
    history.add_state("bad", "pumps", "worn", start_ms=200, end_ms=1_000)
    history.add_state("odd", "pumps", "unknown", start_ms=0, end_ms=900)
    found = list(history.period(100, 700))[-1]
    assert found is not None
    assert [(row.asset, row.abnormal_ms, row.unknown_ms) for row in found.rows] == [("bad", 500, 0), ("odd", 0, 600)]
    assert [at for at, changes in enumerate(found.changes) if changes] == [20]  # (200 - 100) of 600, in 120 parts


def test_a_period_of_many_assets_is_looked_at_in_steps() -> None:
    """Between them the agent's loop goes on."""
    history = History(max_events=10, max_bytes=1 << 20, max_assets=300)
    for asset in range(300):
        for run in range(100):
            history.add_state(f"{asset}", "pumps", ("worn", "normal")[run % 2], start_ms=run, end_ms=run + 1)
    steps = list(history.period(0, 100))
    assert len(steps) > 3
    assert steps[:-1] == [None] * (len(steps) - 1)
    assert steps[-1] is not None
    assert len(steps[-1].rows) == 200


def test_a_delta_names_only_new_assets_and_leaves_out_what_is_empty() -> None:
    table = FleetTable([group_facts().info], first=100, limit=2)
    for name in ("pump-1", "pump-2", "pump-3"):
        table.update(name, "pumps", state=table.state_index("worn"))
    table.advance()
    assert table.delta(100, 0).new == [(0, "pump-1", 0), (1, "pump-2", 0)]
    assert table.delta(100, 0).rows == [[0, 0, -1, 0], [1, 0, -1, 0]]
    assert table.not_shown == {"pump-3"}
    table.update("pump-2", "pumps", p=80)
    table.update("pump-1", "pumps", p=-1)  # as before: no change
    table.advance()
    delta = table.delta(101, 0)
    assert (delta.new, delta.rows) == ([], [[1, 0, 80, 0]])
    assert delta.states is None
    assert table.delta(102, 0).rows == []
    assert (table.knows(99), table.knows(102), table.knows(103)) == (False, True, False)


def test_assets_that_are_not_shown_are_told() -> None:
    """Beyond the limit, or of a group that the settings do not have: "all are normal" must not be said of them."""
    state = page_state(bounds=Bounds(assets=2))
    for asset, group in (("pump-1", "pumps"), ("pump-2", "pumps"), ("pump-3", "pumps"), ("lathe-1", "lathes")):
        for _ in range(2):
            state.add_window(WindowFacts(asset, group, "normal", 1, 2, 0.9))
    assert state.feed().not_shown == 2


def test_since_is_told_by_the_newest_window_and_flags_without_a_reason_end_the_row() -> None:
    table = FleetTable([group_facts().info], first=100, limit=9)
    table.update("pump-1", "pumps", state=table.state_index("worn"), since_ms=4_000, end_ms=10_000, flags=2)
    table.advance()
    assert table.delta(100, 0).rows == [[0, 0, -1, 6_000, 2]]


def test_a_slow_drift_of_the_probability_is_told_once_it_is_noticed() -> None:
    table = FleetTable([group_facts().info], first=100, limit=9)
    told = []
    for p in range(90, 101):
        table.update("pump-1", "pumps", p=p, end_ms=1_000 * p)
        if table.advance():
            told.append(p)
    assert told == [90, 95, 100]


def test_the_trend_counts_changes_by_event_time_and_compares_with_an_hour_ago() -> None:
    trends = Trends()
    assert trends.answer().end_ms is None
    minute = 60_000
    for at in (100, 100, 102):
        trends.add_change(at * minute + 5)
    trends.note(103 * minute, {"worn": 1})
    assert (trends.answer().per_minute, trends.answer().hour_ago) == ([2, 0, 1, 0], None)
    assert (trends.is_due(103 * minute + 59_999), trends.is_due(104 * minute)) == (False, True)
    for at in range(104, 170):
        trends.note(at * minute, {"worn": at})
    answer = trends.answer()
    assert answer.end_ms == 170 * minute
    assert answer.hour_ago == {"worn": 109}  # the count of the 61st minute back
    trends.note((100 + 1_440) * minute, {})
    assert len(trends.answer().per_minute) == 1_439  # the changes of minute 100 are a day old


def values(*steps: float) -> Recent:
    return Recent("pumps", len(steps), np.array([steps, steps], dtype=np.float32))


def test_a_sample_that_came_after_newer_ones_is_late_and_stays_late() -> None:
    traces, nan = Traces(), float("nan")
    traces.merge("pump-1", values(1, nan, 3))
    trace = traces.merge("pump-1", values(1, 2, 3, 4))
    assert trace.late[:, 0].tolist() == [False, True, False, False]
    assert traces.merge("pump-1", values(1, 2, 3, 4, 5)).late[:, 0].tolist() == [False, True, False, False, False]


def test_samples_that_left_the_ring_are_kept_and_a_jump_begins_anew() -> None:
    traces = Traces()
    traces.merge("pump-1", Recent("pumps", 3, np.array([[1, 2, 3], [1, 2, 3]], dtype=np.float32)))
    trace = traces.merge("pump-1", Recent("pumps", 5, np.array([[3, 4, 5], [3, 4, 5]], dtype=np.float32)))
    assert (trace.start, trace.values[:, 0].tolist()) == (0, [1, 2, 3, 4, 5])
    jumped = traces.merge("pump-1", Recent("pumps", 100, np.array([[7], [7]], dtype=np.float32)))
    assert (jumped.start, len(jumped.values)) == (99, 1)


def test_missing_filled_late_and_implausible_samples_are_told_apart() -> None:
    nan = float("nan")
    column = np.array([1, nan, nan, nan, nan, nan, 7, 8], dtype=np.float32)
    late = np.zeros((8, 2), dtype=np.bool_)
    late[6] = True
    data = {
        "window": {
            "start": "1970-01-01T00:00:00Z",
            "end": "1970-01-01T00:00:08Z",
            "implausible": [
                {"channel": "p", "finding": "jump", "start": "1970-01-01T00:00:07Z", "end": "1970-01-01T00:00:08Z"}
            ],
        }
    }
    found = signals_of(group_facts(), Trace("pumps", 8, np.stack([column, column], axis=1), late), data)
    marks = [(mark.kind, mark.start, mark.stop, mark.detail) for mark in found.channels[0].marks]
    # Held for three steps, by the fill rule; the two after that stay missing.
    assert marks == [("missing", 4, 6, ""), ("filled", 1, 4, ""), ("late", 6, 7, ""), ("implausible", 7, 8, "jump")]
    assert found.channels[0].filled[:5] == [None, 1.0, 1.0, 1.0, None]
    assert (found.channels[0].values[5], found.channels[0].now, found.window) == (None, 8.0, [0, 8])
    assert [mark.kind for mark in found.channels[1].marks] == ["missing", "filled", "late"]


def test_a_stream_gets_only_the_steps_it_does_not_have() -> None:
    trace = Trace("pumps", 10, np.arange(20, dtype=np.float32).reshape(10, 2), np.zeros((10, 2), dtype=np.bool_))
    found = samples_since(group_facts(), "pump-1", trace, 8)
    assert (found.start_ms, found.values) == (8_000.0, [[16.0, 18.0], [17.0, 19.0]])


def test_a_letter_of_hostile_bytes_is_text_and_digits() -> None:
    letter = letter_of(Message("dead-letters", b"\xff", b"\x1b[31m\x00<b>\xff", (("dl_partition", b"many"),)))
    assert "\x1b" not in letter.text
    assert (letter.hex, letter.bytes, letter.partition, letter.reason) == ("1b5b33316d003c623eff", 10, 0, "unknown")
