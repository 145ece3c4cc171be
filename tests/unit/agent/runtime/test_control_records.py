"""Control records in the input: which are obeyed, and that none disappears."""

import pytest

from agent.runtime.control_records import Reset, split_at_resets
from connectors.records import Batch, Headers, Partition, Record, RejectedRecord

A = Partition("t", 0)
RESET: Headers = [("anchormoe_reset", b"clock was ahead")]


def data(offset: int) -> Record:
    return Record(offset, 1, b"p1", b"{}")


def control(offset: int, *, key: bytes | None = b"p1", value: bytes | None = b"", headers: Headers = RESET) -> Record:
    return Record(offset, 1, key, value, headers)


def pieces(*records: Record, accept: bool = True) -> list[Reset | list[int]]:
    split = split_at_resets(Batch(A, records), accept=accept)
    return [each if isinstance(each, Reset) else [record.offset for record in each.records] for each in split]


def rejected(*records: Record, accept: bool = True) -> list[tuple[int, str]]:
    return [
        (record.offset, record.reason)
        for each in split_at_resets(Batch(A, records), accept=accept)
        if isinstance(each, Batch)
        for record in each.records
        if isinstance(record, RejectedRecord)
    ]


def test_a_batch_without_control_records_is_passed_on_as_it_is() -> None:
    batch = Batch(A, [data(0), data(1)])
    assert list(split_at_resets(batch)) == [batch]


def test_a_batch_is_cut_at_its_resets() -> None:
    assert pieces(data(0), control(1), data(2)) == [[0], Reset("p1", 1), [2]]
    assert pieces(control(0), control(1, value=None)) == [Reset("p1", 0), Reset("p1", 1)]


@pytest.mark.parametrize(
    "odd", [{"value": b'{"ts":1}'}, {"key": None}, {"key": b""}, {"key": b"p1\x1b[2J"}, {"key": b"\xff"}]
)
def test_a_control_record_that_is_not_understood_is_rejected_and_not_swallowed(odd: dict[str, bytes | None]) -> None:
    records = [data(0), control(1, **odd), data(2), control(3)]  # type: ignore[arg-type]
    assert pieces(*records) == [[0, 1, 2], Reset("p1", 3)]
    assert rejected(*records) == [(1, "bad_control")]


def test_where_control_records_are_not_accepted_every_one_is_rejected() -> None:
    records = [data(0), control(1), data(2)]
    assert pieces(*records, accept=False) == [[0, 1, 2]]
    assert rejected(*records, accept=False) == [(1, "bad_control")]


def test_a_record_that_is_rejected_already_is_no_control_record() -> None:
    bad = RejectedRecord(0, 1, b"p1", b"", RESET, "undecodable_headers", "why")
    assert list(split_at_resets(Batch(A, [bad]))) == [Batch(A, [bad])]
