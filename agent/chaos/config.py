"""The plant.yaml of an experiment: the user's models, record format and services, under names of its own. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.errors import SettingsError
from agent.settings import KafkaSourceSettings, Plant, RedisStoreSettings

_COPIED_SECTIONS = ("records", "groups", "emission", "inference", "limits")
_MS_PER_S = 1000


@dataclass(frozen=True, slots=True)
class ExperimentNames:
    """Topics, keys and consumer group follow from `namespace`, which is random, so the plant's own are not touched."""

    namespace: str

    @property
    def input(self) -> str:
        return f"{self.namespace}-readings"

    @property
    def outputs(self) -> dict[str, str]:
        return {name: f"{self.namespace}-{name.replace('_', '-')}" for name in ("events", "states", "dead_letters")}

    @property
    def topics(self) -> list[str]:
        return [self.input, *self.outputs.values()]


@dataclass(frozen=True, slots=True)
class ExperimentPace:
    """Shorter times than a plant needs, so that much happens in little time."""

    member_timeout_s: float = 6.0
    checkpoint_every_s: float = 0.5
    store_timeout_s: float = 1.0


def require_services(plant: Plant) -> None:
    """Raises SettingsError: an experiment needs Kafka and Redis."""
    if not isinstance(plant.source, KafkaSourceSettings):
        raise SettingsError(f"source.kind: a chaos experiment needs kafka, not {plant.source.kind}")
    if not isinstance(plant.store, RedisStoreSettings):
        raise SettingsError(f"store.kind: a chaos experiment needs redis, not {plant.store.kind}")


def experiment_document(
    content: Mapping[str, Any],
    plant: Plant,
    base: Path,
    names: ExperimentNames,
    pace: ExperimentPace,
    *,
    sinks: Sequence[Mapping[str, Any]] = (),
    models: Path | None = None,
    holds_states: bool = True,
) -> dict[str, Any]:
    """What the agents of the experiment get as plant.yaml. `content` is the user's file, which is in `base`.

    `sinks` are further ones, of the experiment's own; `models` is the directory of bundles that may be activated in it.
    Without `holds_states` every window is an event and hysteresis is off: after a break of the log, what is a change
    depends on windows of the log before it, which the replay of the new log cannot know.
    """
    resolved = _absolute(dict(content), plant.model_dump(), base)
    copied = {name: resolved[name] for name in _COPIED_SECTIONS if name in resolved}
    activated = {} if models is None else {"models": {"directory": str(models)}}
    if not holds_states:
        copied["groups"] = [group | {"hysteresis": {"enabled": False}} for group in copied["groups"]]
        copied["emission"] = copied.get("emission", {}) | {"policy": "all"}
    return (
        copied
        | activated
        | {
            "namespace": names.namespace,
            "source": _source(resolved["source"], names, pace),
            "store": resolved["store"] | {"timeout": _duration(pace.store_timeout_s)},
            "sinks": [_sink(resolved["sinks"], names), *map(dict, sinks)],
            "checkpoint": {"every": _duration(pace.checkpoint_every_s), "revoke_deadline": "8s"},
            "http": None,
            "logging": {"format": "json"},
        }
    )


def _source(given: Mapping[str, Any], names: ExperimentNames, pace: ExperimentPace) -> dict[str, Any]:
    session = pace.member_timeout_s
    timeouts = {"session": session, "heartbeat": session / 6, "rebalance": max(10.0, 2 * session)}
    copied = {name: given[name] for name in ("bootstrap", "security") if name in given}
    return copied | {
        "kind": "kafka",
        "topics": [names.input],
        "timeouts": {name: _duration(seconds) for name, seconds in timeouts.items()},
    }


def _sink(given: list[Mapping[str, Any]], names: ExperimentNames) -> dict[str, Any]:
    """Only Kafka: simulated events must not reach the plant's webhooks or files."""
    own: Mapping[str, Any] = next((sink for sink in given if sink.get("kind") == "kafka"), {})
    copied = {name: own[name] for name in ("bootstrap", "security", "timeout") if name in own}
    return copied | {"kind": "kafka", "topics": names.outputs}


def _duration(seconds: float) -> str:
    return f"{round(seconds * _MS_PER_S)}ms"


def _absolute(content: Any, read: Any, base: Path) -> Any:
    """The file's own values with absolute paths, because the copy is in another directory."""
    if isinstance(content, dict):
        if set(content) == {"file"} and isinstance(content["file"], str):
            return {"file": str((base / content["file"]).absolute())}
        return {name: _absolute(value, _item(read, name), base) for name, value in content.items()}
    if isinstance(content, list):
        return [_absolute(value, _item(read, at), base) for at, value in enumerate(content)]
    return str(read.absolute()) if isinstance(read, Path) else content


def _item(read: Any, at: Any) -> Any:
    if isinstance(read, dict):
        return read.get(at)
    return read[at] if isinstance(read, list | tuple) and at < len(read) else None
