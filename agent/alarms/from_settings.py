"""The catalogue of the state machine from the settings. Rules without a complete rationale are left out. Pure."""

from agent.alarms.core.catalogue import Catalogue, Limits, Rationale, Rule
from agent.settings import AlarmRule, Alarms, Plant


def catalogue_from_settings(plant: Plant, alarms: Alarms) -> Catalogue:
    groups = {group.name: group.assets for group in plant.groups}
    rules = [_rule(rule, groups.get(rule.group, ())) for rule in alarms.rules if not rule.missing]
    return Catalogue(
        rules={rule.name: rule for rule in rules},
        consoles=[(console.name, console.assets) for console in alarms.consoles],
        parents=[(child, parent.asset) for parent in alarms.parents for child in parent.children],
        limits=_limits(alarms),
        groups=groups,
    )


def _limits(alarms: Alarms) -> Limits:
    return Limits(
        flood_count=alarms.flood.count,
        flood_within_ns=int(alarms.flood.within),
        flood_over_below=alarms.flood.over_below,
        max_shelving_ns=int(alarms.max_shelving),
        max_event_age_ns=int(alarms.max_event_age),
    )


def _rule(rule: AlarmRule, assets: tuple[str, ...]) -> Rule:
    return Rule(
        name=rule.name,
        group=rule.group,
        assets=assets,
        rationale=Rationale(
            rule.priority or "low",
            rule.cause or "",
            rule.consequence or "",
            rule.action or "",
            int(rule.respond_within or 0),
        ),
        states=frozenset(rule.states),
        technical=rule.technical,
        on_delay_ns=int(rule.on_delay or 0),
        off_delay_ns=int(rule.off_delay or 0),
        raise_at=rule.raise_at,
        clear_below=rule.clear_below,
        min_evidence_share=rule.min_evidence_share,
        limit_ns=None if rule.limit is None else int(rule.limit),
        latched=rule.latched,
        suppressed_by=frozenset(rule.suppressed_by),
        hides_children=rule.hides_children,
        shelve_chatter_ns=None if rule.shelve_chatter is None else int(rule.shelve_chatter),
        remind_every_ns=None if rule.remind_every is None else int(rule.remind_every),
    )
