"""How the partitions of a topic are shared out between the members of a group."""

from typing import Any, Final, Literal

from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

Assignor = Literal["sticky", "roundrobin"]
DEFAULT: Final[Assignor] = "roundrobin"


def strategies(assignor: Assignor) -> tuple[Any, ...]:
    """What a member offers to its group, best first. The broker takes one that every member offers.

    A sticky member offers round robin as well, so that members of both kinds, and earlier versions, share a group
    while it is changed over.
    """
    if assignor == "roundrobin":
        return (RoundRobinPartitionAssignor,)
    # aiokafka keeps in the class what a member owned before: a class of its own for each, or two members in one
    # process would each claim what the other had.
    return (type("OwnStickyAssignor", (StickyPartitionAssignor,), {}), RoundRobinPartitionAssignor)
