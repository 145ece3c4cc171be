"""Readable names of experts: made of facts, unique, and kept by an expert that was trained again."""

from dataclasses import replace

from anchormoe.profiles.names import NamedBefore, Vocabulary, family_of, term_words, with_titles
from anchormoe.profiles.profile import TermShare
from tests.support.expert_profiles import expert

WORDS = Vocabulary(("flow", "pressure", "vibration"), ("normal", "worn"), 0.1)


def titles(*experts: object, before: NamedBefore | None = None) -> list[str]:
    return [one.title for one in with_titles(list(experts), WORDS, before)]  # type: ignore[arg-type]


def test_a_name_is_the_shape_and_the_channels() -> None:
    assert titles(expert("m/e0", "dip", {0: 0.9}, (0.0, 1.0))) == ["dip in flow"]
    assert titles(expert("m/e0", "dip", {0: 0.4, 2: 0.35}, (0.0, 1.0))) == ["dip in flow and vibration"]
    assert titles(expert("m/e0", "dip", {0: 0.4, 2: 0.2}, (0.0, 1.0))) == ["dip, most in flow"]
    assert titles(expert("m/e0", "dip", {}, (0.0, 1.0))) == ["dip"]


def test_an_expert_that_speaks_in_many_channels_is_not_named_after_one() -> None:
    many = {0: 0.2, 1: 0.19, 2: 0.18}
    levels = expert("kernel/level", "level above normal", many, (0.3, 0.3))
    assert titles(levels) == ["level in many channels"]
    assert titles(expert("m/e0", "dip", many, (0.3, 0.3))) == ["dip in many channels"]
    clear = replace(levels, name="m0/level", support=(0.0, 1.0))
    assert titles(levels, clear) == ["level in many channels", "level in many channels for worn"]
    unclear = replace(levels, name="m1/level", support=(0.45, 0.45))
    assert titles(replace(levels, support=(0.3, 0.2)), unclear)[0] == "level in many channels for normal"


def test_an_oscillation_has_its_frequency_in_its_name() -> None:
    shaking = replace(expert("m/e0", "oscillation", {2: 1.0}, (0.0, 1.0)), cycles=0.04)
    assert titles(shaking) == ["oscillation near 0.4 Hz in vibration"]


def test_two_that_are_alike_are_told_apart_by_class_and_then_by_number() -> None:
    one = expert("m/e0", "dip", {0: 0.9}, (0.0, 1.0))
    other = expert("m/e1", "dip", {0: 0.9}, (1.0, -1.0))
    assert titles(one, other) == ["dip in flow for worn", "dip in flow for normal"]
    assert titles(one, replace(one, name="m/e2", share=0.9)) == ["dip in flow for worn (2)", "dip in flow for worn"]
    assert titles(replace(one, support=(-1.0, None)), one) == ["dip in flow", "dip in flow for worn"]


def test_channels_read_together_are_named_as_a_set() -> None:
    pair = replace(expert("m/e0", "dip", {}, (0.0, 1.0)), terms=(TermShare((0, 1), 2, 1.0),))
    assert titles(pair) == ["dip in flow + pressure together"]
    assert term_words(range(3), 3, WORDS.channels) == "flow + pressure + vibration together"
    many = tuple(f"c{number}" for number in range(9))
    assert term_words(range(9), 9, many) == "all 9 channels together"
    assert term_words(range(5), 5, many) == "5 channels together"
    assert term_words((0,), 1, ("x" * 100,)) == "x" * 59 + "…"


def test_an_expert_that_was_trained_again_keeps_its_name_and_nobody_else_takes_it() -> None:
    dip, spike = expert("m/e0", "dip", {0: 0.9}, (0.0, 1.0)), expert("m/e1", "spike", {1: 0.8}, (1.0, 0.0))
    old = with_titles([dip, spike], WORDS)
    before = NamedBefore((replace(old[0], title="the dip we know"), old[1]), WORDS)
    again = replace(dip, name="m/e7", terms=(TermShare((0,), 1, 0.8),), support=(0.1, 0.9))
    twin = replace(dip, name="m/e8", terms=(TermShare((0,), 1, 0.5),), support=(1.0, -1.0))
    assert titles(again, twin, before=before) == ["the dip we know", "dip in flow"]
    elsewhere = replace(dip, terms=(TermShare((1,), 1, 0.9),))
    assert titles(elsewhere, before=before) == ["dip in pressure"]
    assert titles(replace(dip, shape="hump"), before=before) == ["hump in flow"]


def test_channels_are_matched_by_name_when_their_order_changed() -> None:
    turned = Vocabulary(("vibration", "pressure", "flow"), ("worn", "normal"), 0.1)
    before = NamedBefore((replace(expert("m/e0", "dip", {2: 0.9}, (1.0, 0.0)), title="known"),), turned)
    assert titles(expert("m/e0", "dip", {0: 0.9}, (0.0, 1.0)), before=before) == ["known"]


def test_the_family_is_read_from_the_internal_name() -> None:
    assert [family_of(name) for name in ("kernel/level", "kernel/short shape", "kernel/long_shape", "m0/e2")] == [
        "level", "short shape", "long shape", "",
    ]  # fmt: skip
