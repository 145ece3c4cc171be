"""Sparkplug B: births define, data uses, deaths end; the log alone decides."""

import math

import numpy as np
import pytest

from connectors.decoding import Decoder
from connectors.decoding.births import MAX_NODES, MAX_RUNS, BirthTables
from connectors.decoding.readings import Decoded
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat
from connectors.records import Batch, Partition, Record
from tests.support.sparkplug_records import FLOAT, INT8, INT16, INT32, INT64, T0, UINT32, metric, payload

GROUP = GroupLayout("pumps", (ChannelField("flow", "Inputs/flow"), ChannelField("pressure", "pressure")), ("*",))
FORMAT = RecordFormat(kind="sparkplug", on_unknown_channel="ignore")
NODE = b"spBv1.0/north/%b/edge-1"
DEVICE = b"spBv1.0/north/%b/edge-1/pump-1"
BD = metric("bdSeq", 3, kind=INT64)
NBIRTH = (NODE % b"NBIRTH", payload(BD, metric("Node Control/Rebirth", alias=1)))
DBIRTH = (
    DEVICE % b"DBIRTH",
    payload(metric("Inputs/flow", 80.0, alias=10), metric("pressure", 5.0, alias=11, kind=FLOAT), seq=1),
)


def ddata(*metrics: bytes, seq: int = 2, at_ms: int = T0 + 100) -> tuple[bytes, bytes]:
    return DEVICE % b"DDATA", payload(*metrics, seq=seq, at_ms=at_ms)


class Log:
    """A partition that is read on, batch by batch."""

    def __init__(self, format: RecordFormat = FORMAT, stored: bytes | None = None, first: int = 0) -> None:
        self.decoder, self.offset = Decoder([GROUP], format), first
        tables = self.decoder.make_births([stored])
        assert tables is not None
        self.tables: BirthTables = tables

    def read(self, *messages: tuple[bytes, bytes]) -> Decoded:
        records = [Record(self.offset + at, T0, key, value) for at, (key, value) in enumerate(messages)]
        self.offset += len(records)
        return self.decoder.decode(Batch(Partition("r", 0), records), self.tables)


