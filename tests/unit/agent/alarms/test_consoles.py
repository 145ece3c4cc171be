"""Inputs with offsets: what they ask the worker to publish and write, what is skipped, what is refused."""

import orjson

from agent.alarms.core.inputs import Input, encode_input
from agent.alarms.worker.consoles import AppliedInput, ConsoleWorker
from tests.support.alarm_log import catalogue, command, event, rule, tick

PLANT = catalogue(rule())


class Table(dict[bytes, bytes]):
    """The worker's table."""

    def write(self, applied: AppliedInput) -> None:
        for key, value in applied.rows:
            if value is None:
                self.pop(key, None)
            else:
                self[key] = value


def take(worker: ConsoleWorker, entry: Input, offset: int) -> AppliedInput:
    return worker.take(b"hall", encode_input(entry), offset, 0)


def test_an_input_asks_for_messages_first_and_the_consoles_row_last() -> None:
    applied = take(ConsoleWorker(PLANT, list), event(0, 0.9), 0)
    assert [one.stream for one in applied.messages] == ["alarm-transitions", "alarms"]
    assert b"console" in applied.rows[-1][0]
    assert orjson.loads(applied.rows[-1][1] or b"")["offset"] == 0


def test_after_a_rebalance_inputs_that_the_table_has_are_not_applied_again() -> None:
    table = Table()
    worker = ConsoleWorker(PLANT, table.items)
    table.write(take(worker, event(0, 0.9), 4))
    worker.forget()
    assert take(worker, event(0, 0.9), 4) == AppliedInput()
    again = take(worker, command(5, "ack"), 5)
    assert [one.after for one in again.transitions] == ["acknowledged"]


def test_an_interrupted_input_is_applied_again_from_the_state_before() -> None:
    table = Table()
    worker = ConsoleWorker(PLANT, table.items)
    table.write(take(worker, tick(0), 0))
    whole = take(worker, event(1, 0.9), 1)
    table.write(AppliedInput(rows=whole.rows[:1]))  # the alarm's row alone
    worker.forget()
    assert take(worker, event(1, 0.9), 1).transitions == whole.transitions


def test_an_input_that_cannot_be_decoded_is_counted_and_refused_in_the_audit() -> None:
    worker = ConsoleWorker(PLANT, list)
    applied = worker.take(b"hall", b"{", 7, 1_700_000_000_000_000_000)
    [entry] = [orjson.loads(one.value or b"") for one in applied.messages]
    assert (entry["outcome"], entry["input"], entry["at"]) == ("refused", "offset 7", "2023-11-14T22:13:20Z")
    assert entry["reason"].startswith("no JSON")
    assert applied.rows == []
    worker.take(b"nowhere", b"{}", 8, 0)
    assert worker.ignored == {"malformed": 1, "unknown_console": 1}
