"""What a member of a group offers for the sharing out of partitions."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

from connectors.kafka.assignors import strategies

TOPIC = "sensors"


def cluster(partitions: int) -> Any:
    return SimpleNamespace(topics=lambda: {TOPIC}, partitions_for_topic=lambda _: set(range(partitions)))


class Member:
    """Offers and remembers as a consumer does."""

    def __init__(self) -> None:
        self.assignor = strategies("sticky")[0]

    @property
    def owned(self) -> set[int]:
        return {partition for _, partition in self.assignor.member_assignment or ()}

    def told(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        self.assignor.on_assignment(assignment)


def rebalance(members: dict[str, Member], partitions: int) -> None:
    offers = {name: member.assignor.metadata([TOPIC]) for name, member in members.items()}
    leader = next(iter(members.values()))
    for name, assignment in leader.assignor.assign(cluster(partitions), offers).items():
        members[name].told(assignment)


def test_a_sticky_member_can_share_a_group_with_earlier_versions() -> None:
    assert [each.name for each in strategies("sticky")] == ["sticky", "roundrobin"]
    assert [each.name for each in strategies("roundrobin")] == ["roundrobin"]


def test_members_in_one_process_do_not_share_what_they_owned() -> None:
    one, other = Member(), Member()
    one.told(ConsumerProtocolMemberAssignment(0, [(TOPIC, [0, 1])], b""))
    assert (one.owned, other.owned) == ({0, 1}, set())


def test_a_new_member_gets_its_share_and_no_other_partition_moves() -> None:
    """Six partitions: three each; then the third member gets one of each of the others, two in all."""
    members = {"a": Member(), "b": Member()}
    rebalance(members, 6)
    before = {name: member.owned for name, member in members.items()}
    assert sorted(len(owned) for owned in before.values()) == [3, 3]
    members["c"] = Member()
    rebalance(members, 6)
    assert [len(member.owned) for member in members.values()] == [2, 2, 2]
    assert members["a"].owned < before["a"]
    assert members["b"].owned < before["b"]


def test_what_a_member_had_that_is_gone_is_shared_out_and_the_rest_stays() -> None:
    members = {name: Member() for name in "abc"}
    rebalance(members, 6)
    before = {name: member.owned for name, member in members.items()}
    del members["b"]
    rebalance(members, 6)
    assert members["a"].owned > before["a"]
    assert members["c"].owned > before["c"]
    assert members["a"].owned | members["c"].owned == set(range(6))


@pytest.mark.parametrize("seed", range(100))
def test_whoever_comes_goes_or_returns_with_old_claims_every_partition_has_one_owner(seed: int) -> None:
    """Some members miss a generation, as one that is thrown out does; the load is even all the same."""
    chance, members, gone = random.Random(seed), {"m0": Member()}, [Member()]
    partitions = chance.choice([1, 2, 3, 4, 6, 12])
    for step in range(12):
        match chance.choice(["comes", "goes", "returns"]):
            case "comes":
                members[f"m{step}-{chance.random()}"] = Member()
            case "goes" if len(members) > 1:
                gone.append(members.pop(chance.choice(list(members))))
            case "returns" if gone:
                members[f"z{step}-{chance.random()}"] = gone.pop()
        offers = {name: member.assignor.metadata([TOPIC]) for name, member in members.items()}
        given = chance.choice(list(members.values())).assignor.assign(cluster(partitions), offers)
        shares = [[number for _, numbers in each.assignment for number in numbers] for each in given.values()]
        assert sorted(number for share in shares for number in share) == list(range(partitions))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        for name, each in given.items():
            if chance.random() < 0.9:
                members[name].told(each)
