"""Rules between the sections of a plant, so that no valid configuration silently does nothing. Pure.

The parameters of a rule are the sections that it needs; it is checked when these are valid, even if others are not.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agent.settings.alarm_rules import ALARM_RULES
from agent.settings.groups import Group, overlap
from agent.settings.network import KAFKA_ADDRESS_VARIABLE, KafkaSecurity
from agent.settings.page import Page
from agent.settings.plant import Checkpointing, Inference, Limits, Models
from agent.settings.problems import Problem, warning
from agent.settings.records import Records
from agent.settings.resolve import ResolvedGroup
from agent.settings.section import find_duplicates
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
)
from agent.settings.stores import MemoryStoreSettings, RedisStoreSettings, Store
from agent.settings.units import Duration, Size

Problems = Iterator[Problem]


def groups_do_not_overlap(groups: Sequence[Group]) -> Problems:
    for at, name in find_duplicates([group.name for group in groups]):
        yield Problem(("groups", at, "name"), f"duplicate name {name}", "give every group its own name")
    patterns = [(at, place, text) for at, group in enumerate(groups) for place, text in enumerate(group.assets)]
    for at, place, text in patterns:
        earlier = next((other for before, _, other in patterns if before < at and overlap(other, text)), None)
        if earlier is not None:
            wrong = f"{text} and {earlier} of an earlier group can match the same asset"
            yield Problem(("groups", at, "assets", place), wrong, "put every asset into one group")


def simulated_assets_are_in_a_group(source: Source, groups: Sequence[Group]) -> Problems:
    if not isinstance(source, SimulatorSourceSettings):
        return
    patterns = [pattern for group in groups for pattern in group.assets]
    for at, asset in enumerate(source.assets):
        if not any(overlap(pattern, asset.id) for pattern in patterns):
            yield Problem(("source", "assets", at, "id"), f"{asset.id} is in no group", "add it to a group's assets")


def groups_have_simulated_assets(source: Source, groups: Sequence[Group]) -> Problems:
    ids = [asset.id for asset in source.assets] if isinstance(source, SimulatorSourceSettings) else []
    for at, group in enumerate(groups):
        if ids and not any(overlap(pattern, asset) for pattern in group.assets for asset in ids):
            yield warning(("groups", at, "assets"), "match no simulated asset", "simulate one, or remove the group")


def sinks_do_not_collide(sinks: Sequence[Sink]) -> Problems:
    consoles = [at for at, sink in enumerate(sinks) if isinstance(sink, ConsoleSinkSettings)]
    for at in consoles[1:]:
        yield Problem(("sinks", at), "second console", "keep one")
    directories = [
        str(sink.directory) if isinstance(sink, JsonlSinkSettings) else f" {at}" for at, sink in enumerate(sinks)
    ]
    for at, directory in find_duplicates(directories):
        yield Problem(("sinks", at, "directory"), f"{directory} is the directory of another sink", "use another one")


def webhooks_have_a_sink_for_dead_letters(sinks: Sequence[Sink]) -> Problems:
    """An event that a receiver refuses becomes a dead letter, which must be stored."""
    if any(isinstance(sink, KafkaSinkSettings | JsonlSinkSettings) for sink in sinks):
        return
    for at, sink in enumerate(sinks):
        if isinstance(sink, WebhookSinkSettings):
            wrong = "webhook: there is no sink for the events that the receiver refuses"
            yield Problem(("sinks", at, "kind"), wrong, "add a kafka or jsonl sink")


def kafka_sinks_have_an_address(source: Source, sinks: Sequence[Sink]) -> Problems:
    for at, sink in enumerate(sinks):
        if (
            isinstance(sink, KafkaSinkSettings)
            and sink.bootstrap is None
            and not isinstance(source, KafkaSourceSettings)
        ):
            right = f"write host:port here or set {KAFKA_ADDRESS_VARIABLE}"
            yield Problem(("sinks", at, "bootstrap"), "missing, and the source is not Kafka", right)


def outputs_are_not_inputs(source: Source, sinks: Sequence[Sink]) -> Problems:
    read = source.topics if isinstance(source, KafkaSourceSettings) else ()
    for at, sink in enumerate(sinks):
        for name, topic in sink.topics if isinstance(sink, KafkaSinkSettings) else ():
            if topic in read:
                wrong = f"{topic} is a topic of the source, so the agent would read its own output"
                yield Problem(("sinks", at, "topics", name), wrong, "use another topic")


def activations_are_stored_once(models: Models | None, sinks: Sequence[Sink]) -> Problems:
    if (
        models is not None
        and models.activations is not None
        and any(isinstance(sink, KafkaSinkSettings) for sink in sinks)
    ):
        wrong = "has no effect: with a Kafka sink, activations are stored in a topic"
        yield Problem(("models", "activations"), wrong, "remove it; sinks.topics.activations names the topic")


def retries_end_before_the_next_poll(source: Source, sinks: Sequence[Sink], store: Store) -> Problems:
    """One batch may wait for every sink and for the store, one after the other."""
    if not isinstance(source, KafkaSourceSettings):
        return
    waits = [sink.retries.worst_case_ns(sink.timeout) for sink in sinks if isinstance(sink, WebhookSinkSettings)]
    waits += [sink.timeout for sink in sinks if isinstance(sink, KafkaSinkSettings)]
    if isinstance(store, RedisStoreSettings):
        waits.append(store.retries.worst_case_ns(store.timeout))
    longest = source.timeouts.max_poll_interval
    if sum(waits) >= longest:
        wrong = f"{longest}, but the retries of sinks and store can take {_readable(sum(waits))}"
        yield Problem(("source", "timeouts", "max_poll_interval"), wrong, "increase it, or reduce the retries")


def a_revoke_ends_before_the_rebalance(source: Source, checkpoint: Checkpointing) -> Problems:
    if isinstance(source, KafkaSourceSettings) and checkpoint.revoke_deadline >= source.timeouts.rebalance:
        right = f"use less than source.timeouts.rebalance, {source.timeouts.rebalance}"
        yield Problem(("checkpoint", "revoke_deadline"), f"{checkpoint.revoke_deadline} is too long", right)


def a_takeover_ends_before_the_next_poll(source: Source, checkpoint: Checkpointing) -> Problems:
    """Meanwhile nothing is polled."""
    if isinstance(source, KafkaSourceSettings) and checkpoint.takeover_deadline >= source.timeouts.max_poll_interval:
        right = f"use less than source.timeouts.max_poll_interval, {source.timeouts.max_poll_interval}"
        yield Problem(("checkpoint", "takeover_deadline"), f"{checkpoint.takeover_deadline} is too long", right)


def checkpoints_come_before_the_next_poll(source: Source, checkpoint: Checkpointing) -> Problems:
    if isinstance(source, KafkaSourceSettings) and checkpoint.every >= source.timeouts.max_poll_interval:
        right = f"use less than source.timeouts.max_poll_interval, {source.timeouts.max_poll_interval}"
        yield Problem(("checkpoint", "every"), f"{checkpoint.every} is too long", right)


def a_batch_fits_the_queue(inference: Inference, limits: Limits) -> Problems:
    if inference.batch > limits.queue_windows:
        wrong = f"{limits.queue_windows} windows never fill a batch of {inference.batch}"
        yield Problem(("limits", "queue_windows"), wrong, f"use at least inference.batch, {inference.batch}")


def windows_fit_into_memory(resolved: Sequence[ResolvedGroup], limits: Limits) -> Problems:
    needed = sum(group.ring_bytes for group in resolved)
    if needed > limits.memory:
        sizes = ", ".join(f"{group.name} {_mebibytes(group.ring_bytes)}" for group in resolved)
        wrong = f"{limits.memory}, but the windows can need {_mebibytes(needed)} ({sizes})"
        yield Problem(("limits", "memory"), wrong, "increase it, or reduce max_assets of the groups")


def heartbeats_fall_on_windows(resolved: Sequence[ResolvedGroup], emission: Emission) -> Problems:
    heartbeat = emission.heartbeat if emission.policy == "changes+heartbeat" else None
    for group in resolved:
        if heartbeat is not None and heartbeat % group.hop_ns:
            wrong = f"{heartbeat} is not a multiple of the hop of group {group.name}, {Duration(group.hop_ns)}"
            all_hops = math.lcm(*(other.hop_ns for other in resolved))
            nearest = Duration(max(1, round(heartbeat / all_hops)) * all_hops)
            yield Problem(("emission", "heartbeat"), wrong, f"use for example {nearest}")


def stored_windows_outlive_a_window(resolved: Sequence[ResolvedGroup], store: Store) -> Problems:
    for group in resolved:
        needed = 2 * (group.shape.length + group.shape.hop + group.shape.lateness) * group.grid.period_ns
        if isinstance(store, RedisStoreSettings) and store.ttl < needed:
            wrong = f"{store.ttl} is shorter than two windows of group {group.name}"
            yield Problem(("store", "ttl"), wrong, f"use at least {_readable(needed)}")


def a_wrong_clock_expires_no_asset(records: Records, groups: Sequence[Group]) -> Problems:
    """An asset whose clock is ahead, within the allowed skew, moves the time of its group by as much."""
    for at, group in enumerate(groups):
        if records.max_clock_skew is not None and group.window.forget_after <= records.max_clock_skew:
            wrong = f"{group.window.forget_after}: one asset whose clock is ahead would make the others expire"
            path = ("groups", at, "window", "forget_after")
            yield Problem(path, wrong, f"use more than records.max_clock_skew, {records.max_clock_skew}")


def full_coverage_is_rare(groups: Sequence[Group]) -> Problems:
    for at, group in enumerate(groups):
        if group.window.min_coverage == 1:
            late = " and late samples are dropped at once" if group.window.lateness == 0 else ""
            wrong = f"1.0: one missing value makes the state unknown{late}"
            yield warning(("groups", at, "window", "min_coverage"), wrong, "try 0.9")


def narrow_records_need_lateness(records: Records, groups: Sequence[Group]) -> Problems:
    for at, group in enumerate(groups):
        if records.format == "narrow" and group.window.lateness == 0:
            wrong = "0: a channel that arrives after a newer sample of another channel is dropped"
            yield warning(("groups", at, "window", "lateness"), wrong, "use a few steps")


def a_heartbeat_needs_its_policy(emission: Emission) -> Problems:
    if emission.heartbeat is not None and emission.policy != "changes+heartbeat":
        wrong = f"has no effect: policy is {emission.policy}"
        yield warning(("emission", "heartbeat"), wrong, "use policy: changes+heartbeat, or remove it")


def evidence_is_by_span_and_channel(emission: Emission) -> Problems:
    """Keys of version 1 of the event contract are read and told, so that a plant's file still starts its agent."""
    stated = emission.model_fields_set
    if "channels" in stated:
        wrong = "has no effect: the evidence itself is by channel, and adds up"
        yield warning(("emission", "channels"), wrong, "remove it")
    if "max_patches" in stated:
        wrong = "is now called max_spans" + (", and counts instead of it" if "max_spans" in stated else "")
        yield warning(("emission", "max_patches"), wrong, "rename it")


