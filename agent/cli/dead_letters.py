"""`anchormoe-agent dead-letters`: what was refused and why, and sending back what can be used now."""

import asyncio
import json
import os
from collections import Counter, deque
from collections.abc import AsyncGenerator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import typer

from agent.cli.errors import WRONG_USAGE, fail
from agent.cli.inputs import stream_files

if TYPE_CHECKING:
    from agent.dead_letters.replayed import ReplayedLetters
    from agent.dead_letters.stored import LetterPosition, ReasonCount, ReplayFilter, ReplayRecord, StoredDeadLetter
    from agent.settings import LoadedPlant, Plant

CONFIG = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant whose dead letters they are.")
AS_JSON = typer.Option(False, "--json", help="JSON instead of text.")
_SEND_AT_ONCE = 500
_NOBODY_KEEPS = "{}: sinks: none is of kind kafka or jsonl, so nobody keeps dead letters"

commands = typer.Typer(no_args_is_help=True, help="Records that could not be used: look at them, send them back.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="dead-letters")


@commands.command(name="list", epilog="Example: `anchormoe-agent dead-letters list --config plant.yaml --reason late`")
def list_letters(
    config: Path = CONFIG,
    reason: str | None = typer.Option(None, "--reason", help="The letters of this reason, one by one."),
    limit: int = typer.Option(50, "--limit", min=1, help="With --reason: at most the newest so many."),
    as_json: bool = AS_JSON,
) -> None:
    """How many were refused for which reason, the first and the last by the records' own time."""
    from agent.terminal.dead_letters import counts_json, counts_text, each_json, each_text

    plant = _settings(config)
    if reason is None:
        counts = asyncio.run(_counted(plant, config))
        typer.echo(_dumped(counts_json(counts)) if as_json else counts_text(counts))
        return
    letters = asyncio.run(_newest(plant, config, reason, limit))
    told = each_text(letters) if letters else f"no dead letters of reason {reason}; `list` alone shows the reasons"
    typer.echo(_dumped([each_json(letter) for letter in letters]) if as_json else told)


@commands.command(epilog="Example: `anchormoe-agent dead-letters show 0:17 --config plant.yaml`")
def show(
    place: str = typer.Argument(..., help="PARTITION:OFFSET as `list --reason` prints it, or OFFSET in partition 0."),
    config: Path = CONFIG,
) -> None:
    """One dead letter: why, where it came from, its key, headers and bytes."""
    from agent.terminal.dead_letters import described

    wanted = _place(place)
    letter = asyncio.run(_one(_settings(config), config, wanted))
    if letter is None:
        fail(f"{wanted}: there is no such dead letter")
    typer.echo("\n".join(described(letter)))


@commands.command(epilog="Example: `anchormoe-agent dead-letters replay --reason unknown_asset --dry-run`")
def replay(
    config: Path = CONFIG,
    reason: list[str] = typer.Option([], "--reason", help="Only letters of this reason; may be repeated."),
    edit: Path | None = typer.Option(
        None, "--edit", help='Repaired ones, JSON lines: {"offset": 17, "value": {…}}, and "partition" if not 0.'
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be sent, send nothing."),
    force: bool = typer.Option(False, "--force", help="Also what was sent back before."),
    as_json: bool = AS_JSON,
) -> None:
    """Send back what the plant can read now: same topic, partition, key, headers and time.

    Each goes back once: what was sent is noted, in Kafka in the topic of the dead letters with `-sent` behind its name.
    A record that is sent again carries the header dl_replayed; when it is refused once more, it stays refused.
    """
    from agent.dead_letters.stored import ReplayFilter
    from agent.settings import KafkaSourceSettings, load_plant

    plant = load_plant(config, os.environ)
    if not isinstance(plant.settings.source, KafkaSourceSettings):
        fail(f"{config}: source: only records from Kafka can be sent back", code=WRONG_USAGE)
    wish = ReplayFilter(plant.settings.source.topics, reason, _edits(edit), force)
    outcome = asyncio.run(_send_back(plant, config, wish, dry_run=dry_run))
    sent = outcome.pop("", 0)
    if as_json:
        typer.echo(_dumped({"sent": 0 if dry_run else sent, "sendable": sent, "kept": outcome}))
        return
    typer.echo(f"{sent} {'would be sent' if dry_run else 'sent'} back")
    for why, count in outcome.most_common():
        typer.echo(f"  {count} kept: {why}")


async def _letters(plant: "Plant", config: Path) -> "AsyncGenerator[StoredDeadLetter, None]":
    """From the first Kafka sink's topic, or else the first directory of JSON lines."""
    from agent.dead_letters.stored import LetterPosition, StoredDeadLetter
    from agent.settings import JsonlSinkSettings, KafkaSinkSettings
    from agent.settings.connections import sink_cluster

    topics = [sink for sink in plant.sinks if isinstance(sink, KafkaSinkSettings)]
    places = [sink.directory for sink in plant.sinks if isinstance(sink, JsonlSinkSettings)]
    if topics:
        from connectors.kafka.bounded import read_batches

        cluster = sink_cluster(topics[0])
        async for batch in read_batches(cluster, topics[0].topics.dead_letters):
            for record in batch.records:
                where = LetterPosition(batch.partition.number, record.offset)
                yield StoredDeadLetter.of(where, record.key, record.value, record.headers)
    elif places:
        for letter in _from_files(places[0]):
            yield letter
    else:
        fail(_NOBODY_KEEPS.format(config), code=WRONG_USAGE)


def _from_files(directory: Path) -> "list[StoredDeadLetter]":
    """Numbered by line, the oldest file first."""
    from agent.dead_letters.stored import LetterPosition, StoredDeadLetter
    from connectors.jsonl import read_messages
    from connectors.records import DEAD_LETTERS

    files = stream_files(directory, DEAD_LETTERS) if directory.is_dir() else []
    messages = [message for path in files for message in read_messages(path)]
    return [
        StoredDeadLetter.of(LetterPosition(0, line), message.key, message.value, message.headers)
        for line, message in enumerate(messages)
    ]


async def _counted(plant: "Plant", config: Path) -> "dict[str, ReasonCount]":
    from agent.dead_letters.stored import ReasonCount

    counts: dict[str, ReasonCount] = {}
    async for letter in _letters(plant, config):
        counts.setdefault(letter.reason, ReasonCount()).add(letter)
    return counts


async def _newest(plant: "Plant", config: Path, reason: str, limit: int) -> "list[StoredDeadLetter]":
    kept: deque[StoredDeadLetter] = deque(maxlen=limit)
    async for letter in _letters(plant, config):
        if letter.reason == reason:
            kept.append(letter)
    return list(kept)


async def _one(plant: "Plant", config: Path, place: "LetterPosition") -> "StoredDeadLetter | None":
    found = None
    async for letter in _letters(plant, config):
        if letter.place == place:
            found = letter
    return found


async def _send_back(plant: "LoadedPlant", config: Path, wish: "ReplayFilter", *, dry_run: bool) -> Counter[str]:
    """How many were kept for which reason; under "" how many were sent."""
    from agent.dead_letters.stored import replay_record
    from agent.settings import group_layouts, record_format
    from connectors.decoding import Decoder

    decoder = Decoder(group_layouts(plant.groups), record_format(plant.settings.records))
    outcome: Counter[str] = Counter()
    waiting: list[ReplayRecord] = []
    notes = _notes(plant.settings, config)
    post = ReturnPost(plant, notes, dry_run=dry_run)
    known, now = await notes.known(), set[bytes]()
    try:
        await post.start()
        async for letter in _letters(plant.settings, config):
            verdict = replay_record(letter, decoder, replace(wish, sent=known))
            if isinstance(verdict, str):
                outcome[verdict] += 1
                continue
            if verdict.origin in now:
                outcome["is there twice"] += 1
                continue
            now.add(verdict.origin)
            waiting.append(verdict)
            if len(waiting) >= _SEND_AT_ONCE:
                outcome[""] += await post.send(waiting)
        outcome[""] += await post.send(waiting)
    finally:
        await post.close()
    return outcome


def _notes(plant: "Plant", config: Path) -> "ReplayedLetters":
    """Where the dead letters are, what was sent back of them is noted."""
    from agent.dead_letters.replayed import ReplayedLettersFile, ReplayedLettersTopic
    from agent.settings import JsonlSinkSettings
    from agent.settings.connections import sink_cluster

    if (sink := plant.kafka_sink) is not None:
        return ReplayedLettersTopic(sink_cluster(sink), sink.topics.dead_letters)
    places = [sink.directory for sink in plant.sinks if isinstance(sink, JsonlSinkSettings)]
    if not places:
        fail(_NOBODY_KEEPS.format(config), code=WRONG_USAGE)
    return ReplayedLettersFile(places[0])


class ReturnPost:
    """Sends records back to their topics, in order, and notes it; a dry run only counts."""

    def __init__(self, plant: "LoadedPlant", notes: "ReplayedLetters", *, dry_run: bool) -> None:
        from agent.cli.inputs import cluster_near
        from connectors.kafka.producer import RecordProducer

        self._writer, self._notes = None if dry_run else RecordProducer(cluster_near(plant.settings, [])), notes

    async def start(self) -> None:
        if self._writer is not None:
            await self._writer.start()

    async def send(self, waiting: "list[ReplayRecord]") -> int:
        """Empties the list; how many it held. After a crash between sending and noting, they are sent again."""
        count = len(waiting)
        if self._writer is not None and waiting:
            for (topic, partition), own in groupby(waiting, key=lambda each: (each.topic, each.partition)):
                await self._writer.write(topic, [each.record for each in own], partition=partition)
            await self._notes.note([each.origin for each in waiting])
        waiting.clear()
        return count

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()


def _dumped(facts: Any) -> str:
    return json.dumps(facts, indent=2, ensure_ascii=False)


def _settings(config: Path) -> "Plant":
    from agent.settings import load_settings

    return load_settings(config, os.environ)


def _place(text: str) -> "LetterPosition":
    from agent.dead_letters.stored import LetterPosition

    try:
        return LetterPosition.parse(text)
    except ValueError:
        fail(f"{text!r}: write PARTITION:OFFSET, like 0:17", code=WRONG_USAGE)


def _edits(path: Path | None) -> "dict[LetterPosition, bytes]":
    """A text is taken as it is, anything else as JSON."""
    from agent.dead_letters.stored import LetterPosition

    edits: dict[LetterPosition, bytes] = {}
    for number, line in enumerate(path.read_bytes().splitlines() if path else (), 1):
        try:
            given = orjson.loads(line)
            value, place = given["value"], LetterPosition(int(given.get("partition", 0)), int(given["offset"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            fail(f"--edit {path}:{number}: needs offset and value: {error}", code=WRONG_USAGE)
        edits[place] = value.encode() if isinstance(value, str) else orjson.dumps(value)
    return edits
