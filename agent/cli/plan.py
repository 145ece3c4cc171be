"""`anchormoe-agent plan`: how many agents and partitions, how much memory, and how long after an outage."""

import json
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agent.cli.errors import WRONG_USAGE, fail
from agent.cli.inputs import parse_duration

if TYPE_CHECKING:
    from agent.planning.costs import Machine, Measured, Running
    from agent.planning.formulas import Allocator, Costs, Load, Terms
    from agent.settings import LoadedPlant, ResolvedGroup

_TIMEOUT_S = 10.0
_MEASURED_ASSETS = 200


def register(app: typer.Typer) -> None:
    app.command(
        epilog="Example: `anchormoe-agent plan plant.yaml --assets pumps=5000 --measure 60s --outage 1h --catch-up 30m`"
    )(plan)


def plan(
    config: Path = typer.Argument(..., metavar="PLANT.YAML", help="The plant to plan for."),
    assets: list[str] = typer.Option(
        [], "--assets", metavar="GROUP=COUNT", help="How many assets a group has; repeatable. Default: its max_assets."
    ),
    asset_file: Path | None = typer.Option(
        None, "--asset-ids", help="File with one asset id per line: the fullest partition by their real hashes."
    ),
    rate: str | None = typer.Option(
        None, "--rate", metavar="N/s", help="Samples of one asset per second, e.g. 10/s. Default: the group's period."
    ),
    samples: int = typer.Option(
        1, "--samples", min=1, max=1_000_000, help="Samples per record, for chunked and binary records."
    ),
    peak: float = typer.Option(1.5, "--peak", min=1, max=1000, help="Largest load as a multiple of the usual one."),
    growth: float = typer.Option(1.5, "--growth", min=1, max=1000, help="More assets that the partitions must do for."),
    outage: str | None = typer.Option(None, "--outage", metavar="TIME", help="Longest outage to be caught up with."),
    catch_up: str = typer.Option("30m", "--catch-up", metavar="TIME", help="How long catching up may take."),
    changes: float = typer.Option(
        2.0, "--changes", min=0, max=1e6, help="Changes of state of one asset per hour, for emission.policy: changes."
    ),
    cores: float = typer.Option(1.0, "--cores", min=0.1, max=1024, help="Processors of one agent."),
    replication: int = typer.Option(3, "--replication", min=1, max=100, help="Copies of a topic in Kafka."),
    allocator: str = typer.Option("jemalloc", "--redis-allocator", help="jemalloc or libc: mem_allocator in INFO."),
    measure: str | None = typer.Option(
        None, "--measure", metavar="TIME", help="Measure the costs on this machine for about so long, e.g. 60s."
    ),
    busy: bool = typer.Option(False, "--busy", help="Measure although other programs load the machine."),
    from_metrics: str | None = typer.Option(
        None, "--from-metrics", metavar="URL", help="Take the costs from the /metrics of a running agent."
    ),
    over: str = typer.Option("30s", "--over", metavar="TIME", help="How long to watch the running agent."),
    costs: Path | None = typer.Option(None, "--costs", help="Take the costs from a file that --measure has written."),
    reverse: bool = typer.Option(False, "--reverse", help="Say how many assets --replicas agents carry."),
    replicas: int | None = typer.Option(None, "--replicas", min=1, max=100_000, help="Plan for so many agents."),
    as_json: bool = typer.Option(False, "--json", help="Print the plan as one JSON object."),
    as_helm: bool = typer.Option(False, "--values", help="Print values for the Helm chart."),
) -> None:
    """Say what a plant needs: agents, partitions, memory, Redis, retention, and the time after an outage.

    Every cost is marked: measured here, measured there, or assumed. --measure runs decoding, windows, model, evidence,
    events and checkpoints with this plant's bundles and record format over made-up records, takes processor time,
    and writes plan-HOST-DIGEST.json, which --costs reads again. Kafka and Redis are not contacted.
    """
    from agent.settings import load_plant

    if sum(given is not None for given in (measure, from_metrics, costs)) > 1:
        fail("--measure, --from-metrics and --costs: give one of them", code=WRONG_USAGE)
    if as_json and as_helm:
        fail("--json and --values: give one of them", code=WRONG_USAGE)
    if reverse and replicas is None:
        fail("--reverse: give --replicas too", code=WRONG_USAGE)
    plant = load_plant(config, os.environ)
    counts, rate_hz = _counts(plant, assets), None if rate is None else _rate(rate)
    wanted = _Wanted(peak, growth, outage, catch_up, cores, replication, allocator)
    found = _Costs(plant, config, changes, samples)
    if measure is not None:
        found.measure(parse_duration("--measure", measure).seconds, counts, busy=busy)
    elif from_metrics is not None:
        found.scrape(from_metrics, parse_duration("--over", over).seconds)
    elif costs is not None:
        found.read(costs)
    else:
        typer.echo("nothing was measured: --measure 60s takes this machine's figures", err=True)
    loads = {
        group.name: _load(plant, group, found.of(group), counts[group.name], rate_hz, samples) for group in plant.groups
    }
    terms = _terms(plant, found, wanted)
    if asset_file is not None:
        terms = _with_ids(terms, asset_file, sum(counts.values()))
    _answer(plant, loads, terms, replicas, reverse=reverse, form="json" if as_json else "values" if as_helm else "text")


