"""Inputs with their offsets: what is asked of the worker, what is skipped, what is explained."""

import orjson

from agent.alarms.core.inputs import Input, encode_input
from agent.alarms.worker.consoles import AppliedInput, ConsoleWorker
from tests.support.alarm_log import catalogue, command, event, rule, tick

PLANT = catalogue(rule())


class Table(dict[bytes, bytes]):
    """What the worker's table would hold."""

    def write(self, work: AppliedInput) -> None:
        for key, value in work.rows:
            if value is None:
                self.pop(key, None)
            else:
                self[key] = value


def taken(desk: ConsoleWorker, entry: Input, offset: int) -> AppliedInput:
    return desk.take(b"hall", encode_input(entry), offset, 0)


def test_an_input_asks_for_messages_first_and_the_consoles_row_last() -> None:
    work = taken(ConsoleWorker(PLANT, list), event(0, 0.9), 0)
    assert [one.stream for one in work.messages] == ["alarm-transitions", "alarms"]
    assert b"console" in work.rows[-1][0]
    assert orjson.loads(work.rows[-1][1] or b"")["offset"] == 0


def test_after_a_rebalance_what_is_in_the_table_is_not_done_again() -> None:
    table = Table()
    desk = ConsoleWorker(PLANT, table.items)
    table.write(taken(desk, event(0, 0.9), 4))
    desk.forget()
    assert taken(desk, event(0, 0.9), 4) == AppliedInput()
    again = taken(desk, command(5, "ack"), 5)
    assert [one.after for one in again.transitions] == ["acknowledged"]


def test_a_cut_off_input_is_taken_again_from_where_the_console_stood() -> None:
    table = Table()
    desk = ConsoleWorker(PLANT, table.items)
    table.write(taken(desk, tick(0), 0))
    whole = taken(desk, event(1, 0.9), 1)
    table.write(AppliedInput(rows=whole.rows[:1]))  # the alarm's row alone
    desk.forget()
    assert taken(desk, event(1, 0.9), 1).transitions == whole.transitions


def test_what_cannot_be_read_is_counted_and_explained_in_the_audit() -> None:
    desk = ConsoleWorker(PLANT, list)
    work = desk.take(b"hall", b"{", 7, 1_700_000_000_000_000_000)
    [entry] = [orjson.loads(one.value or b"") for one in work.messages]
    assert (entry["outcome"], entry["input"], entry["at"]) == ("refused", "offset 7", "2023-11-14T22:13:20Z")
    assert entry["reason"].startswith("no JSON")
    assert work.rows == []
    desk.take(b"nowhere", b"{}", 8, 0)
    assert desk.ignored == {"malformed": 1, "unknown_console": 1}
