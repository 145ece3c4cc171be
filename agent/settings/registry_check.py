"""Compares the latest schemas of the input topics with what the groups need: `validate --online`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from agent.settings.connections import schema_source
from agent.settings.formats import group_layouts, record_format
from agent.settings.loading import LoadedPlant
from agent.settings.problems import Problem, warning
from agent.settings.sources import KafkaSourceSettings
from connectors.errors import ConnectorError, RecordError

if TYPE_CHECKING:
    from connectors.decoding.registered import Schema

_PATH = ("records", "registry")


async def examine_registry(plant: LoadedPlant) -> tuple[list[Problem], Problem | None]:
    """What is wrong with the schemas; and, where the registry cannot be asked, that.

    The subject of a topic is TOPIC-value, which is what serializers use unless they are told otherwise.
    """
    from connectors.schema_registry import SchemaRegistry

    source = plant.settings.source
    try:
        registry = schema_source(plant.settings.records)
    except ConnectorError as error:
        return [Problem(_PATH, str(error), "correct the address or the certificates")], None
    if not isinstance(registry, SchemaRegistry) or not isinstance(source, KafkaSourceSettings):
        return [], None
    found: list[Problem] = []
    try:
        for topic in source.topics:
            schema = await registry.latest(f"{topic}-value")
            found += _problems(plant, f"{topic}-value", schema)
    except ConnectorError as error:
        return found, Problem(_PATH, str(error), "start it, or correct url and login")
    finally:
        await registry.close()
    return found, None


def _problems(plant: LoadedPlant, subject: str, schema: "Schema | RecordError | None") -> Iterator[Problem]:
    if schema is None:
        right = "register it, or ignore this where the serializers name their subjects otherwise"
        yield warning(_PATH, f"the registry has no subject {subject}", right)
        return
    if isinstance(schema, RecordError):
        yield Problem(_PATH, schema.detail, "make it smaller, or raise registry.max_schema_bytes")
        return
    from connectors.decoding.decoder import check_schema

    for layout in group_layouts(plant.groups):
        try:
            check_schema(schema, layout, record_format(plant.settings.records))
        except RecordError as error:
            right = "add the field to the schema, name another one in channels[].field, or set unknown_channel: ignore"
            yield Problem(_PATH, f"group {layout.name}: {schema}: {error.detail}", right)
    if schema.kind == "AVRO":
        yield from _unit_problems(plant, schema)


def _unit_problems(plant: LoadedPlant, schema: "Schema") -> Iterator[Problem]:
    """A field's property `unit` is not part of Avro, but often there."""
    units = _units(schema.text)
    for group in plant.groups:
        for channel in group.channels:
            said = units.get(channel.field)
            if said is not None and channel.unit and said != channel.unit and (channel.scale, channel.offset) == (1, 0):
                wrong = f"{schema}: {channel.field} is in {said}, channel {channel.name} of group {group.name} "
                yield warning(_PATH, f"{wrong}in {channel.unit}", "set scale and offset of the channel")


def _units(text: str) -> dict[str, str]:
    try:
        fields: Any = orjson.loads(text).get("fields", [])
    except (orjson.JSONDecodeError, AttributeError):
        return {}
    return {
        field["name"]: field["unit"]
        for field in (fields if isinstance(fields, list) else [])
        if isinstance(field, dict) and isinstance(field.get("unit"), str) and isinstance(field.get("name"), str)
    }