class _Wanted:
    def __init__(
        self,
        peak: float,
        growth: float,
        outage: str | None,
        catch_up: str,
        cores: float,
        replication: int,
        allocator: str,
    ) -> None:
        if allocator not in ("jemalloc", "libc"):
            fail(f"--redis-allocator: {allocator!r} is neither jemalloc nor libc", code=WRONG_USAGE)
        self.allocator: Allocator = allocator  # type: ignore[assignment] # just checked
        self.peak, self.growth, self.cores, self.replication = peak, growth, cores, replication
        self.outage_s = None if outage is None else parse_duration("--outage", outage).seconds
        self.catch_up_s = parse_duration("--catch-up", catch_up).seconds


class _Costs:
    """From one of three places; without any, assumed."""

    def __init__(self, plant: "LoadedPlant", config: Path, changes: float, samples: int) -> None:
        self._plant, self._config, self._changes, self._samples = plant, config, changes, samples
        self._measured: Mapping[str, Measured] = {}
        self._running: Running | None = None
        self._here = False

    def measure(self, seconds: float, counts: Mapping[str, int], *, busy: bool) -> None:
        from agent.planning.costs import Machine, as_document
        from agent.planning.measuring import measure

        machine = Machine.this()
        if machine.load > machine.cores and not busy:
            fail(
                f"--measure: the machine is busy (load {machine.load} on {machine.cores} cores), so its figures would "
                "be wrong; wait, or add --busy"
            )
        assets = min(max(counts.values()), _MEASURED_ASSETS)
        self._measured = measure(self._config, os.environ, assets=assets, samples=self._samples, seconds=seconds)
        self._here = True
        digests = self._digests()
        out = Path(f"plan-{_host(machine)}-{'-'.join(sorted({each[:8] for each in digests.values()}))}.json")
        out.write_text(json.dumps(as_document(machine, digests, self._measured), indent=2) + "\n")
        typer.echo(f"measured; the figures are in {out}, for --costs", err=True)

    def scrape(self, url: str, seconds: float) -> None:
        from agent.planning.costs import between_scrapes

        if not url.startswith(("http://", "https://")):
            fail(f"--from-metrics: {url!r} is not an address such as http://127.0.0.1:8787/metrics", code=WRONG_USAGE)
        first = self._get(url)
        time.sleep(seconds)
        self._running = between_scrapes(first, self._get(url), seconds)

    def read(self, path: Path) -> None:
        from agent.errors import SettingsError
        from agent.planning.costs import Machine, from_document

        try:
            document = json.loads(path.read_text())
        except (ValueError, UnicodeDecodeError) as error:
            raise SettingsError(f"--costs: {path} is not JSON: {error}") from error
        machine, self._measured = from_document(document, self._digests())
        self._here = machine.host == Machine.this().host

    def of(self, group: "ResolvedGroup") -> "Costs":
        from agent.planning import costs as known
        from agent.planning.formulas import Figure

        emission = self._plant.settings.emission
        heartbeat_s = None if emission.heartbeat is None else emission.heartbeat.seconds
        per_window = Figure(
            known.events_per_window(group, emission.policy, heartbeat_s, self._changes),
            "assumed",
        )
        if self._running is not None:
            return known.running_costs(self._running, group)
        if group.name in self._measured:
            origin = "measured here" if self._here else "measured there"
            return known.measured_costs(self._measured[group.name], per_window, origin)  # type: ignore[arg-type] # one of two Origins
        return known.assumed_costs(group, per_window)

    def base(self, groups: "tuple[ResolvedGroup, ...]") -> "Terms":
        from agent.planning import costs as known
        from agent.planning.formulas import Figure, Terms

        if self._running is not None:
            held = self._running.assets * max(known.least_asset_bytes(group) for group in groups)
            return Terms(base_bytes=Figure(max(self._running.resident_bytes - held, 0.0), "measured there"))
        if self._measured:
            most = max(each.base_bytes for each in self._measured.values()) + known.CLIENT_BYTES
            return Terms(base_bytes=Figure(most, "measured here" if self._here else "measured there"))
        return Terms(base_bytes=Figure(known.BASE_BYTES, "assumed"))

    def _digests(self) -> dict[str, str]:
        from hashlib import sha256

        from anchormoe.bundle.files import MANIFEST

        return {
            group.name: sha256((Path(group.bundle) / MANIFEST).read_bytes()).hexdigest() for group in self._plant.groups
        }

    def _get(self, url: str) -> str:
        import httpx

        http = self._plant.settings.http
        headers = {"Authorization": f"Bearer {http.token.get_secret_value()}"} if http and http.token else {}
        try:
            answer = httpx.get(url, headers=headers, timeout=_TIMEOUT_S, trust_env=False)
            answer.raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            fail(f"--from-metrics: {error}")
        return answer.text


