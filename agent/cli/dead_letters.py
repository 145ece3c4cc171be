"""`anchormoe-agent dead-letters`: list and show the records that could not be used, and replay them."""

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import typer

from agent.cli.errors import WRONG_USAGE, fail

if TYPE_CHECKING:
    from agent.dead_letters.archive import DeadLetterArchive
    from agent.dead_letters.stored import LetterPosition
    from agent.settings import Plant

CONFIG = typer.Option(Path("plant.yaml"), "--config", "-c", help="The plant that the dead letters belong to.")
AS_JSON = typer.Option(False, "--json", help="Print JSON instead of text.")

commands = typer.Typer(no_args_is_help=True, help="Records that could not be used: list, show and replay them.")


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="dead-letters")


@commands.command(name="list", epilog="Example: `anchormoe-agent dead-letters list --config plant.yaml --reason late`")
def list_letters(
    config: Path = CONFIG,
    reason: str | None = typer.Option(None, "--reason", help="List the single letters of this reason."),
    limit: int = typer.Option(50, "--limit", min=1, help="With --reason: only the newest so many."),
    as_json: bool = AS_JSON,
) -> None:
    """Count dead letters by reason, with the first and the last timestamp of their records."""
    from agent.dead_letters.archive import count_by_reason, newest_letters
    from agent.terminal.dead_letters import counts_json, counts_text, letter_json, letters_text

    archive = _archive(_settings(config), config)
    if reason is None:
        counts = asyncio.run(count_by_reason(archive))
        typer.echo(_to_json(counts_json(counts)) if as_json else counts_text(counts))
        return
    letters = asyncio.run(newest_letters(archive, reason, limit))
    text = letters_text(letters) if letters else f"no dead letters of reason {reason}; `list` alone shows the reasons"
    typer.echo(_to_json([letter_json(letter) for letter in letters]) if as_json else text)


@commands.command(epilog="Example: `anchormoe-agent dead-letters show 0:17 --config plant.yaml`")
def show(
    position: str = typer.Argument(
        ..., help="PARTITION:OFFSET as printed by `list --reason`, or OFFSET in partition 0."
    ),
    config: Path = CONFIG,
) -> None:
    """Show one dead letter: the reason, where it came from, its key, headers and bytes."""
    from agent.dead_letters.archive import find_letter
    from agent.terminal.dead_letters import letter_lines

    wanted = _position(position)
    letter = asyncio.run(find_letter(_archive(_settings(config), config), wanted))
    if letter is None:
        fail(f"there is no dead letter at {wanted}; `list --reason REASON` shows their positions")
    typer.echo("\n".join(letter_lines(letter)))


@commands.command(epilog="Example: `anchormoe-agent dead-letters replay --reason unknown_asset --dry-run`")
def replay(
    config: Path = CONFIG,
    reason: list[str] = typer.Option([], "--reason", help="Only letters of this reason; repeatable."),
    edit: Path | None = typer.Option(
        None,
        "--edit",
        help='Corrected values as JSON lines: {"offset": 17, "value": {…}}, with "partition" where it is not 0.',
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print what would be replayed, send nothing."),
    force: bool = typer.Option(False, "--force", help="Also replay letters that were replayed before."),
    as_json: bool = AS_JSON,
) -> None:
    """Send the records that the plant can read now back to their topic, with their partition, key, headers and time.

    Each letter is replayed once; in Kafka, the topic of the dead letters with the suffix `-sent` remembers which.
    A replayed record has the header dl_replayed, so that one that is rejected again is not replayed for ever.
    """
    from agent.dead_letters.replay import replay_for_plant
    from agent.dead_letters.stored import ReplayFilter
    from agent.settings import KafkaSourceSettings, load_plant
    from connectors.printable import printable

    plant = load_plant(config, os.environ)
    source = plant.settings.source
    topics = source.topics if isinstance(source, KafkaSourceSettings) else ()
    wanted = ReplayFilter(topics, reason, _edits(edit), force)
    archive = _archive(plant.settings, config)
    summary = asyncio.run(replay_for_plant(plant, archive, wanted, dry_run=dry_run))
    if as_json:
        sent = 0 if dry_run else summary.replayable
        typer.echo(_to_json({"replayed": sent, "replayable": summary.replayable, "skipped": summary.skipped}))
        return
    typer.echo(f"{summary.replayable} {'would be replayed' if dry_run else 'replayed'}")
    for why, count in summary.skipped.most_common():
        typer.echo(f"  {count} skipped: {printable(why)}")


def _archive(plant: "Plant", config: Path) -> "DeadLetterArchive":
    from agent.dead_letters.archive import find_archive

    archive = find_archive(plant)
    if archive is None:
        fail(f"{config}: sinks: no kafka or jsonl sink is configured, so dead letters are not stored", code=WRONG_USAGE)
    return archive


def _to_json(document: Any) -> str:
    from connectors.printable import printable_json

    return printable_json(json.dumps(document, indent=2, ensure_ascii=False))


def _settings(config: Path) -> "Plant":
    from agent.settings import load_settings

    return load_settings(config, os.environ)


def _position(text: str) -> "LetterPosition":
    from agent.dead_letters.stored import LetterPosition

    try:
        return LetterPosition.parse(text)
    except ValueError:
        fail(f"{text!r} is not a position; write PARTITION:OFFSET, like 0:17", code=WRONG_USAGE)


def _edits(path: Path | None) -> "dict[LetterPosition, bytes]":
    """A string value is taken as it is, any other value as JSON."""
    from agent.dead_letters.stored import LetterPosition

    edits: dict[LetterPosition, bytes] = {}
    for number, line in enumerate(path.read_bytes().splitlines() if path else (), 1):
        try:
            edit = orjson.loads(line)
            value, position = edit["value"], LetterPosition(int(edit.get("partition", 0)), int(edit["offset"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            fail(f"--edit {path}:{number}: must be an object with offset and value: {error}", code=WRONG_USAGE)
        edits[position] = value.encode() if isinstance(value, str) else orjson.dumps(value)
    return edits
