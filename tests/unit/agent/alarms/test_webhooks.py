"""What is sent to receivers of alarms, and what their answers lead to."""

from typing import Any

import jsonschema
import orjson
import pytest

from agent.alarms.alert_payloads import alert, body, is_firing, signature
from agent.alarms.counters import AlarmCounters
from agent.alarms.messages import alarm_data
from agent.alarms.webhooks import AlarmDelivery, AlarmReceiver
from connectors.webhook import Receiver
from tests.support.alarm_log import Run, catalogue, command, event, rule, tick
from tests.support.alarm_receiver import CheckingReceiver, check_alerts, receiving
from tests.support.raw_receiver import Respond, endless_error, fixed, hang, raw_receiver, status

PLANT = catalogue(rule())
PATCH = {"start": "a", "end": "b", "contribution": 2.5, "channels": [{"name": "flow", "effect": 1.0}]}
EVIDENCE = {"class": "worn", "supporting": 3.0, "opposing": -1.0, "patches": [PATCH]}


def present(run: Run, name: str = "wear:pump-1") -> dict[str, Any]:
    data = alarm_data("hall", PLANT, run.console.alarms[name])
    return dict(orjson.loads(orjson.dumps(data)))


def raised() -> Run:
    return Run(PLANT).apply(event(0, 0.9, evidence=EVIDENCE))


def test_a_firing_alarm_is_an_alert_without_an_end() -> None:
    posted = alert(present(raised()), "north")
    check_alerts([posted])
    assert posted["labels"] == {
        "alertname": "wear",
        "alarm": "wear:pump-1",
        "asset": "pump-1",
        "console": "hall",
        "kind": "process",
        "namespace": "north",
        "severity": "high",
    }
    assert posted["startsAt"] == "2023-11-14T22:13:20Z"
    assert "endsAt" not in posted
    assert posted["annotations"]["evidence"] == "a–b +2.50 (flow)"
    assert posted["annotations"]["action"] == "change over to the spare"


def test_an_alarm_of_version_2_says_why_in_the_words_of_its_event() -> None:
    span = {"start": "a", "end": "b", "contribution": 2.5, "channels": ["flow"], "share": 0.9, "expert": "kernel"}
    evidence = {"class": "worn", "supporting": 3.0, "opposing": -1.0, "spans": [span]}
    run = Run(PLANT).apply(event(0, 0.9, evidence=evidence, text="flow 3 m³/h against 5 m³/h normal"))
    posted = alert(present(run), "north")
    check_alerts([posted])
    assert posted["annotations"]["evidence"] == "a–b +2.50 (flow)"
    assert posted["annotations"]["why"] == "flow 3 m³/h against 5 m³/h normal"


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
def test_what_alertmanager_would_reject_fails_the_check(wrong: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, KeyError, ValueError, jsonschema.ValidationError)):
        check_alerts([alert(present(raised()), "north") | wrong])


def test_a_hidden_alarm_is_not_firing() -> None:
    run = raised()
    assert is_firing(present(run))
    assert not is_firing(present(run.apply(command(5, "shelve", until=50))))


def test_the_plain_format_carries_the_whole_alarm() -> None:
    [posted] = orjson.loads(body("generic", [present(raised())], "north"))["alarms"]
    assert posted["status"] == "firing"
    assert posted["raised_by"]["evidence"]["patches"] == [PATCH]


def test_the_summary_of_a_flood_lists_what_it_holds() -> None:
    run = Run(PLANT).apply(*(event(at, 0.9, asset=f"pump-{at:02d}") for at in range(12)), tick(12))
    posted = alert(present(run, "flood:hall"), "north")
    assert posted["annotations"]["holds"] == "2 alarms held: wear:pump-10, wear:pump-11"


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
    with receiving(CheckingReceiver("key", "token", list(answers))) as receiver:
        delivered, counters = await deliver(receiver.url, timeout_s=2 if 0 in answers else 20, attempts=3)
    assert (delivered, counters) == (expected, counted)
    assert receiver.errors == []


async def test_without_a_server_at_the_address_the_alarms_are_sent_later() -> None:
    assert await deliver("http://127.0.0.1:9/") == (False, {"failed": 2})


@pytest.mark.parametrize(
    ("respond", "delivered", "counted"),
    [
        (status("400 Bad Request", "", b"Ung\xfcltige Anfrage"), True, {"refused": 1}),
        (endless_error, True, {"refused": 1}),
        (status("302 Found", "Location: /login\r\n"), False, {"failed": 1}),
        (status("304 Not Modified"), False, {"failed": 1}),
        (status("307 Temporary Redirect", "Location: http://127.0.0.1:9/\r\n"), False, {"failed": 1}),
        (hang, False, {"failed": 2}),
        (fixed(b"HTTP/1.1 20"), False, {"failed": 2}),
        (fixed(b"SSH-2.0-OpenSSH_9.2\r\n\x00\xff"), False, {"failed": 2}),
    ],
    ids=["Latin-1", "300 MB", "302", "304", "307", "hangs", "closes early", "not HTTP"],
)
async def test_only_success_and_rejection_end_the_delivery_of_an_alarm(
    respond: Respond, delivered: bool, counted: dict[str, int]
) -> None:
    async with raw_receiver(respond) as receiver:
        assert await deliver(receiver.url, timeout_s=0.3 if respond is hang else 20) == (delivered, counted)
        assert set(receiver.methods) == {"POST"}


async def test_an_unexpected_exception_does_not_end_the_worker() -> None:
    """The alarms stay pending and are sent again later."""
    target = AlarmReceiver("am", Receiver("http://127.0.0.1:9/"), "alertmanager")
    delivery = AlarmDelivery(target, "north", AlarmCounters())
    assert not await delivery.deliver([{"not": "an alarm"}])
    await delivery.close()


async def test_logs_show_host_and_port_and_the_answer_but_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    page = b"Cannot POST /hooks/T000/SECRETPATH"
    async with raw_receiver(status("404 Not Found", "", page)) as receiver:
        await deliver(receiver.url)
        target = AlarmReceiver("am", Receiver(receiver.url, "token"), secret="key")
        host_and_port = receiver.url.split("/")[2]
    logged = capsys.readouterr().out
    assert f"address={host_and_port}" in logged
    assert "Cannot POST ***" in logged
    assert "SECRET" not in logged
    assert all(secret not in repr(target) for secret in ("SECRET", "'token'", "'key'"))


async def deliver(url: str, **changes: Any) -> tuple[bool, dict[str, int]]:
    """Whether one alarm was delivered, and the counters of the receiver."""
    quick: dict[str, Any] = {"timeout_s": 0.3, "attempts": 2, "first_pause_s": 0.01} | changes
    counters = AlarmCounters()
    receiver = AlarmReceiver("am", Receiver(url, "token", **quick), "alertmanager", secret="key")
    delivery = AlarmDelivery(receiver, "north", counters)
    delivered = await delivery.deliver([present(raised())])
    await delivery.close()
    return delivered, {outcome: count for (_, outcome), count in counters.webhooks.items()}
