"""What to do about a state, as the plant's settings say it: alarm rules first, then the page's own advice. Pure."""

from agent.page.api import Advice
from agent.settings import Plant


def advice_for(group: str, settings: Plant) -> tuple[Advice, ...]:
    rules = settings.alarms.rules if settings.alarms is not None else ()
    from_rules = (
        Advice(
            states=list(rule.states),
            action=rule.action,
            cause=rule.cause or "",
            consequence=rule.consequence or "",
            rule=rule.name,
        )
        for rule in rules
        if rule.group == group and rule.states and rule.action is not None
    )
    own = (
        Advice(states=list(one.states), action=one.action, cause=one.cause or "", consequence="", rule="")
        for one in settings.page.advice
        if one.group == group
    )
    return (*from_rules, *own)