def logins_are_encrypted(source: Source, sinks: Sequence[Sink]) -> Problems:
    secured: list[tuple[tuple[str | int, ...], KafkaSecurity | None]] = [
        (("sinks", at), sink.security) for at, sink in enumerate(sinks) if isinstance(sink, KafkaSinkSettings)
    ]
    if isinstance(source, KafkaSourceSettings):
        secured.append((("source",), source.security))
    for path, security in secured:
        if security is not None and security.logs_in and not security.encrypted:
            yield warning((*path, "security", "protocol"), "the login is not encrypted", "use SASL_SSL")


def a_memory_source_needs_a_program(source: Source) -> Problems:
    if isinstance(source, MemorySourceSettings):
        wrong = "memory: there are no records unless the program that embeds the agent adds them"
        yield warning(("source", "kind"), wrong, "use kafka, file or simulator with `anchormoe-agent run`")


def an_asset_is_named_once(source: Source, records: Records) -> Problems:
    if isinstance(source, FileSourceSettings) and source.asset is not None and records.asset_field is not None:
        wrong = f"has no effect: records.asset_field, {records.asset_field}, names the assets"
        yield Problem(("source", "asset"), wrong, "remove one of them")


def a_memory_store_is_lost_on_restart(source: Source, store: Store) -> Problems:
    if isinstance(source, KafkaSourceSettings) and isinstance(store, MemoryStoreSettings):
        wrong = "memory: after every restart or rebalance, windows are rebuilt from Kafka"
        yield warning(("store", "kind"), wrong, "use kind: redis in production")


