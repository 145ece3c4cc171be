"""Rules between the sections of a plant. No legal configuration may silently turn the product off. Pure.

A rule names the sections it needs as its parameters, and runs when these are sound, whatever is wrong elsewhere.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agent.settings.alarm_rules import ALARM_RULES
from agent.settings.groups import Group, overlap
from agent.settings.models import Models
from agent.settings.network import KAFKA_ADDRESS_VARIABLE, KafkaSecurity
from agent.settings.plant import Checkpointing, Inference, Limits
from agent.settings.problems import Problem, warning
from agent.settings.records import Records
from agent.settings.resolve import ResolvedGroup
from agent.settings.sinks import (
    ConsoleSinkSettings,
    Emission,
    JsonlSinkSettings,
    KafkaSinkSettings,
    Sink,
    WebhookSinkSettings,
)
from agent.settings.sources import (
    FileSourceSettings,
    KafkaSourceSettings,
    MemorySourceSettings,
    SimulatorSourceSettings,
    Source,
    repeated,
)
from agent.settings.stores import MemoryStoreSettings, RedisStoreSettings, Store
from agent.settings.units import Duration, Size

Found = Iterator[Problem]


def groups_are_apart(groups: Sequence[Group]) -> Found:
    for at, name in repeated([group.name for group in groups]):
        yield Problem(("groups", at, "name"), f"{name} is there twice", "give every group its own name")
    patterns = [(at, place, text) for at, group in enumerate(groups) for place, text in enumerate(group.assets)]
    for at, place, text in patterns:
        rival = next((other for before, _, other in patterns if before < at and overlap(other, text)), None)
        if rival is not None:
            wrong = f"{text} and {rival} of an earlier group can mean the same asset"
            yield Problem(("groups", at, "assets", place), wrong, "an asset belongs to one group")


def simulated_assets_are_watched(source: Source, groups: Sequence[Group]) -> Found:
    if not isinstance(source, SimulatorSourceSettings):
        return
    patterns = [pattern for group in groups for pattern in group.assets]
    for at, asset in enumerate(source.assets):
        if not any(overlap(pattern, asset.id) for pattern in patterns):
            yield Problem(("source", "assets", at, "id"), f"{asset.id} is in no group", "add it to a group's assets")


def a_group_has_simulated_assets(source: Source, groups: Sequence[Group]) -> Found:
    ids = [asset.id for asset in source.assets] if isinstance(source, SimulatorSourceSettings) else []
    for at, group in enumerate(groups):
        if ids and not any(overlap(pattern, asset) for pattern in group.assets for asset in ids):
            yield warning(("groups", at, "assets"), "no simulated asset is meant", "simulate one, or remove the group")


def sinks_are_apart(sinks: Sequence[Sink]) -> Found:
    consoles = [at for at, sink in enumerate(sinks) if isinstance(sink, ConsoleSinkSettings)]
    for at in consoles[1:]:
        yield Problem(("sinks", at), "a second console", "keep one")
    directories = [
        str(sink.directory) if isinstance(sink, JsonlSinkSettings) else f" {at}" for at, sink in enumerate(sinks)
    ]
    for at, directory in repeated(directories):
        yield Problem(("sinks", at, "directory"), f"{directory} is written by another sink", "choose another one")


def webhooks_have_a_keeper(sinks: Sequence[Sink]) -> Found:
    """What a receiver refuses is a dead letter, and a dead letter needs a place."""
    if any(isinstance(sink, KafkaSinkSettings | JsonlSinkSettings) for sink in sinks):
        return
    for at, sink in enumerate(sinks):
        if isinstance(sink, WebhookSinkSettings):
            wrong = "a webhook alone has no place for the events that its receiver refuses"
            yield Problem(("sinks", at, "kind"), wrong, "add a kafka or jsonl sink beside it")


def kafka_sinks_have_an_address(source: Source, sinks: Sequence[Sink]) -> Found:
    for at, sink in enumerate(sinks):
        if (
            isinstance(sink, KafkaSinkSettings)
            and sink.bootstrap is None
            and not isinstance(source, KafkaSourceSettings)
        ):
            right = f"write host:port here or set {KAFKA_ADDRESS_VARIABLE}"
            yield Problem(("sinks", at, "bootstrap"), "no address, and the source is not Kafka", right)


def outputs_are_not_inputs(source: Source, sinks: Sequence[Sink]) -> Found:
    read = source.topics if isinstance(source, KafkaSourceSettings) else ()
    for at, sink in enumerate(sinks):
        for name, topic in sink.topics if isinstance(sink, KafkaSinkSettings) else ():
            if topic in read:
                wrong = f"{topic} is a topic of the source, which would feed itself"
                yield Problem(("sinks", at, "topics", name), wrong, "choose another topic")


def activations_have_one_home(models: Models | None, sinks: Sequence[Sink]) -> Found:
    if (
        models is not None
        and models.activations is not None
        and any(isinstance(sink, KafkaSinkSettings) for sink in sinks)
    ):
        wrong = "without effect: with a Kafka sink, activations are kept in a topic"
        yield Problem(("models", "activations"), wrong, "remove it; sinks.topics.activations names the topic")


def retries_end_before_the_next_poll(source: Source, sinks: Sequence[Sink], store: Store) -> Found:
    """One batch may have to wait for every sink and for the store, one after the other."""
    if not isinstance(source, KafkaSourceSettings):
        return
    waits = [sink.retries.worst_case_ns(sink.timeout) for sink in sinks if isinstance(sink, WebhookSinkSettings)]
    waits += [sink.timeout for sink in sinks if isinstance(sink, KafkaSinkSettings)]
    if isinstance(store, RedisStoreSettings):
        waits.append(store.retries.worst_case_ns(store.timeout))
    longest = source.timeouts.max_poll_interval
    if sum(waits) >= longest:
        wrong = f"{longest}, but the retries of sinks and store can take {_readable(sum(waits))}"
        yield Problem(("source", "timeouts", "max_poll_interval"), wrong, "make it longer, or retry less")


def a_revoke_ends_before_the_rebalance(source: Source, checkpoint: Checkpointing) -> Found:
    if isinstance(source, KafkaSourceSettings) and checkpoint.revoke_deadline >= source.timeouts.rebalance:
        right = f"below source.timeouts.rebalance, {source.timeouts.rebalance}"
        yield Problem(("checkpoint", "revoke_deadline"), f"{checkpoint.revoke_deadline} is too long", right)


def checkpoints_come_before_the_next_poll(source: Source, checkpoint: Checkpointing) -> Found:
    if isinstance(source, KafkaSourceSettings) and checkpoint.every >= source.timeouts.max_poll_interval:
        right = f"below source.timeouts.max_poll_interval, {source.timeouts.max_poll_interval}"
        yield Problem(("checkpoint", "every"), f"{checkpoint.every} is too long", right)


def a_batch_fits_the_queue(inference: Inference, limits: Limits) -> Found:
    if inference.batch > limits.queue_windows:
        wrong = f"{limits.queue_windows} windows never fill a batch of {inference.batch}"
        yield Problem(("limits", "queue_windows"), wrong, f"at least inference.batch, {inference.batch}")


def windows_fit_into_memory(resolved: Sequence[ResolvedGroup], limits: Limits) -> Found:
    needed = sum(group.ring_bytes for group in resolved)
    if needed > limits.memory:
        sizes = ", ".join(f"{group.name} {_mebibytes(group.ring_bytes)}" for group in resolved)
        wrong = f"{limits.memory}, but the windows can need {_mebibytes(needed)} ({sizes})"
        yield Problem(("limits", "memory"), wrong, "raise it, or lower the groups' max_assets")


def heartbeats_fall_on_windows(resolved: Sequence[ResolvedGroup], emission: Emission) -> Found:
    beat = emission.heartbeat if emission.policy == "changes+heartbeat" else None
    for group in resolved:
        if beat is not None and beat % group.hop_ns:
            wrong = f"{beat} is no multiple of the hop of group {group.name}, {Duration(group.hop_ns)}"
            all_hops = math.lcm(*(other.hop_ns for other in resolved))
            nearest = Duration(max(1, round(beat / all_hops)) * all_hops)
            yield Problem(("emission", "heartbeat"), wrong, f"for example {nearest}")


def stored_windows_outlive_a_window(resolved: Sequence[ResolvedGroup], store: Store) -> Found:
    for group in resolved:
        needed = 2 * (group.shape.length + group.shape.hop + group.shape.lateness) * group.grid.period_ns
        if isinstance(store, RedisStoreSettings) and store.ttl < needed:
            wrong = f"{store.ttl} is shorter than two windows of group {group.name}"
            yield Problem(("store", "ttl"), wrong, f"at least {_readable(needed)}")


def one_clock_forgets_nobody(records: Records, groups: Sequence[Group]) -> Found:
    """A clock that is ahead by what is allowed moves the group's clock by as much."""
    for at, group in enumerate(groups):
        if records.max_clock_skew is not None and group.window.forget_after <= records.max_clock_skew:
            wrong = f"{group.window.forget_after}: one asset whose clock is ahead would make the others look silent"
            path = ("groups", at, "window", "forget_after")
            yield Problem(path, wrong, f"longer than records.max_clock_skew, {records.max_clock_skew}")


