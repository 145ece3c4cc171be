"""Who owns what after members of a group on a real broker came and went."""

import pytest

from tests.bench.rebalances import PARTITIONS, Group, least_moves, moved, shares
from tests.support.services.kafka import Broker


def test_an_even_load_is_worked_out_by_hand() -> None:
    assert (shares(5), shares(4)) == ([3, 3, 2, 2, 2], [3, 3, 3, 3])
    assert (least_moves(1, 2), least_moves(2, 3), least_moves(3, 4)) == (6, 4, 3)
    assert (least_moves(4, 3), least_moves(3, 2), least_moves(2, 1)) == (3, 4, 6)


@pytest.mark.slow
async def test_a_third_sticky_member_moves_a_third_of_the_partitions(kafka: Broker, topic_name: str) -> None:
    kafka.create_topic(topic_name, PARTITIONS)
    group = Group(kafka.bootstrap, topic_name, "sticky", static=False)
    try:
        await group.resize(2)
        await group.settle()
        before = group.owners()
        await group.resize(3)
        await group.settle()
        assert moved(before, group.owners()) == least_moves(2, 3)
    finally:
        await group.close()


@pytest.mark.slow
async def test_a_static_member_that_is_back_in_time_moves_nothing(kafka: Broker, topic_name: str) -> None:
    kafka.create_topic(topic_name, PARTITIONS)
    group = Group(kafka.bootstrap, topic_name, "sticky", static=True)
    try:
        await group.resize(3)
        await group.settle()
        before = group.owners()
        await group.remove("agent-1")
        await group.add("agent-1")
        await group.settle()
        assert moved(before, group.owners()) == 0
    finally:
        await group.close()


@pytest.mark.slow
async def test_members_of_both_kinds_share_a_group(kafka: Broker, topic_name: str) -> None:
    """As during an upgrade from a version that knew round robin only."""
    kafka.create_topic(topic_name, PARTITIONS)
    group = Group(kafka.bootstrap, topic_name, "roundrobin", static=False)
    try:
        await group.resize(1)
        group.assignor = "sticky"
        await group.add("agent-1")
        await group.settle()
        await group.remove("agent-0")
        await group.add("agent-2")
        await group.settle()
        assert {len(member.owned) for member in group.members.values()} == {PARTITIONS // 2}
    finally:
        await group.close()