def advice_is_for_known_groups(page: Page, groups: Sequence[Group]) -> Problems:
    known = {group.name for group in groups}
    for at, advice in enumerate(page.advice):
        if advice.group not in known:
            right = f"name one of {', '.join(sorted(known))}"
            yield Problem(("page", "advice", at, "group"), f"there is no group {advice.group}", right)


RULES: tuple[Callable[..., Problems], ...] = (
    advice_is_for_known_groups,
    groups_do_not_overlap,
    simulated_assets_are_in_a_group,
    groups_have_simulated_assets,
    sinks_do_not_collide,
    webhooks_have_a_sink_for_dead_letters,
    kafka_sinks_have_an_address,
    outputs_are_not_inputs,
    activations_are_stored_once,
    retries_end_before_the_next_poll,
    a_revoke_ends_before_the_rebalance,
    a_takeover_ends_before_the_next_poll,
    checkpoints_come_before_the_next_poll,
    a_batch_fits_the_queue,
    windows_fit_into_memory,
    heartbeats_fall_on_windows,
    stored_windows_outlive_a_window,
    a_wrong_clock_expires_no_asset,
    evidence_is_by_span_and_channel,
    full_coverage_is_rare,
    narrow_records_need_lateness,
    a_heartbeat_needs_its_policy,
    logins_are_encrypted,
    a_memory_source_needs_a_program,
    an_asset_is_named_once,
    a_memory_store_is_lost_on_restart,
    *ALARM_RULES,
)


def broken_rules(sections: Mapping[str, Any]) -> Problems:
    """Of all rules whose sections are there."""
    for rule in RULES:
        needed = inspect.signature(rule).parameters
        if all(name in sections for name in needed):
            yield from rule(**{name: sections[name] for name in needed})


def _readable(nanoseconds: int) -> str:
    """Exact where that is short, otherwise in whole seconds."""
    exact = str(Duration(nanoseconds))
    return exact if len(exact) <= 8 else f"{-(-nanoseconds // Duration.UNITS['s'])}s"


def _mebibytes(size: int) -> str:
    return f"{-(-size // Size.UNITS['MiB'])}MiB"