def perfection_is_rare(groups: Sequence[Group]) -> Found:
    for at, group in enumerate(groups):
        if group.window.min_coverage == 1:
            late = " and a late sample is lost at once" if group.window.lateness == 0 else ""
            wrong = f"1.0: one missing value makes the state unknown{late}"
            yield warning(("groups", at, "window", "min_coverage"), wrong, "try 0.9")


def narrow_records_come_late(records: Records, groups: Sequence[Group]) -> Found:
    for at, group in enumerate(groups):
        if records.format == "narrow" and group.window.lateness == 0:
            wrong = "0: a channel that comes after a newer sample of another channel is lost"
            yield warning(("groups", at, "window", "lateness"), wrong, "allow a few steps")


def a_heartbeat_needs_its_policy(emission: Emission) -> Found:
    if emission.heartbeat is not None and emission.policy != "changes+heartbeat":
        wrong = f"without effect: policy is {emission.policy}"
        yield warning(("emission", "heartbeat"), wrong, "use policy: changes+heartbeat, or remove it")


def logins_are_encrypted(source: Source, sinks: Sequence[Sink]) -> Found:
    secured: list[tuple[tuple[str | int, ...], KafkaSecurity | None]] = [
        (("sinks", at), sink.security) for at, sink in enumerate(sinks) if isinstance(sink, KafkaSinkSettings)
    ]
    if isinstance(source, KafkaSourceSettings):
        secured.append((("source",), source.security))
    for path, security in secured:
        if security is not None and security.logs_in and not security.encrypted:
            yield warning((*path, "security", "protocol"), "the login is not encrypted", "use SASL_SSL")


