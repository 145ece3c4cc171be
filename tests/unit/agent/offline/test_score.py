"""Scores worked out by hand on a stretch of a hundred seconds."""

from typing import Any

import pytest

from agent.offline.ground_truth import TruthInterval, read_truth
from agent.offline.score import score
from anchormoe.errors import DataError
from connectors.timestamps import format_iso

S = 1_000_000_000


def said(second: float, state: str, asset: str = "a") -> dict[str, Any]:
    end = format_iso(int(second * S))
    return {"type": "state", "asset": asset, "state": state, "window": {"start": end, "end": end}}


def gap(start: int, asset: str = "a") -> dict[str, Any]:
    return {"type": "gap", "asset": asset, "gap": {"start": format_iso(start * S), "end": format_iso((start + 9) * S)}}


def was(start: int, end: int, state: str, asset: str = "a") -> TruthInterval:
    return TruthInterval(asset, start * S, end * S, state, fault=state != "normal")


TRUTH = [was(0, 40, "normal"), was(40, 60, "worn"), was(60, 100, "normal")]


def test_time_is_right_wrong_or_unknown() -> None:
    """Unknown to 10, right to 40, wrong to 45, right to 60, wrong to 63, right to 100."""
    found = score([said(10, "normal"), said(45, "worn"), said(63, "normal")], TRUTH, tolerance_ns=0)
    assert found is not None
    assert found.accuracy == pytest.approx(0.82)
    assert found.unknown_share == pytest.approx(0.10)
    assert found.accuracy_when_known == pytest.approx(82 / 90)
    assert found.right_share_by_state == pytest.approx({"normal": 67 / 80, "worn": 15 / 20})
    assert (found.episodes, found.missed, found.false_alarms) == (1, 0, 0)
    assert (found.delay_median_s, found.delay_p90_s) == (5.0, 5.0)
    assert found.hours == pytest.approx(100 / 3600)


def test_a_fault_that_is_never_named_is_missed_and_another_name_does_not_count() -> None:
    found = score([said(0, "normal"), said(50, "blocked"), said(60, "normal")], TRUTH, tolerance_ns=0)
    assert found is not None
    assert (found.missed, found.delay_median_s) == (1, None)
    assert found.false_alarms == 0, "something was wrong, only it was called otherwise"


def test_an_alarm_without_a_fault_is_false_unless_it_is_only_late() -> None:
    events = [said(0, "normal"), said(20, "worn"), said(22, "normal"), said(61, "worn"), said(64, "normal")]
    strict, patient = (score(events, TRUTH, tolerance_ns=tolerance) for tolerance in (0, 4 * S))
    assert strict is not None
    assert patient is not None
    assert (strict.false_alarms, patient.false_alarms) == (2, 1)
    assert patient.false_alarms_per_day == pytest.approx(864.0)


def test_changes_beyond_one_for_each_true_change_are_false() -> None:
    """At 45 and 63 the truth had changed; 20 to 22 is a flicker, and `unknown` at 44 is one more on the way."""
    quiet = [said(10, "normal"), said(45, "worn"), said(63, "normal")]
    noisy = [*quiet, said(20, "worn"), said(22, "normal"), said(44, "unknown")]
    found, flickers = (score(events, TRUTH, tolerance_ns=0) for events in (quiet, noisy))
    assert found is not None
    assert flickers is not None
    assert (found.changes, found.false_changes) == (2, 0)
    assert (flickers.changes, flickers.false_changes) == (5, 3)
    assert flickers.false_changes_per_day == pytest.approx(3 * 864.0)


def test_a_gap_makes_the_state_unknown_until_the_next_word() -> None:
    found = score([said(0, "normal"), gap(10), said(30, "normal")], [was(0, 40, "normal")], tolerance_ns=0)
    assert found is not None
    assert found.unknown_share == pytest.approx(0.5)
    assert found.accuracy == pytest.approx(0.5)


def test_events_of_other_kinds_and_assets_change_nothing_and_order_does_not_matter() -> None:
    events = [said(10, "normal"), said(45, "worn"), said(63, "normal")]
    noise = [said(5, "worn", asset="b"), {"type": "channel_dropout", "asset": "a"}]
    assert score(events, TRUTH, tolerance_ns=0) == score([*noise, *reversed(events)], TRUTH, tolerance_ns=0)


def test_delays_are_taken_over_all_assets() -> None:
    truth = [was(0, 100, "worn", asset) for asset in ("a", "b", "c")]
    found = score(
        [said(delay, "worn", asset) for asset, delay in zip("abc", (10, 20, 60), strict=True)], truth, tolerance_ns=0
    )
    assert found is not None
    assert found.delay_median_s == 20.0
    assert found.delay_p90_s == pytest.approx(52.0)


def test_an_agent_that_said_nothing_was_never_sure_and_missed_everything() -> None:
    found = score([], TRUTH, tolerance_ns=0)
    assert found is not None
    assert (found.unknown_share, found.accuracy_when_known, found.missed, found.false_alarms) == (1.0, None, 1, 0)


def test_without_truth_there_is_no_score() -> None:
    assert score([said(1, "normal")], [], tolerance_ns=0) is None


def test_truth_is_read_as_it_is_written_and_a_state_says_by_its_name_whether_it_is_a_fault() -> None:
    assert read_truth([each.to_line() for each in reversed(TRUTH)], "t") == TRUTH
    line = b'{"asset":"a","state":"%s","start":"1970-01-01T00:00:00Z","end":"1970-01-01T00:00:01"}'
    assert [each.fault for each in read_truth([line % b"Normal", b"", line % b"worn"], "t")] == [False, True]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "t:2"),
        (b"[]", "t:2"),
        (b'{"asset":"a","state":"x","start":"now","end":"then"}', "t:2"),
        (
            b'{"asset":"a","state":"x","start":"2026-01-01","end":"2026-01-01"}',
            "end 2026-01-01 is not after start 2026-01-01",
        ),
    ],
)
def test_a_truth_that_cannot_be_read_names_its_line(line: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_truth([TRUTH[0].to_line(), line], "t")
