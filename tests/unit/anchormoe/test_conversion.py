"""The one converter from untrusted values to dataclasses: what it takes, what it refuses, and in which words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from anchormoe.conversion import Count, Share, from_settings, from_stored, override, require_valid_fields
from anchormoe.errors import DataError, ModelError


@dataclass(frozen=True, slots=True)
class Wheel:
    spokes: Count
    tyre: Literal["wide", "narrow"] = "wide"


@dataclass(frozen=True, slots=True)
class Cart:
    name: Annotated[str, Meta(max_length=5)]
    wheels: tuple[Wheel, ...] = ()
    spare: Wheel | None = None
    load: Share = 0.5
    painted: bool = False
    owners: dict[str, str] = field(default_factory=dict)
    parts: Mapping[Literal["bell", "lamp"], Wheel] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name == "ghost":
            raise ValueError("a ghost needs no cart")


WHOLE: dict[str, Any] = {
    "name": "cart", "wheels": [{"spokes": 3, "tyre": "narrow"}], "spare": None, "load": 1, "painted": True,
    "owners": {"a": "b"}, "parts": {"bell": {"spokes": 1, "tyre": "wide"}}, "rest": {"x": [1, {}]},
}  # fmt: skip


def test_everything_arrives_in_its_type() -> None:
    cart = from_stored(Cart, WHOLE, "cart.json:")
    assert cart == Cart("cart", (Wheel(3, "narrow"),), None, 1.0, True, {"a": "b"}, {"bell": Wheel(1)}, {"x": [1, {}]})
    assert type(cart.load) is float


def test_what_settings_leave_out_takes_its_default_and_an_empty_section_is_one() -> None:
    assert from_settings(Cart, {"name": "c"}, "") == Cart("c")
    with pytest.raises(DataError, match=r"^wheels\[0\]\.spokes: required key is missing$"):
        from_settings(Cart, {"name": "c", "wheels": [None]}, "")


def test_keys_that_yaml_reads_as_numbers_are_strings() -> None:
    assert from_settings(Cart, {"name": "c", "owners": {0: "b"}}, "").owners == {"0": "b"}


@pytest.mark.parametrize("key", list(WHOLE))
def test_what_was_stored_must_be_whole(key: str) -> None:
    rest = {name: value for name, value in WHOLE.items() if name != key}
    with pytest.raises(ModelError, match=rf"^cart\.json: {key}: required key is missing$"):
        from_stored(Cart, rest, "cart.json:")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"colour": 1, "mood": 2}, "colour, mood: unknown key; known are name, wheels, spare"),
        ({"name": 3}, "name: expected a string of at most 5 characters, not 3"),
        ({"name": "longer"}, "name: expected a string of at most 5 characters, not 'longer'"),
        ({"name": "ghost"}, "cart.json: a ghost needs no cart"),
        ({"wheels": 3}, "wheels: expected a list, not 3"),
        ({"wheels": [3]}, "wheels[0]: expected keys and values, not 3"),
        ({"wheels": [{"spokes": 0, "tyre": "wide"}]}, "wheels[0].spokes: expected a whole number of at least 1, not 0"),
        ({"wheels": [{"spokes": True, "tyre": "wide"}]}, "spokes: expected a whole number of at least 1, not True"),
        ({"wheels": [{"spokes": 2.0, "tyre": "wide"}]}, "spokes: expected a whole number of at least 1, not 2.0"),
        ({"spare": {"spokes": 1, "tyre": "flat"}}, "spare.tyre: expected one of wide, narrow, not 'flat'"),
        ({"spare": {"spokes": 1, "tyre": ["wide"]}}, "spare.tyre: expected one of wide, narrow, not ['wide']"),
        ({"load": 1.5}, "load: expected a number from 0 to 1, not 1.5"),
        ({"load": float("nan")}, "load: expected a number from 0 to 1, not nan"),
        ({"load": "1"}, "load: expected a number from 0 to 1, not '1'"),
        ({"painted": 1}, "painted: expected true or false, not 1"),
        ({"owners": ["a"]}, "owners: expected keys and values, not ['a']"),
        ({"owners": {"a": 1}}, "owners.a: expected a string, not 1"),
        ({"parts": {"horn": {}}}, "parts.horn: expected one of bell, lamp, not 'horn'"),
        ({"name": [0] * 1000}, "not [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,…"),
    ],
)
def test_a_problem_names_the_key_the_value_and_what_was_expected(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError) as raised:
        from_stored(Cart, WHOLE | change, "cart.json:")
    assert reason in str(raised.value)
    assert str(raised.value).startswith("cart.json:")


@dataclass(frozen=True, slots=True)
class Loose:
    weight: float
    tilt: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    count: Count | None = None

    def __post_init__(self) -> None:
        require_valid_fields(self)


def test_infinity_is_no_number_even_without_bounds() -> None:
    with pytest.raises(DataError, match="weight: expected a number, not inf"):
        Loose(float("inf"))


def test_a_dataclass_may_check_itself() -> None:
    assert Loose(1).count is None
    with pytest.raises(DataError, match="tilt: expected a number above 0 and below 1, not 1"):
        Loose(1.0, 1)
    with pytest.raises(DataError, match="count: expected a whole number of at least 1 or null, not 0"):
        Loose(1.0, count=0)


def test_single_fields_are_overridden_as_they_were_given() -> None:
    changed = override(Wheel(3), {"spokes": 4}, "wheel")
    assert (changed.spokes, changed.tyre) == (4, "wide")
    assert repr(override(Cart("c"), {"load": 1}, "cart").load) == "1"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"load": 2}, "cart.load: expected a number from 0 to 1, not 2; the default is 0.5"),
        ({"mood": 2}, "cart.mood: no such setting; there are name, spare, load, painted"),
        ({"wheels": []}, "cart.wheels: no such setting"),
    ],
)
def test_a_wrong_override_names_the_default(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError) as raised:
        override(Cart("c"), changes, "cart")
    assert str(raised.value).startswith(reason)