def _counts(plant: "LoadedPlant", given: list[str]) -> dict[str, int]:
    """By group; one number alone is meant for the only group."""
    names = [group.name for group in plant.groups]
    counts = {group.name: group.max_assets for group in plant.groups}
    for text in given:
        name, _, number = text.rpartition("=")
        if not name and len(names) == 1:
            name = names[0]
        if name not in counts:
            fail(f"--assets: {text!r}: the plant's groups are {', '.join(names)}; write GROUP=COUNT", code=WRONG_USAGE)
        if not number.isdecimal() or not 0 < int(number) <= 10**9:
            fail(f"--assets: {text!r}: {number!r} is not a number of assets", code=WRONG_USAGE)
        counts[name] = int(number)
    return counts


def _rate(text: str) -> float:
    number, slash, unit = text.partition("/")
    try:
        rate_hz = float(number) / {"": 1, "s": 1, "min": 60, "h": 3600}[unit if slash else ""]
    except (ValueError, KeyError):
        fail(f"--rate: {text!r} is not a rate such as 10/s, 6/min or 1/h", code=WRONG_USAGE)
    if not 0 < rate_hz <= 1e6:
        fail(f"--rate: {text!r} is out of range: more than 0, at most 1000000/s", code=WRONG_USAGE)
    return rate_hz


