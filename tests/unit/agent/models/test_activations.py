"""Which model classifies a window depends on the window's end alone."""

from dataclasses import replace

import numpy as np
import orjson
import pytest

from agent.models.activations import (
    AHEAD_NS,
    CONFIGURED,
    Activation,
    activation_problems,
    decode_activation,
    encode_activation,
    position_in_force,
    positions_in_force,
    predecessor,
    rollback_end,
    timeline,
)
from connectors.errors import RecordError

NOW = 1_700_000_000_000_000_000
OLD, NEW = "a" * 64, "b" * 64


def activation(effective_ns: int = NOW + AHEAD_NS, *, group: str = "pumps", digest: str = NEW) -> Activation:
    return Activation(group, effective_ns, digest, "pump-2", "ada", NOW, "new bearings")


def test_an_activation_is_read_as_it_was_written() -> None:
    assert decode_activation(encode_activation(activation())) == activation()
    configured = replace(activation(), bundle=None)
    assert decode_activation(encode_activation(configured)) == configured


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (b"{", None),
        (b"[]", None),
        (None, None),
        (orjson.dumps({}), "group"),
        (orjson.dumps(orjson.loads(encode_activation(activation())) | {"effective_ns": "soon"}), "effective_ns"),
        (orjson.dumps(orjson.loads(encode_activation(activation())) | {"effective_ns": True}), "effective_ns"),
        (orjson.dumps(orjson.loads(encode_activation(activation())) | {"digest": None}), "digest"),
        (orjson.dumps(orjson.loads(encode_activation(activation())) | {"bundle": 7}), "bundle"),
        (orjson.dumps(orjson.loads(encode_activation(activation())) | {"reason": "x" * 1001}), "reason"),
    ],
)
def test_what_is_not_an_activation_is_rejected_by_field(value: bytes | None, field: str | None) -> None:
    with pytest.raises(RecordError) as refused:
        decode_activation(value)
    assert refused.value.field == field


def test_every_effective_end_has_its_own_key_so_that_compaction_keeps_the_history() -> None:
    assert activation(5).key == b"pumps/5"
    assert len({activation(5).key, activation(6).key, activation(5, group="fans").key}) == 3


def test_a_window_that_ends_at_the_effective_end_is_the_first_of_the_new_model() -> None:
    ends = np.array([9, 10, 11, 19, 20, 99])
    assert positions_in_force([10, 20], ends).tolist() == [CONFIGURED, 0, 0, 0, 1, 1]
    assert positions_in_force([], ends).tolist() == [CONFIGURED] * 6


def test_a_timeline_is_one_groups_in_order_and_the_last_activation_of_an_end_counts() -> None:
    first, second, fans = activation(20), activation(10), activation(15, group="fans")
    again = activation(20, digest=OLD)
    assert timeline([first, second, fans, again], "pumps") == (second, again)
    assert position_in_force((second, again), 19) == 0
    assert position_in_force((second, again), 9) == CONFIGURED


def test_a_rollback_goes_back_to_the_last_other_model() -> None:
    configured = activation(0, digest=OLD)
    first, twice = activation(10), activation(20)
    assert predecessor((), configured) is None
    assert predecessor((first, twice), configured) == configured
    third = activation(30, digest="c" * 64)
    assert predecessor((first, twice, third), configured) == twice
    assert predecessor((activation(10, digest=OLD),), configured) is None


def test_a_rollback_is_a_minute_ahead_or_takes_the_place_of_what_is_still_to_come() -> None:
    assert rollback_end((), NOW) == NOW + AHEAD_NS
    assert rollback_end((activation(NOW + 5),), NOW) == NOW + AHEAD_NS
    assert rollback_end((activation(NOW + 2 * AHEAD_NS),), NOW) == NOW + 2 * AHEAD_NS


def test_an_activation_must_be_a_minute_ahead_of_a_known_group_and_bundle() -> None:
    def wrong(asked: Activation) -> list[str]:
        return activation_problems(asked, now_ns=NOW, groups=["pumps"], digests={NEW})

    assert wrong(activation()) == []
    assert "less than a minute ahead" in wrong(activation(NOW + AHEAD_NS - 1))[0]
    assert wrong(activation(group="fans")) == ["unknown group fans; the groups are pumps"]
    assert wrong(activation(digest=OLD)) == [f"no bundle has the digest {OLD[:12]}"]
    assert len(wrong(activation(0, group="fans", digest=OLD))) == 3
