"""Asset ids out of records: what is refused, what is ignored, and how much is remembered."""

import tracemalloc

import pytest

from connectors.decoding import Decoded, Decoder
from connectors.decoding.assets import AssetDirectory
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Partition, Record

T0 = 1_700_000_000_000
VALUE = b'{"ts":%d,"a":1}' % T0


def group(*assets: str) -> GroupLayout:
    return GroupLayout("g", (ChannelField("a", "a"),), assets)


def decode(keys: list[bytes], *assets: str, unknown: str = "reject") -> Decoded:
    records = [Record(at, T0, key, VALUE) for at, key in enumerate(keys)]
    format = RecordFormat(on_unknown_asset=unknown)  # type: ignore[arg-type]
    return Decoder([group(*assets)], format).decode(Batch(Partition("t", 0), records))


HOSTILE = [
    b"pump-\x1b[2J",
    b"pump-1\nforged line",
    b"pump-[/x]",
    b"pump-\x00",
    "pump-\u202e1".encode(),
    b"pump- 1",
    b"pump-" + b"x" * 124,
    b"pump-" + b"x" * 10_000,
]


@pytest.mark.parametrize("key", HOSTILE)
@pytest.mark.parametrize("unknown", ["reject", "ignore"])
def test_a_key_that_is_no_asset_id_is_rejected_where_a_pattern_would_take_it(key: bytes, unknown: str) -> None:
    decoded = decode([b"pump-1", key], "pump-*", unknown=unknown)
    [rejected] = decoded.rejected
    assert (rejected.record, rejected.reason, decoded.ignored) == (1, "bad_asset", 0)
    assert len(rejected.detail) < 300
    assert rejected.detail.isprintable()


@pytest.mark.parametrize("key", HOSTILE)
def test_a_bad_id_of_somebody_else_is_ignored_like_any_unknown_asset(key: bytes) -> None:
    assert decode([key], "fan-*", unknown="ignore").ignored == 1
    assert [each.reason for each in decode([key], "fan-*").rejected] == ["bad_asset"]


def test_every_id_that_the_settings_allow_is_accepted() -> None:
    keys = [b"a", b"A.b_c:d/e-f", b"0" * 128]
    assert decode(keys, "*").rejected == []


def test_ten_kilobyte_keys_are_not_remembered() -> None:
    directory = AssetDirectory([group("*")])
    directory.owners([b"a"])
    before = directory.remembered_bytes
    tracemalloc.start()
    for number in range(0, 3_000, 100):
        directory.owners([b"%d" % at + b"x" * 10_000 for at in range(number, number + 100)])
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert directory.remembered_bytes == before
    assert grown < 1_000_000  # 30 MB were sent


def test_a_flood_of_unknown_names_stays_within_the_limit_and_known_assets_keep_their_group() -> None:
    limit = 4 << 20
    directory = AssetDirectory([group("pump-*")], max_bytes=limit)
    tracemalloc.start()
    for number in range(0, 60_000, 500):
        owners = directory.owners([b"pump-1", *(b"fan-%d-" % at + b"y" * 100 for at in range(number, number + 500))])
        assert owners.group.tolist() == [0] + [-1] * 500
        assert owners.names[owners.number[0]] == "pump-1"
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert directory.remembered_bytes <= limit
    assert kept < 1.5 * limit


def test_assets_of_one_batch_keep_different_numbers_when_the_limit_is_reached() -> None:
    directory = AssetDirectory([group("*")], max_bytes=10_000)
    first = [b"a-%d" % number for number in range(30)]
    directory.owners(first)
    owners = directory.owners([*first, *(b"b-%d" % number for number in range(30))])
    assert len(set(owners.number.tolist())) == 60
    assert [owners.names[number] for number in owners.number[:2]] == ["a-0", "a-1"]
