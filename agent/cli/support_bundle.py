"""`anchormoe-agent support-bundle`: what somebody needs who is to find a fault, and nothing of a patient."""

import asyncio
import json
import os
import platform
import sys
from collections import deque
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from agent.settings import KafkaSourceSettings, LoadedPlant

_TIMEOUT_S = 10.0


def register(app: typer.Typer) -> None:
    app.command(
        "support-bundle",
        epilog="Example: `anchormoe-agent support-bundle --config plant.yaml --log agent.log --out bundle.tar.gz`",
    )(support_bundle)


def support_bundle(
    config: Path = typer.Option(Path("plant.yaml"), "--config", "-c", help="Configuration of the plant."),
    log: Path | None = typer.Option(None, "--log", help="Log of the agent, in JSON; its last lines are kept."),
    lines: int = typer.Option(2000, "--lines", min=1, help="How many lines of the log."),
    out: Path = typer.Option(Path("support-bundle.tar.gz"), "--out", help="The archive to write."),
) -> None:
    """Save what helps to find a fault: settings, versions, metrics, log, lag, commits, store.

    Secrets, names of assets and users, and the words of exceptions are left out. What cannot be had is named in
    problems.json, so that a bundle can also be made of an agent that does not start.
    """
    from agent.health.support_bundle import write_archive

    parts = _Parts(config)
    parts.collect("settings.yaml", parts.settings)
    parts.collect("versions.json", _versions)
    parts.collect("metrics.txt", parts.metrics)
    if "metrics.txt" in parts.files:
        parts.collect("lag.json", parts.lag)
    parts.collect("commits.json", parts.commits)
    parts.collect("store.json", parts.store)
    if log is not None:
        parts.collect("log.jsonl", lambda: _last_lines(log, lines))
    files = {**parts.files, "problems.json": _json(parts.problems)}
    _write_privately(out, write_archive(files, parts.secrets, parts.names))
    typer.echo(f"{out}: {', '.join(sorted(files))}", err=True)
    if parts.problems:
        why = ", ".join(f"{name} ({error})" for name, error in sorted(parts.problems.items()))
        typer.echo(f"could not be had: {why}", err=True)


class _Parts:
    """Each part by itself: one that fails leaves a problem behind instead."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self.files: dict[str, str] = {}
        self.problems: dict[str, str] = {}
        self.names: set[str] = set()
        self.secrets: frozenset[str] = frozenset()
        self._plant: LoadedPlant | None = None

    def collect(self, name: str, part: Callable[[], str]) -> None:
        try:
            self.files[name] = part()
        except Exception as error:  # noqa: BLE001  # a bundle of a broken agent is what this is for
            self.problems[name] = type(error).__name__  # its words may hold names or values

    def settings(self) -> str:
        import yaml

        from agent.health.support_bundle import harmless_settings, keys_with_scalars
        from agent.settings import settings_schema
        from agent.settings.document import read_document

        content = read_document(self._config).content
        self.names |= {asset for asset in _asset_ids(content) if not set(asset) & set("*?[")}
        known = keys_with_scalars(settings_schema())
        return yaml.safe_dump(harmless_settings(content, known), sort_keys=False, allow_unicode=True)

    def plant(self) -> "LoadedPlant":
        from agent.logs import secrets_in
        from agent.settings import load_plant

        if self._plant is None:
            self._plant = load_plant(self._config, os.environ)
            self.secrets = secrets_in(self._plant.settings)
        return self._plant

    def metrics(self) -> str:
        import httpx

        from agent.health.support_bundle import harmless_metrics

        http = self.plant().settings.http
        if http is None:
            return "# this plant has no http section\n"
        headers = {"Authorization": f"Bearer {http.token.get_secret_value()}"} if http.token else {}
        # The certificate is the agent's own, and the address one of this machine.
        answer = httpx.get(f"{http.url}/metrics", headers=headers, timeout=_TIMEOUT_S, trust_env=False, verify=False)  # noqa: S501
        answer.raise_for_status()
        return harmless_metrics(answer.text)

    def lag(self) -> str:
        from agent.health.support_bundle import lag_of

        return _json(lag_of(self.files["metrics.txt"]))

    def commits(self) -> str:
        """From Kafka, for a bundle of an agent that does not run."""
        from agent.settings import KafkaSourceSettings

        source, group = self.plant().settings.source, self.plant().settings.consumer_group
        if not isinstance(source, KafkaSourceSettings):
            return _json({"kind": source.kind})
        return _json(asyncio.run(_committed(source, group)))

    def store(self) -> str:
        from agent.cli.windows import read_stored
        from agent.health.support_bundle import store_figures
        from agent.settings import RedisStoreSettings

        if not isinstance(self.plant().settings.store, RedisStoreSettings):
            return _json({"kind": self.plant().settings.store.kind})
        assets, torn = asyncio.run(read_stored(self.plant(), self._config))
        self.names |= {asset.asset for asset in assets} | {name for one in torn for name in one.assets}
        return _json(
            store_figures(
                ((str(asset.partition), asset.group, asset.state) for asset in assets),
                ((str(one.partition), one.group) for one in torn),
            )
        )


async def _committed(source: "KafkaSourceSettings", group: str) -> dict[str, dict[str, int]]:
    """Raises ConnectorError when Kafka does not answer in time."""
    from agent.health.support_bundle import behind_commits
    from agent.settings.connections import cluster_of
    from connectors.errors import ConnectorError
    from connectors.kafka.group_offsets import GroupOffsets
    from connectors.kafka.inspection import ClusterFacts, inspect_cluster

    cluster = cluster_of(source.bootstrap, source.security)
    found: dict[str, dict[str, int]] = {}
    facts = await inspect_cluster(cluster, source.topics, timeout_s=_TIMEOUT_S)
    if not isinstance(facts, ClusterFacts):
        raise ConnectorError("Kafka does not answer")
    for topic, described in facts.topics.items():
        offsets = GroupOffsets(cluster, topic, group, partitions=described.partitions, retry_for_s=_TIMEOUT_S)
        try:
            found |= behind_commits(topic, await offsets.committed(), await offsets.ends())
        finally:
            await offsets.close()
    return found


def _asset_ids(content: Any) -> set[str]:
    """Ids and patterns of groups and of a simulated source."""
    if isinstance(content, dict):
        own = {str(content["id"])} if "id" in content else set()
        return own.union(*(_names(each) if key == "assets" else _asset_ids(each) for key, each in content.items()))
    if isinstance(content, list):
        return set().union(*map(_asset_ids, content))
    return set()


def _names(assets: Any) -> set[str]:
    listed = assets if isinstance(assets, list) else []
    return {each for each in listed if isinstance(each, str)} | _asset_ids([e for e in listed if isinstance(e, dict)])


def _versions() -> str:
    packages = {found.metadata["Name"]: found.version for found in distributions()}
    machine = {"system": platform.system(), "release": platform.release(), "machine": platform.machine()}
    return _json(
        {"python": sys.version, **machine, "cores": os.cpu_count(), "packages": dict(sorted(packages.items()))}
    )


def _last_lines(log: Path, count: int) -> str:
    from agent.health.support_bundle import harmless_log_lines

    with log.open(encoding="utf-8", errors="replace") as stream:
        return "\n".join(harmless_log_lines(deque(stream, maxlen=count))) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _write_privately(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(content)