def samples(decoded: Decoded) -> list[tuple[str, int, list[float | None]]]:
    return [
        (each.assets[asset], (time_ns // 1_000_000) - T0, [None if math.isnan(v) else round(v, 3) for v in values])
        for each in decoded.readings
        for asset, time_ns, values in zip(each.asset, each.time_ns.tolist(), each.values.tolist(), strict=True)
    ]


def test_data_with_aliases_means_what_the_birth_has_said() -> None:
    decoded = Log().read(NBIRTH, DBIRTH, ddata(metric(value=88.8, alias=10)))
    assert samples(decoded) == [
        ("north/edge-1", 0, [None, None]),
        ("north/edge-1/pump-1", 0, [80.0, 5.0]),
        ("north/edge-1/pump-1", 100, [88.8, None]),
    ]
    assert not decoded.rejected
    assert decoded.sequence_gaps == 0


def test_metrics_have_their_own_times_nulls_and_integers() -> None:
    log = Log()
    log.read(NBIRTH, DBIRTH)
    decoded = log.read(
        ddata(
            metric(alias=10, value=-7, kind=INT32, at_ms=T0 + 10),
            metric(alias=11, null=True, at_ms=T0 + 10),
            metric(alias=11, value=6.5, at_ms=T0 + 20),
            metric("Outputs/valve", value=1.0),
        )
    )
    assert samples(decoded) == [
        ("north/edge-1/pump-1", 10, [-7.0, None]),
        ("north/edge-1/pump-1", 20, [None, 6.5]),
    ]


@pytest.mark.parametrize(("kind", "bits"), [(INT8, 8), (INT16, 16), (INT32, 32), (INT64, 64)])
def test_the_datatype_of_the_birth_gives_an_integer_its_sign(kind: int, bits: int) -> None:
    """DATA should not repeat it, so that minus seven arrives as a large number; here by alias and by name."""
    log = Log()
    birth = (
        DBIRTH[0],
        payload(metric("Inputs/flow", 1, alias=10, kind=kind), metric("pressure", -2, kind=kind), seq=1),
    )
    decoded = log.read(
        NBIRTH,
        birth,
        ddata(metric(alias=10, value=-7, kind=kind, typed=False), metric("pressure", -8, kind=kind, typed=False)),
        ddata(metric(alias=10, value=(1 << bits - 1) - 1, kind=kind, typed=False)),
    )
    largest = float(np.float32((1 << bits - 1) - 1))
    assert [values for _, _, values in samples(decoded)][1:] == [[1.0, -2.0], [-7.0, -8.0], [largest, None]]
    stored = Log(stored=log.tables.stored(4), first=4)
    assert samples(stored.read(ddata(metric(alias=10, value=-7, kind=kind, typed=False))))[0][2] == [-7.0, None]


def test_an_unsigned_integer_stays_one() -> None:
    log = Log()
    birth = (DBIRTH[0], payload(metric("Inputs/flow", 1, alias=10, kind=UINT32), seq=1))
    decoded = log.read(NBIRTH, birth, ddata(metric(alias=10, value=4_000_000_000, kind=UINT32, typed=False)))
    assert samples(decoded)[-1][2] == [4e9, None]


def test_an_alias_out_of_the_blue_is_refused_since_the_others_may_mean_something_else_now() -> None:
    log = Log()
    log.read(NBIRTH, DBIRTH)
    known, unknown = metric(value=1.0, alias=10), metric(value=2.0, alias=77)
    [bad] = log.read(ddata(known, unknown)).rejected
    assert (bad.reason, "no alias 77" in bad.detail) == ("no_birth", True)
    assert not log.read(ddata(known)).rejected
    [bad] = Log(stored=log.tables.stored(4), first=4).read(ddata(unknown)).rejected
    assert bad.reason == "no_birth"


def test_an_alias_that_the_birth_has_but_no_channel_needs_is_left_out() -> None:
    log = Log()
    others = [metric(f"other-{at}", 1.0, alias=at) for at in (0, 1, 2, 9, 12, 13)]
    log.read(NBIRTH, (DBIRTH[0], DBIRTH[1] + b"".join(others)))
    for alias in (0, 1, 2, 9, 12, 13):
        assert not log.read(ddata(metric(value=1.0, alias=10), metric(value=2.0, alias=alias))).rejected
    for alias in (3, 8, 14, 1 << 60):
        assert log.read(ddata(metric(value=2.0, alias=alias))).rejected


def test_an_alias_of_two_metrics_is_refused_in_the_birth_and_in_data() -> None:
    log = Log()
    twice = metric("spare", 1.0, alias=10)
    [bad] = log.read(NBIRTH, (DBIRTH[0], DBIRTH[1] + twice)).rejected
    assert (bad.record, bad.reason) == (1, "bad_sparkplug")
    assert "the alias 10 is that of several metrics" in bad.detail
    [bad] = log.read(ddata(metric(value=1.0, alias=10))).rejected
    assert bad.reason == "no_birth"
    assert samples(log.read(ddata(metric(value=2.0, alias=11)))) == [("north/edge-1/pump-1", 100, [None, 2.0])]
    others = metric("spare", 1.0, alias=12) + metric("idle", 1.0, alias=12) + metric("pressure", 5.0, alias=11)
    assert not log.read((DBIRTH[0], DBIRTH[1] + others), ddata(metric(value=1.0, alias=12))).rejected


def test_a_birth_with_scattered_aliases_is_kept_small_and_not_asked() -> None:
    log = Log()
    others = [metric(f"other-{at}", 1.0, alias=2 * at) for at in range(50, 50 + MAX_RUNS)]
    log.read(NBIRTH, (DBIRTH[0], DBIRTH[1] + b"".join(others)))
    assert not log.read(ddata(metric(value=2.0, alias=77))).rejected
    assert len(log.tables.stored(3) or b"") < 400


def test_data_without_a_birth_is_refused_until_there_is_one() -> None:
    log = Log()
    [bad] = log.read(ddata(metric(value=1.0, alias=10))).rejected
    assert (bad.reason, "rebirth" in bad.detail) == ("no_birth", True)
    assert not log.read(NBIRTH, DBIRTH, ddata(metric(value=1.0, alias=10))).rejected


def test_after_a_death_aliases_mean_nothing() -> None:
    log = Log()
    log.read(NBIRTH, DBIRTH)
    death = log.read((DEVICE % b"DDEATH", payload(seq=2, at_ms=T0 + 50)))
    assert samples(death) == [("north/edge-1/pump-1", 50, [None, None])]
    assert [bad.reason for bad in log.read(ddata(metric(value=1.0, alias=10))).rejected] == ["no_birth"]


def test_the_death_of_a_node_is_that_of_its_devices_but_not_the_death_of_an_earlier_session() -> None:
    log = Log()
    log.read(NBIRTH, DBIRTH, (NODE % b"NDEATH", payload(metric("bdSeq", 2, kind=INT64), seq=None)))
    assert not log.read(ddata(metric(value=1.0, alias=10))).rejected
    log.read((NODE % b"NDEATH", payload(BD, seq=None)))
    assert [bad.reason for bad in log.read(ddata(metric(value=1.0, alias=10))).rejected] == ["no_birth"]


@pytest.mark.parametrize("session", [math.nan, math.inf, -math.inf, None])
def test_a_session_that_is_no_number_is_none(session: float | None) -> None:
    log = Log()
    death = (NODE % b"NDEATH", payload(metric("bdSeq", session), seq=None))
    assert not log.read((NODE % b"NBIRTH", payload(metric("bdSeq", session))), DBIRTH, death).rejected
    assert [bad.reason for bad in log.read(ddata(metric(value=1.0, alias=10))).rejected] == ["no_birth"]


def test_births_of_a_node_again_and_again_cost_nothing_for_devices_that_were_not_born_again() -> None:
    log = Log()
    log.read(NBIRTH, DBIRTH, *[NBIRTH] * 50)
    assert len(log.tables._births["north/edge-1", "pump-1"]) == 2


def test_the_dead_and_those_that_were_never_born_take_no_room() -> None:
    log = Log()
    log.read(*[(b"spBv1.0/north/NDEATH/nobody-%d" % at, payload(seq=None)) for at in range(MAX_NODES)])
    log.read(*[(b"spBv1.0/north/NBIRTH/guest-%d" % at, payload()) for at in range(MAX_NODES)])
    log.read(*[(b"spBv1.0/north/NDEATH/guest-%d" % at, payload(seq=None)) for at in range(MAX_NODES)])
    log.tables.stored(log.offset)
    assert not log.read(NBIRTH, DBIRTH, ddata(metric(value=1.0, alias=10))).rejected


def test_a_new_birth_of_the_node_ends_what_its_devices_had_defined() -> None:
    log = Log()
    decoded = log.read(NBIRTH, DBIRTH, NBIRTH, ddata(metric(value=1.0, alias=10)))
    assert [(bad.record, bad.reason) for bad in decoded.rejected] == [(3, "no_birth")]


def test_aliases_may_change_and_each_record_is_read_with_the_birth_before_it() -> None:
    swapped = (DBIRTH[0], payload(metric("Inputs/flow", 1.0, alias=11), metric("pressure", 2.0, alias=10)))
    log = Log()
    log.read(NBIRTH, DBIRTH)
    first = ddata(metric(value=7.0, alias=10))
    assert samples(log.read(first, swapped, first))[0][2] == [7.0, None]
    again = Log(first=2)
    again.tables = log.tables  # has seen the second birth already, at offset 3
    assert samples(again.read(first))[0][2] == [7.0, None]
    assert samples(log.read(first))[0][2] == [None, 7.0]


def test_what_is_stored_at_a_position_reads_on_from_there() -> None:
    log = Log()
    log.read(NBIRTH, DBIRTH)
    stored, oldest = log.tables.stored(2), log.tables.oldest(2)
    assert oldest == 0
    later = ddata(metric(value=7.0, alias=10))
    assert samples(Log(stored=stored, first=2).read(later)) == samples(log.read(later))
    assert Log(stored=b"rubbish").read(later).rejected[0].reason == "no_birth"


def test_lost_messages_show_in_the_sequence_numbers() -> None:
    log = Log()
    assert log.read(NBIRTH, DBIRTH, ddata(metric(value=1.0, alias=10), seq=5)).sequence_gaps == 1
    assert log.read(ddata(metric(value=1.0, alias=10), seq=6)).sequence_gaps == 0


def test_the_topic_may_be_in_a_header_and_the_key_is_then_free() -> None:
    format = RecordFormat(kind="sparkplug", topic_header="mqtt_topic")
    decoder = Decoder([GROUP], format)
    record = Record(0, T0, b"north/edge-1", DBIRTH[1], [("mqtt_topic", DBIRTH[0])])
    decoded = decoder.decode(Batch(Partition("r", 0), [record]), decoder.make_births(()))
    assert samples(decoded)[0][0] == "north/edge-1/pump-1"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"pump-1", payload(), "bad_sparkplug"),
        (b"spBv1.0/north/DDATA/edge-1", payload(), "bad_sparkplug"),
        (b"spBv1.0/north/NBIRTH/edge-1/pump-1", payload(), "bad_sparkplug"),
        (b"spBv1.0/north/XDATA/edge-1", payload(), "bad_sparkplug"),
        (b"spBv1.0//NBIRTH/edge-1", payload(), "bad_sparkplug"),
        (b"spAv1.0/north/NBIRTH/edge-1", payload(), "bad_sparkplug"),
        (NODE % b"NBIRTH", b"\x12\x05\x0a", "bad_sparkplug"),
        (NODE % b"NBIRTH", b"\xff" * 11, "bad_sparkplug"),
        (NODE % b"NBIRTH", b"\x0a\x01x", "bad_sparkplug"),
        (NODE % b"NBIRTH", b"\x0b", "bad_sparkplug"),
        (NODE % b"NBIRTH", payload(metric("pressure", kind=12)), "wrong_type"),
        (NODE % b"NBIRTH", payload(metric("pressure", math.inf)), "non_finite"),
        (NODE % b"NBIRTH", payload(at_ms=1 << 60), "bad_timestamp"),
    ],
)
def test_what_is_not_sparkplug_is_refused_by_name(key: bytes, value: bytes, reason: str) -> None:
    [bad] = Log().read((key, value)).rejected
    assert bad.reason == reason, bad.detail


def test_commands_and_host_states_are_left_out() -> None:
    decoded = Log().read((NODE % b"NCMD", payload()), (b"spBv1.0/STATE/scada", b"{}"))
    assert (decoded.ignored, decoded.rejected, decoded.readings) == (2, [], [])
