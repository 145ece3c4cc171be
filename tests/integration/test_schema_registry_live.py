"""A real registry (Apicurio): Avro, Protobuf and JSON Schema from it, ids it does not have, a registry that is away."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.settings import load_plant
from agent.settings.registry_check import examine_registry
from connectors.decoding import Decoder
from connectors.decoding.registered import Schema
from connectors.errors import ConnectorError, RecordError
from connectors.record_schema import ChannelField, GroupLayout, RecordFormat, RecordKind
from connectors.records import Batch, Partition, Record
from connectors.schema_registry import RegistryAddress, SchemaDirectory, SchemaRegistry, schema_document
from tests.support.avro_records import FLAT, encode
from tests.support.proto_records import double, framed, integer, single
from tests.support.services.schema_registry import ApicurioRegistry

T0 = 1_731_744_000_000
BUNDLE = Path(__file__).parents[2] / "configs" / "bundles" / "pump"
GROUP = GroupLayout("pumps", (ChannelField("flow", "flow"), ChannelField("pressure", "pressure")), ("*",))


@pytest.fixture(scope="module")
def apicurio() -> Iterator[ApicurioRegistry]:
    registry = ApicurioRegistry()
    registry.start()
    yield registry
    registry.close()


async def decoded(registry: ApicurioRegistry, kind: RecordKind, value: bytes) -> list[list[float]]:
    schemas = SchemaRegistry(RegistryAddress(registry.url, attempts=2, first_pause_s=0.01))
    decoder = Decoder([GROUP], RecordFormat(kind=kind), schemas)
    record = Record(0, T0, b"pump-1", value)
    try:
        await decoder.prepare([record])
        found = decoder.decode(Batch(Partition("r", 0), [record]))
    finally:
        await decoder.close()
    assert not found.rejected, found.rejected
    values: list[list[float]] = found.readings[0].values.tolist()
    return values


async def test_avro_is_read_with_the_registrys_schema(apicurio: ApicurioRegistry) -> None:
    id = apicurio.add("avro-value", json.dumps(FLAT))
    value = encode({"ts": T0, "flow": 88.5, "pressure": 5.25}, id=id)
    assert await decoded(apicurio, "avro", value) == [[88.5, 5.25]]


async def test_protobuf_is_read_with_the_registrys_text(apicurio: ApicurioRegistry) -> None:
    text = 'syntax = "proto3"; message R { int64 ts = 1; double flow = 2; optional float pressure = 3; }'
    id = apicurio.add("proto-value", text, "PROTOBUF")
    value = framed(integer(1, T0) + double(2, 88.5) + single(3, 5.25), id=id)
    assert await decoded(apicurio, "protobuf", value) == [[88.5, 5.25]]


async def test_json_schema_is_found_by_its_id(apicurio: ApicurioRegistry) -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {}}
    id = apicurio.add("json-value", json.dumps(schema), "JSON")
    value = b"\x00" + id.to_bytes(4) + b'{"ts":%d,"flow":1.5,"pressure":2.5}' % T0
    assert await decoded(apicurio, "json-schema", value) == [[1.5, 2.5]]


async def test_an_id_it_does_not_have_is_denied_and_named(apicurio: ApicurioRegistry) -> None:
    schemas = SchemaRegistry(RegistryAddress(apicurio.url, attempts=2, first_pause_s=0.01))
    await schemas.load({987_654})
    found = schemas.get(987_654)
    assert isinstance(found, RecordError)
    assert (found.reason, "987654" in found.detail) == ("unknown_schema", True)
    await schemas.close()


async def test_an_exported_schema_reads_the_same_without_a_registry(apicurio: ApicurioRegistry, tmp_path: Path) -> None:
    id = apicurio.add("export-value", json.dumps(FLAT | {"name": "Export"}))
    schemas = SchemaRegistry(RegistryAddress(apicurio.url))
    await schemas.load({id})
    found = schemas.get(id)
    assert isinstance(found, Schema)
    assert found.subject == "export-value version 1"
    (tmp_path / f"{id}.json").write_text(json.dumps(schema_document(found)))
    directory = SchemaDirectory(tmp_path)
    await directory.load({id})
    assert directory.get(id) == found
    await schemas.close()


def plant(directory: Path, registry: ApicurioRegistry, topic: str) -> Any:
    document = {
        "namespace": "registry",
        "source": {"kind": "kafka", "bootstrap": "127.0.0.1:9092", "topics": [topic]},
        "records": {"format": "avro", "registry": {"url": registry.url, "retries": {"attempts": 1}}},
        "groups": [{"name": "pumps", "assets": ["pump-*"], "model": {"bundle": str(BUNDLE)}}],
        "sinks": [{"kind": "kafka", "topics": {"events": "e", "states": "s", "dead_letters": "d"}}],
    }
    path = directory / "plant.yaml"
    path.write_text(yaml.safe_dump(document))
    return load_plant(path, {})


async def test_validate_online_compares_the_latest_schema(apicurio: ApicurioRegistry, tmp_path: Path) -> None:
    names = ("flow", "pressure", "motor_current", "vibration", "temperature")
    fields: list[dict[str, Any]] = [{"name": "ts", "type": "long"}]
    fields += [{"name": name, "type": "double", "unit": "furlong"} for name in names]
    apicurio.add("good-value", json.dumps({"type": "record", "name": "G", "fields": fields}))
    apicurio.add("bad-value", json.dumps({"type": "record", "name": "B", "fields": fields[1:]}))
    problems, outage = await examine_registry(plant(tmp_path, apicurio, "good"))
    assert outage is None
    assert {problem.severity for problem in problems} == {"warning"}
    assert "furlong" in str(problems[0])
    problems, _ = await examine_registry(plant(tmp_path, apicurio, "bad"))
    assert "ts is missing" in str(problems[0])
    [problem], _ = await examine_registry(plant(tmp_path, apicurio, "absent"))
    assert "no subject absent-value" in str(problem)


async def test_a_registry_that_went_away_is_an_error_and_nothing_is_dead_lettered(tmp_path: Path) -> None:
    """Last: it needs one of its own."""
    own = ApicurioRegistry()
    own.start()
    id = own.add("away-value", json.dumps(FLAT))
    own.stop()
    schemas = SchemaRegistry(RegistryAddress(own.url, attempts=2, first_pause_s=0.01))
    with pytest.raises(ConnectorError):
        await schemas.load({id})
    _, outage = await examine_registry(plant(tmp_path, own, "away"))
    assert outage is not None
    await schemas.close()
    own.close()
