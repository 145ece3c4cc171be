"""`anchormoe-agent windows`: the windows that agents store in Redis, and how to reset one."""

import asyncio
import json
import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import WRONG_USAGE, fail

if TYPE_CHECKING:
    from agent.settings import LoadedPlant
    from agent.windows.inspect import StoredAsset, TornCheckpoint
    from connectors.records import Partition

CONFIG = typer.Option(Path("plant.yaml"), "--config", "-c", help="Configuration of the plant.")
AS_JSON = typer.Option(False, "--json", help="JSON instead of text.")
_WIDTH = 64

commands = typer.Typer(
    no_args_is_help=True, help="The windows in Redis: inspect them without disturbing the agents, or reset one."
)


def register(app: typer.Typer) -> None:
    app.add_typer(commands, name="windows")


@commands.command(name="list", epilog="Example: `anchormoe-agent windows list --config plant.yaml --group pumps`")
def list_windows(
    config: Path = CONFIG,
    group: str | None = typer.Option(None, "--group", help="Only this group."),
    as_json: bool = AS_JSON,
) -> None:
    """Every asset with its newest sample, the coverage of its last window and its state, as of the last checkpoint."""
    from connectors.printable import printable, printable_json

    stored, torn = _read_windows(config)
    assets = [each for each in stored if group in (None, each.group)]
    for each_torn in torn:
        if group in (None, each_torn.group):
            typer.echo(printable(f"warning: {each_torn}"), err=True)
    if as_json:
        typer.echo(printable_json(json.dumps([each.as_json() for each in assets], indent=2, ensure_ascii=False)))
        return
    if not assets:
        typer.echo(f"no windows are stored{_searched(config, group)}", err=True)
        return
    _print_table(assets)


@commands.command(epilog="Example: `anchormoe-agent windows show pump-1 --config plant.yaml`")
def show(
    asset: str = typer.Argument(..., help="Id of the asset."),
    config: Path = CONFIG,
    as_json: bool = AS_JSON,
) -> None:
    """One asset's last window: a sparkline per channel, coverage, watermark and state."""
    from agent.windows.inspect import find_asset
    from connectors.printable import printable, printable_json

    assets, torn = _read_windows(config)
    places = find_asset(assets, asset)
    for each_torn in torn:
        if not places and (asset in each_torn.assets or not each_torn.assets):
            fail(f"{asset}: {each_torn}")
    if not places:
        fail(f"{asset}: no window is stored{_similar(asset, assets) or _searched(config, None)}")
    if as_json:
        document = [each.as_json() for each in places.values()]
        typer.echo(printable_json(json.dumps(document, indent=2, ensure_ascii=False)))
        return
    for each in places.values():
        typer.echo("\n".join(map(printable, _picture(each))))


@commands.command(epilog="Example: `anchormoe-agent windows reset pump-1 --reason 'clock was a day ahead'`")
def reset(
    asset: str = typer.Argument(..., help="Id of the asset."),
    reason: str = typer.Option(..., "--reason", help="Why; it is kept in the header of the control record."),
    config: Path = CONFIG,
) -> None:
    """Make the agent forget an asset's window and state, for example after `clock_back`: its next sample is its first.

    Sends a control record to the asset's partition of the input topic, so that a replay does the same. The agents
    obey it where `records.control` is `accept`.
    """
    from agent.settings import load_settings
    from agent.windows.inspect import find_asset

    if load_settings(config, os.environ).records.control != "accept":
        remedy = "set records.control: accept, restart the agents and try again"
        fail(
            f"{config}: records.control: reject, so the agents would dead-letter the reset; {remedy}", code=WRONG_USAGE
        )
    assets, torn = _read_windows(config)
    places = [*find_asset(assets, asset), *(each.partition for each in torn if asset in each.assets)]
    if not places:
        fail(f"{asset}: no window is stored{_similar(asset, assets) or _searched(config, None)}")
    for partition in places:
        asyncio.run(_send_reset(config, asset, partition, reason))
        typer.echo(f"{asset}: reset sent to {partition}")


