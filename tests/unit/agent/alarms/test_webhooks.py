"""What receivers are told, and how patiently."""

from typing import Any

import jsonschema
import orjson
import pytest

from agent.alarms.alert_payloads import alert, body, is_firing, signature
from agent.alarms.counters import AlarmCounters
from agent.alarms.messages import alarm_data
from agent.alarms.webhooks import AlarmPost
from agent.alarms.webhooks import Receiver as Target
from tests.support.alarm_log import Run, catalogue, command, event, rule, tick
from tests.support.alarm_receiver import Receiver, check_alerts, receiving

PLANT = catalogue(rule())
PATCH = {"start": "a", "end": "b", "contribution": 2.5, "channels": [{"name": "flow", "effect": 1.0}]}
EVIDENCE = {"class": "worn", "supporting": 3.0, "opposing": -1.0, "patches": [PATCH]}


def present(run: Run, name: str = "wear:pump-1") -> dict[str, Any]:
    data = alarm_data("hall", PLANT, run.console.alarms[name])
    return dict(orjson.loads(orjson.dumps(data)))


def raised() -> Run:
    return Run(PLANT).apply(event(0, 0.9, evidence=EVIDENCE))


def test_a_firing_alarm_is_an_alert_without_an_end() -> None:
    told = alert(present(raised()), "north")
    check_alerts([told])
    assert told["labels"] == {
        "alertname": "wear",
        "alarm": "wear:pump-1",
        "asset": "pump-1",
        "console": "hall",
        "kind": "process",
        "namespace": "north",
        "severity": "high",
    }
    assert told["startsAt"] == "2023-11-14T22:13:20Z"
    assert "endsAt" not in told
    assert told["annotations"]["evidence"] == "a–b +2.50 (flow)"
    assert told["annotations"]["action"] == "change over to the spare"


def test_a_resolved_alarm_keeps_its_labels_and_gets_its_end() -> None:
    firing = alert(present(raised()), "north")
    resolved = alert(present(raised().apply(event(60, 0.1))), "north")
    check_alerts([resolved])
    assert resolved["labels"] == firing["labels"]
    assert resolved["endsAt"] == "2023-11-14T22:14:20Z"


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": {}},
        {"labels": {"alertname": "wear", "no-name": "x"}},
        {"annotations": {"evidence": ""}},
        {"annotations": {"probability": 0.9}},
        {"status": "firing"},
        {"startsAt": "yesterday"},
        {"endsAt": "2023-11-14T22:13:19Z"},
    ],
)
def test_what_alertmanager_would_refuse_fails_the_check(wrong: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, KeyError, ValueError, jsonschema.ValidationError)):
        check_alerts([alert(present(raised()), "north") | wrong])


def test_what_is_hidden_calls_nobody() -> None:
    run = raised()
    assert is_firing(present(run))
    assert not is_firing(present(run.apply(command(5, "shelve", until=50))))


def test_the_plain_format_carries_the_whole_alarm() -> None:
    [told] = orjson.loads(body("generic", [present(raised())], "north"))["alarms"]
    assert told["status"] == "firing"
    assert told["raised_by"]["evidence"]["patches"] == [PATCH]


def test_a_summary_tells_what_it_holds() -> None:
    run = Run(PLANT).apply(*(event(at, 0.9, asset=f"pump-{at:02d}") for at in range(12)), tick(12))
    told = alert(present(run, "flood:hall"), "north")
    assert told["annotations"]["holds"] == "2 alarms held: wear:pump-10, wear:pump-11"


def test_the_signature_covers_time_and_body() -> None:
    assert signature("key", "1", b"x") == signature("key", "1", b"x")
    assert len({signature("key", "1", b"x"), signature("key", "2", b"x"), signature("other", "1", b"x")}) == 3


@pytest.mark.parametrize(
    ("answers", "expected", "counted"),
    [
        ([], True, {"accepted": 1}),
        ([500, 503], True, {"failed": 2, "accepted": 1}),
        ([0], True, {"failed": 1, "accepted": 1}),
        ([429], True, {"failed": 1, "accepted": 1}),
        ([400], True, {"refused": 1}),
        ([500, 500, 500], False, {"failed": 3}),
    ],
)
async def test_a_receiver_is_tried_a_bounded_number_of_times(
    answers: list[int], expected: bool, counted: dict[str, int]
) -> None:
    tally = AlarmCounters()
    with receiving(Receiver("key", "token", list(answers))) as receiver:
        target = Target(
            "am", receiver.url, "alertmanager", token="token", secret="key", timeout_s=1, attempts=3, first_pause_s=0.01
        )
        post = AlarmPost(target, "north", tally)
        assert await post.deliver([present(raised())]) == expected
        await post.close()
    assert tally.webhooks == {("am", outcome): count for outcome, count in counted.items()}
    assert receiver.complaints == []


async def test_a_receiver_that_is_not_there_is_no_crash() -> None:
    tally = AlarmCounters()
    post = AlarmPost(Target("am", "http://127.0.0.1:9/", attempts=2, first_pause_s=0.01), "north", tally)
    assert not await post.deliver([present(raised())])
    await post.close()
    assert tally.webhooks == {("am", "failed"): 2}
