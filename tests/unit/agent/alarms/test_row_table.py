"""Rows never go back in time, and rows that a late writer overwrote in the changelog are written again."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from agent.alarms.worker.settings import WorkerSettings, faust_app
from agent.alarms.worker.tables import RowTable
from connectors.kafka.cluster import Cluster


def row(offset: int) -> bytes:
    return orjson.dumps({"offset": offset, "value": {}, "before": None})


def change(key: bytes, value: bytes | None) -> Any:
    """A record of the changelog, with what the table reads of it."""
    return SimpleNamespace(key=key, value=value, message=SimpleNamespace(value=value, partition=2))


class Sent(list[tuple[Any, ...]]):
    def __call__(self, *given: Any) -> None:
        self.append(given)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RowTable:
    app = faust_app(WorkerSettings("alarms-test", Cluster("127.0.0.1:1"), "events", directory=tmp_path))
    made: RowTable = app.Table("rows", partitions=4, key_type=bytes, value_type=bytes)
    monkeypatch.setattr(made, "send_changelog", Sent())
    return made


async def test_a_late_row_of_an_earlier_input_is_skipped_and_the_newer_one_written_again(table: RowTable) -> None:
    table.apply_changelog_batch([change(b"a", row(7)), change(b"b", row(3)), change(b"a", row(5))])
    assert dict(table.data.items()) == {b"a": row(7), b"b": row(3)}
    await table.on_recovery_completed({("rows", 2)}, set())
    assert table.send_changelog == [(2, b"a", row(7))]


async def test_recovering_the_same_rows_again_writes_nothing(table: RowTable) -> None:
    history = [change(b"a", row(5)), change(b"a", row(7))]
    table.apply_changelog_batch(history)
    table.apply_changelog_batch(history)
    await table.on_recovery_completed({("rows", 2)}, set())
    assert table.send_changelog == []


async def test_a_deleted_row_is_removed(table: RowTable) -> None:
    table.apply_changelog_batch([change(b"a", row(5)), change(b"a", None)])
    assert dict(table.data.items()) == {}