async def _send_reset(config: Path, asset: str, partition: "Partition", reason: str) -> None:
    from agent.runtime.control_records import RESET_HEADER
    from agent.settings import KafkaSourceSettings, load_settings
    from agent.settings.connections import cluster_of
    from connectors.kafka.producer import RecordProducer
    from connectors.records import Record

    source = load_settings(config, os.environ).source
    if not isinstance(source, KafkaSourceSettings):
        fail(f"{config}: source: a reset needs a source of kind kafka", code=WRONG_USAGE)
    producer = RecordProducer(cluster_of(source.bootstrap, source.security))
    await producer.start()
    try:
        record = Record(0, -1, asset.encode(), b"", ((RESET_HEADER, reason.encode()),))
        await producer.write(partition.topic, [record], partition=partition.number)
    finally:
        await producer.close()


def _read_windows(config: Path) -> "tuple[list[StoredAsset], list[TornCheckpoint]]":
    from agent.settings import load_plant

    return asyncio.run(read_stored(load_plant(config, os.environ), config))


async def read_stored(plant: "LoadedPlant", config: Path) -> "tuple[list[StoredAsset], list[TornCheckpoint]]":
    from agent.settings import RedisStoreSettings
    from agent.settings.connections import server_of, window_prefix
    from agent.windows.inspect import TornCheckpoint, specs_by_layout, stored_assets
    from connectors.redis.window_reader import WindowReader

    store = plant.settings.store
    if not isinstance(store, RedisStoreSettings):
        fail(f"{config}: store: a store of kind {store.kind} exists only inside the agent", code=WRONG_USAGE)
    groups = specs_by_layout(plant.groups)
    reader = WindowReader(server_of(store), prefix=window_prefix(plant.settings, store))
    try:
        await reader.start()
        checkpoints = [checkpoint async for checkpoint in reader.checkpoints(groups)]
    finally:
        await reader.close()
    assets: list[StoredAsset] = []
    torn: list[TornCheckpoint] = []
    for partition, layout, names, windows, _ in checkpoints:
        if windows is None:
            torn.append(TornCheckpoint(partition, groups[layout].name, tuple(names)))
        else:
            assets += stored_assets(groups[layout], partition, windows)
    return assets, torn


def _searched(config: Path, group: str | None) -> str:
    """What was searched for: mostly the namespace is another one, or no agent has made a checkpoint yet."""
    from agent.settings import load_settings

    namespace = load_settings(config, os.environ).namespace
    where = f"namespace {namespace}{f', group {group}' if group else ''}"
    return f" for {where}; has an agent run long enough for a checkpoint?"


def _similar(asset: str, assets: "list[StoredAsset]") -> str:
    names = sorted({each.asset for each in assets})
    close = get_close_matches(asset, names, n=3, cutoff=0.5) or names[:3]
    return f"; {len(names)} assets are stored, for example {', '.join(close)}" if names else ""


def _print_table(assets: "list[StoredAsset]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from connectors.printable import printable
    from connectors.timestamps import format_iso

    table = Table("asset", "group", "partition", "newest sample", box=None, header_style="bold")
    table.add_column("coverage", justify="right")
    table.add_column("state")
    table.add_column("since")
    for each in sorted(assets, key=lambda one: one.asset):
        since = "" if each.since_ns is None else format_iso(each.since_ns)
        columns = [each.asset, each.group, str(each.partition), format_iso(each.newest_ns)]
        cells = [*columns, f"{each.coverage:.0%}", each.state or "–", since]
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=160)).print(table)


def _picture(asset: "StoredAsset") -> list[str]:
    import numpy as np

    from agent.terminal.sparkline import sparkline
    from connectors.timestamps import format_iso

    width = max(len(name) for name in asset.channels)
    since = "" if asset.since_ns is None else f" since {format_iso(asset.since_ns)}"
    lines = [
        f"{asset.asset}  group {asset.group}, {asset.partition}",
        f"state {asset.state or 'not classified yet'}{since}",
        f"newest {format_iso(asset.newest_ns)}, complete up to {format_iso(asset.watermark_ns)} (watermark)",
        f"coverage {asset.coverage:.1%} of the last {asset.window.shape[1]} steps",
    ]
    for name, values in zip(asset.channels, asset.window, strict=True):
        known = values[~np.isnan(values)]
        span = f"{known.min():.4g} … {known.max():.4g}" if len(known) else "no value"
        lines.append(f"{name:>{width}}  {sparkline(values, _WIDTH)}  {span}  {len(known) / len(values):.0%}")
    return lines
