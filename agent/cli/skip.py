"""`anchormoe-agent skip`: step over one record of the log."""

import asyncio
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import WRONG_USAGE, fail
from agent.cli.inputs import user_name

if TYPE_CHECKING:
    from agent.runtime.skipped_records import Skip
    from agent.settings import KafkaSourceSettings, Plant


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Example: `anchormoe-agent skip sensors:0:1841 --reason 'ends the agent, ticket 512' -c plant.yaml`",
    )(skip)


def skip(
    place: str = typer.Argument(..., metavar="TOPIC:PARTITION:OFFSET", help="The record."),
    reason: str = typer.Option(..., "--reason", help="Why; kept with the request and in the dead letter."),
    by: str | None = typer.Option(None, "--by", help="Who asks for it. Default: the user and the host."),
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="Configuration of the plant."),
) -> None:
    """Do not use one record: it becomes a dead letter `skipped`, and everything around it is read as ever.

    The request is appended to a compacted topic (`source.skips`), which agents read before the first record and follow
    while they run; `replay` reads it, too. Windows, offsets and all other records stay as they are. A record that was
    read and committed already cannot be skipped.
    """
    from agent.runtime.skipped_records import Skip, parse_record_place
    from agent.settings import KafkaSourceSettings, load_settings
    from connectors.timestamps import format_iso

    found = parse_record_place(place)
    if found is None:
        fail(f"{place}: write TOPIC:PARTITION:OFFSET, for example sensors:0:1841", code=WRONG_USAGE)
    if not reason.strip():
        fail("--reason: say why, for whoever reads it later", code=WRONG_USAGE)
    plant = load_settings(config, os.environ)
    if not isinstance(plant.source, KafkaSourceSettings):
        fail(f"{config}: source: only records of a source of kind kafka can be skipped", code=WRONG_USAGE)
    partition, offset = found
    if partition.topic not in plant.source.topics:
        topics = ", ".join(plant.source.topics)
        fail(f"{place}: {partition.topic} is not a topic of the plant's source ({topics})", code=WRONG_USAGE)
    who = by or f"{user_name()}@{socket.gethostname()}"
    request = Skip(partition, offset, reason.strip(), who, format_iso(time.time_ns() // 1_000_000_000 * 1_000_000_000))
    asyncio.run(_request(plant, plant.source, request))
    typer.echo(f"{partition}@{offset} will not be used: {request.detail}")


async def _request(plant: "Plant", source: "KafkaSourceSettings", request: "Skip") -> None:
    from agent.endpoints import skip_log

    await _require_unread(plant, source, request)
    requests = skip_log(plant)
    if requests is None:
        return
    try:
        await requests.append(request.key, request.encode())
    finally:
        await requests.close()


async def _require_unread(plant: "Plant", source: "KafkaSourceSettings", request: "Skip") -> None:
    """Skipping what was used would make a replay disagree with what was published."""
    from agent.settings.connections import cluster_of
    from connectors.kafka.admin import topic_partitions
    from connectors.kafka.group_offsets import GroupOffsets
    from connectors.kafka.log_inspector import LogInspector

    cluster, partition, offset = cluster_of(source.bootstrap, source.security), request.partition, request.offset
    partitions = len(await topic_partitions(cluster, [partition.topic]))
    if partition.number >= partitions:
        fail(f"{partition}: the topic has {partitions} partitions, numbered from 0")
    inspector = LogInspector(cluster, request_ms=source.timeouts.request.milliseconds)
    group = GroupOffsets(cluster, partition.topic, plant.consumer_group, partitions=partitions, retry_for_s=10)
    try:
        first, end = await inspector.first_offset(partition), await inspector.end_offset(partition)
        committed = (await group.committed())[partition.number]
    finally:
        await inspector.close()
        await group.close()
    if not first <= offset < end:
        fail(f"{partition}@{offset}: there is no such record; the log holds {first} to {end - 1}")
    if offset < committed:
        fail(f"{partition}@{offset}: it was read already; group {plant.consumer_group} has committed {committed}")
