"""The registry's client: what was fetched is kept, a registry that is away delays, a hostile one is bounded."""

import asyncio
import gzip
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.decoding.registered import Schema
from connectors.errors import ConnectorError, RecordError
from connectors.schema_registry import RegistryAddress, SchemaCache, SchemaDirectory, SchemaRegistry
from tests.support.avro_records import FLAT
from tests.support.registry_double import Answer, answer, registry_double, schema_answer

QUICK = RegistryAddress("", timeout_s=20.0, attempts=2, first_pause_s=0.01, longest_pause_s=0.02)


async def ask(answers: dict[str, Answer], ids: set[int | str], **settings: Any) -> tuple[list[Any], list[str]]:
    async with registry_double(answers) as double:
        registry = SchemaRegistry(replace(QUICK, url=double.url, **settings))
        try:
            await registry.load(ids)
            return [registry.get(id) for id in sorted(ids, key=str)], double.asked
        finally:
            await registry.close()


async def test_a_schema_is_fetched_once() -> None:
    async with registry_double({"/schemas/ids/7": schema_answer(FLAT)}) as double:
        registry = SchemaRegistry(replace(QUICK, url=double.url))
        for _ in range(3):
            await registry.load({7})
        assert registry.get(7) == Schema(7, "AVRO", json.dumps(FLAT))
        assert double.asked == ["/schemas/ids/7", "/schemas/ids/7/versions"]
        await registry.close()


async def test_subject_and_version_are_part_of_every_complaint() -> None:
    named = answer(200, b'[{"subject":"readings-value","version":3}]')
    [found], _ = await ask({"/schemas/ids/7": schema_answer(FLAT), "/schemas/ids/7/versions": named}, {7})
    assert str(found) == "schema 7 (readings-value version 3)"


async def test_an_id_may_be_one_that_is_unique_everywhere() -> None:
    guid = "12345678-9abc-def0-1234-56789abcdef0"
    [found], asked = await ask({f"/schemas/guids/{guid}": schema_answer(FLAT)}, {guid})
    assert found == Schema(guid, "AVRO", json.dumps(FLAT))
    assert asked == [f"/schemas/guids/{guid}"]


async def test_the_latest_of_a_subject_is_found_by_its_escaped_name() -> None:
    path = "/subjects/plant%2Freadings-value/versions/latest"
    body = json.dumps({"schema": "{}", "id": 4, "version": 2}).encode()
    async with registry_double({path: answer(200, body)}) as double:
        registry = SchemaRegistry(replace(QUICK, url=double.url))
        assert await registry.latest("plant/readings-value") == Schema(
            4, "AVRO", "{}", "plant/readings-value version 2"
        )
        assert await registry.latest("other-value") is None
        await registry.close()


async def test_an_id_that_comes_late_is_waited_for_and_a_flood_of_wrong_ones_is_not() -> None:
    now = [0.0]
    async with registry_double({}) as double:
        registry = SchemaRegistry(replace(QUICK, url=double.url, attempts=4), clock=lambda: now[0])
        await registry.load({1})
        assert double.asked == ["/schemas/ids/1"] * 4
        await registry.load({2})
        assert double.asked[4:] == ["/schemas/ids/2"] * 2
        now[0] = 61.0
        await registry.load({3})
        assert double.asked[6:] == ["/schemas/ids/3"] * 4
        await registry.close()


async def test_the_kind_is_the_registrys() -> None:
    [found], _ = await ask({"/schemas/ids/1": schema_answer("syntax", schemaType="PROTOBUF")}, {1})
    assert found.kind == "PROTOBUF"


async def test_an_unknown_id_is_asked_for_twice_and_then_refused() -> None:
    [found], asked = await ask({}, {9})
    assert isinstance(found, RecordError)
    assert found.reason == "unknown_schema"
    assert asked == ["/schemas/ids/9"] * 2


async def test_an_id_that_the_second_node_has_heard_of_meanwhile_is_found() -> None:
    answers: dict[str, Answer] = {}
    async with registry_double(answers) as double:

        async def late(writer: asyncio.StreamWriter) -> None:
            writer.write(answer(404, b'{"error_code":40403}'))
            answers["/schemas/ids/3"] = schema_answer(FLAT)

        answers["/schemas/ids/3"] = late
        registry = SchemaRegistry(replace(QUICK, url=double.url))
        await registry.load({3})
        assert isinstance(registry.get(3), Schema)
        await registry.close()


async def test_a_storm_of_unknown_ids_is_asked_for_once_a_minute_and_its_memory_is_bounded() -> None:
    now = [0.0]
    async with registry_double({}) as double:
        registry = SchemaRegistry(replace(QUICK, url=double.url, max_schemas=10), clock=lambda: now[0])
        await registry.load(set(range(200)))
        await registry.load(set(range(200)))
        assert len(double.asked) == 400  # each twice, and only the first time
        await registry.load({500})
        assert len(registry._cache) == 10
        now[0] = 61.0
        await registry.load({500})
        assert double.asked.count("/schemas/ids/500") == 4
        await registry.close()


async def _hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(2)