def _load(
    plant: "LoadedPlant", group: "ResolvedGroup", costs: "Costs", assets: int, rate_hz: float | None, samples: int
) -> "Load":
    from agent.planning.formulas import Load

    format = plant.settings.records.format
    if samples > 1 and format not in ("chunked", "binary"):
        fail(f"--samples: {format} records have one sample each", code=WRONG_USAGE)
    per_sample = len(group.channels) if format == "narrow" else 1 / samples
    return Load(
        assets=assets,
        rate_hz=rate_hz or 1e9 / group.grid.period_ns,
        channels=len(group.channels),
        length=group.shape.length,
        hop=group.shape.hop,
        lateness=group.shape.lateness,
        costs=costs,
        records_per_sample=per_sample,
        memory_hops=group.memory_hops,
        key_bytes=_key_bytes(plant, group),
    )


def _key_bytes(plant: "LoadedPlant", group: "ResolvedGroup") -> int:
    """Of an asset's ring in Redis, with a number of four digits for a pattern's star."""
    from agent.settings import KafkaSourceSettings, RedisStoreSettings
    from agent.settings.connections import window_prefix
    from connectors.records import Partition
    from connectors.redis.keys import ring_key

    settings = plant.settings
    topic = settings.source.topics[0] if isinstance(settings.source, KafkaSourceSettings) else "input"
    prefix = window_prefix(settings, settings.store) if isinstance(settings.store, RedisStoreSettings) else "anchormoe"
    asset = group.assets[0].replace("*", "0000")
    return len(ring_key(prefix, Partition(topic, 10), "0" * 16, asset))


def _terms(plant: "LoadedPlant", found: _Costs, wanted: _Wanted) -> "Terms":
    from dataclasses import replace

    limits = plant.settings.limits
    return replace(
        found.base(plant.groups),
        peak=wanted.peak,
        growth=wanted.growth,
        outage_s=wanted.outage_s,
        catch_up_s=wanted.catch_up_s,
        checkpoint_s=plant.settings.checkpoint.every.seconds,
        replication=wanted.replication,
        cores_per_replica=wanted.cores,
        allocator=wanted.allocator,
        queue_windows=limits.queue_windows,
        in_flight=limits.in_flight_batches,
        batch_records=limits.max_batch_records,
    )


def _with_ids(terms: "Terms", path: Path, assets: int) -> "Terms":
    from dataclasses import replace

    from connectors.kafka.partitioning import most_in_one

    keys = [line.strip().encode() for line in path.read_text().splitlines() if line.strip()]
    if len(set(keys)) != assets:
        fail(f"--asset-ids: {path} has {len(set(keys)):,} ids, but {assets:,} assets are planned", code=WRONG_USAGE)
    return replace(terms, assets_in=partial(most_in_one, keys))


def _answer(
    plant: "LoadedPlant", loads: "dict[str, Load]", terms: "Terms", replicas: int | None, *, reverse: bool, form: str
) -> None:
    import yaml

    from agent.planning import answer
    from agent.planning.formulas import most_assets
    from agent.planning.formulas import plan as plan_for
    from agent.settings import KafkaSourceSettings

    capacity = plan_for(list(loads.values()), terms, replicas=replicas)
    warnings = list(answer.warnings_of(capacity, loads, plant.groups, plant.settings))
    most = most_assets(list(loads.values()), terms, replicas) if reverse and replicas is not None else None
    if form == "json":
        document = answer.as_document(capacity, loads, terms, warnings)
        typer.echo(json.dumps(document | ({} if most is None else {"most_assets": most}), indent=2))
        return
    if form == "values":
        source = plant.settings.source
        topics = source.topics if isinstance(source, KafkaSourceSettings) else ()
        typer.echo(f"# maxmemory of Redis: {capacity.redis_maxmemory >> 20}mb, maxmemory-policy noeviction")
        values = answer.as_values(capacity, terms, topics, windows_bytes=plant.settings.limits.memory)
        typer.echo(yaml.safe_dump(values, sort_keys=False), nl=False)
        for warning in warnings:
            typer.echo(f"warning: {warning}", err=True)
        return
    if most is not None:
        typer.echo(f"{replicas} agents carry {most:,} assets in these proportions\n")
    for line in answer.in_words(capacity, loads, terms, warnings):
        typer.echo(line)


def _host(machine: "Machine") -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in machine.host) or "host"