def a_memory_source_needs_a_host(source: Source) -> Found:
    if isinstance(source, MemorySourceSettings):
        wrong = "memory: nothing comes in unless the program around the agent puts it in"
        yield warning(("source", "kind"), wrong, "use kafka, file or simulator with `anchormoe-agent run`")


def an_asset_is_named_once(source: Source, records: Records) -> Found:
    if isinstance(source, FileSourceSettings) and source.asset is not None and records.asset_field is not None:
        wrong = f"without effect: records.asset_field names the assets, {records.asset_field}"
        yield Problem(("source", "asset"), wrong, "remove one of them")


def memory_forgets(source: Source, store: Store) -> Found:
    if isinstance(source, KafkaSourceSettings) and isinstance(store, MemoryStoreSettings):
        wrong = "memory: after a restart or a rebalance, windows are rebuilt from Kafka each time"
        yield warning(("store", "kind"), wrong, "use kind: redis in production")


RULES: tuple[Callable[..., Found], ...] = (
    groups_are_apart,
    simulated_assets_are_watched,
    a_group_has_simulated_assets,
    sinks_are_apart,
    webhooks_have_a_keeper,
    kafka_sinks_have_an_address,
    outputs_are_not_inputs,
    activations_have_one_home,
    retries_end_before_the_next_poll,
    a_revoke_ends_before_the_rebalance,
    checkpoints_come_before_the_next_poll,
    a_batch_fits_the_queue,
    windows_fit_into_memory,
    heartbeats_fall_on_windows,
    stored_windows_outlive_a_window,
    one_clock_forgets_nobody,
    perfection_is_rare,
    narrow_records_come_late,
    a_heartbeat_needs_its_policy,
    logins_are_encrypted,
    a_memory_source_needs_a_host,
    an_asset_is_named_once,
    memory_forgets,
    *ALARM_RULES,
)


def broken_rules(sections: Mapping[str, Any]) -> Found:
    """All rules whose sections are there."""
    for rule in RULES:
        needed = inspect.signature(rule).parameters
        if all(name in sections for name in needed):
            yield from rule(**{name: sections[name] for name in needed})


def _readable(nanoseconds: int) -> str:
    """Exact where a short unit does it, otherwise whole seconds."""
    exact = str(Duration(nanoseconds))
    return exact if len(exact) <= 8 else f"{-(-nanoseconds // Duration.UNITS['s'])}s"


def _mebibytes(size: int) -> str:
    return f"{-(-size // Size.UNITS['MiB'])}MiB"