async def _drip(writer: asyncio.StreamWriter) -> None:
    """A byte now and then, for ever: each read succeeds in time."""
    writer.write(b"HTTP/1.1 200 X\r\ncontent-length: 100000\r\n\r\n")
    for _ in range(20):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.1)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()


@pytest.mark.parametrize(
    ("hostile", "words"),
    [
        (_hang, "did not answer within 0.3 s"),
        (_drip, "did not answer within 0.3 s"),
        (_hang_up, "schema registry 127.0.0.1"),
        (answer(302, b"", "location: http://127.0.0.1:1/elsewhere"), "answered 302; redirects are not followed"),
        (answer(500, b"no"), "answered 500"),
        (answer(401, b"{}"), "answered 401"),
        (answer(404, b"<html>proxy</html>"), "answered 404"),
        (answer(200, b"<html>sign in</html>"), "no JSON object"),
        (answer(200, b"[1]"), "no JSON object"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "schema registry 127.0.0.1"),
        (answer(200, b"xx", "content-encoding: gzip"), "no gzip"),
        (answer(200, gzip.compress(b"{}" * 99, mtime=0)[:-9], "content-encoding: gzip"), "cut off"),
        (
            answer(200, gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0), "content-encoding: gzip, gzip"),
            "encoding gzip, gzip",
        ),
        (answer(200, b"xx", "content-encoding: zstd"), "encoding zstd"),
    ],
)
async def test_a_registry_that_cannot_be_used_stops_the_agent_and_loses_nothing(hostile: Answer, words: str) -> None:
    patience_s = 0.3 if hostile in (_hang, _drip) else QUICK.timeout_s
    with pytest.raises(ConnectorError, match="2 tries") as raised:
        await ask({"/schemas/ids/7": hostile}, {7}, timeout_s=patience_s)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"schema": "x" * 5000}, "unknown_schema"),
        ({"schema": 3}, "unknown_schema"),
        ({"schemaType": None, "schema": "{}"}, "unknown_schema"),
        ({}, "unknown_schema"),
        ({"schema": "{}", "references": [{"name": "a", "subject": "b", "version": 1}]}, "schema_mismatch"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_an_error_of_its_records(body: dict[str, Any], reason: str) -> None:
    [found], _ = await ask({"/schemas/ids/7": answer(200, json.dumps(body).encode())}, {7}, max_schema_bytes=2000)
    assert isinstance(found, RecordError)
    assert found.reason == reason


async def test_a_gigantic_answer_is_not_read_to_its_end() -> None:
    sent = 0

    async def flood(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 X\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x" * 100_000)
            await writer.drain()
            sent += 100_000

    [found], _ = await ask({"/schemas/ids/7": flood}, {7}, timeout_s=5.0)
    assert isinstance(found, RecordError)
    assert "larger than 1048576 bytes" in found.detail
    assert sent < 50_000_000


async def test_a_bomb_is_not_unpacked_to_its_end_and_what_fits_is_read() -> None:
    bomb = answer(200, gzip.compress(b" " * (64 << 20)), "content-encoding: gzip")
    tracemalloc.start()
    try:
        [found], _ = await ask({"/schemas/ids/7": bomb}, {7})
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert isinstance(found, RecordError)
    assert "larger than 1048576 bytes" in found.detail
    packed = gzip.compress(json.dumps({"schema": json.dumps(FLAT)}).encode())
    [found], _ = await ask({"/schemas/ids/7": answer(200, packed, "content-encoding: gzip")}, {7})
    assert found == Schema(7, "AVRO", json.dumps(FLAT))


async def test_the_login_is_sent_and_never_shown() -> None:
    async with registry_double({"/registry/schemas/ids/7": schema_answer(FLAT)}) as double:
        address = replace(QUICK, url=f"{double.url}/registry/", username="agent", password="s3cret")
        registry = SchemaRegistry(address)
        await registry.load({7})
        assert b"authorization: Basic YWdlbnQ6czNjcmV0" in double.heads[0].replace(b"Authorization", b"authorization")
        assert "s3cret" not in repr(address) + str(registry)
        await registry.close()


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:99999", "nonsense"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConnectorError, match="not an address"):
        SchemaRegistry(RegistryAddress(url))


def test_the_schema_that_was_needed_longest_ago_goes_first() -> None:
    cache = SchemaCache(2, 60.0, lambda: 0.0)
    for id in (1, 2):
        cache.add(id, Schema(id, "AVRO", ""))
    assert cache.missing({1, 3}) == [3]
    cache.add(3, Schema(3, "AVRO", ""))
    cache.shrink(1)
    assert cache.missing({1, 2, 3}) == [2]


async def test_a_directory_replaces_the_registry(tmp_path: Path) -> None:
    (tmp_path / "7.json").write_text(json.dumps({"schema": json.dumps(FLAT)}))
    (tmp_path / "8.json").write_text("<html>")
    schemas = SchemaDirectory(tmp_path)
    await schemas.load({7, 8, 9})
    assert isinstance(schemas.get(7), Schema)
    for id in (8, 9):
        found = schemas.get(id)
        assert isinstance(found, RecordError)
        assert found.reason == "unknown_schema"
    with pytest.raises(ConnectorError, match="no directory"):
        await SchemaDirectory(tmp_path / "none").load({7})
