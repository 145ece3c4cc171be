"""Explanations of the small linear model: every sum is exact, every name and time is said, pages hold all numbers."""

import re
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.explain.explanation import Explanation, Origin, explain_case
from anchormoe.explain.html import explanation_html
from anchormoe.explain.plot import plot_explanation, shown_channels, shown_terms, tick_text
from anchormoe.explain.spans import strongest_spans
from anchormoe.explain.words import (
    clock,
    compare_with_normal,
    example_words,
    headline,
    percent,
    recorded,
    sentence,
    waterfall,
    when,
    window_words,
)
from anchormoe.predictor import Predictor
from anchormoe.profiles.examples import Example
from anchormoe.profiles.names import shorten_name
from tests.support.expert_profiles import linear_predictor, linear_profiles
from tests.support.linear_source import windows

START = 1_700_000_000_000_000_000


def predictor(*, profiles: bool = True) -> Predictor:
    plain = linear_predictor()
    return Predictor(plain.config, plain.model, plain.profile, linear_profiles() if profiles else None)


def explain(at: int = 0, *, profiles: bool = True, start_ns: int | None = START) -> Explanation:
    case = Cases.from_windows(*windows(12)).subset(slice(at, at + 1))
    return explain_case(predictor(profiles=profiles), case, truth="a", origin=Origin("rec", start_ns, 10 * at))


@pytest.mark.parametrize("at", range(6))
def test_every_way_of_adding_up_gives_the_score(at: int) -> None:
    found = explain(at)
    assert found.context + found.evidence.sum() == pytest.approx(found.logit, abs=1e-9)
    assert sum(value for _, value in waterfall(found, found.score)) == pytest.approx(found.logit, abs=1e-12)
    assert found.context + found.by_term.sum() == pytest.approx(found.logit, abs=1e-9)
    assert found.context + sum(one.contribution for one in found.experts) == pytest.approx(found.logit, abs=1e-9)
    margin = found.logits[found.label] - found.logits[found.runner_up]
    assert sum(value for _, value in waterfall(found, found.margin)) == pytest.approx(margin, abs=1e-12)
    assert found.runner_up == np.argsort(-found.logits)[1]


def test_a_span_is_the_sum_of_its_steps_and_spans_do_not_overlap() -> None:
    found = explain(2)
    assert found.score.spans
    for span in found.score.spans:
        term = found.terms.index(span.term)
        assert span.value == pytest.approx(found.evidence[span.start : span.stop, term].sum())
        for other in found.score.spans:
            apart = other is span or other.term != span.term or other.start >= span.stop or other.stop <= span.start
            assert apart


def test_spans_are_runs_of_one_sign_and_the_strongest_come_first() -> None:
    steps = np.zeros((8, 2))
    steps[2:5, 0], steps[5, 0], steps[1:3, 1] = 1.0, -2.5, -1.0
    found = strongest_spans(steps, cell=1, most=9)
    assert [(one.term, one.start, one.stop, one.value) for one in found] == [
        (0, 2, 5, 3.0), (0, 5, 6, -2.5), (1, 1, 3, -2.0),
    ]  # fmt: skip
    assert len(strongest_spans(steps, cell=1, most=1)) == 1
    assert strongest_spans(np.zeros((8, 2)), cell=2, most=9) == []


def test_spans_say_who_spoke_and_what_they_are_like_but_never_the_same_case() -> None:
    titles = {expert.title for expert in linear_profiles().experts}
    spans = [span for at in range(6) for span in explain(at).score.spans]
    assert {span.expert for span in spans} <= titles
    examples = [(at, span.example) for at in range(6) for span in explain(at).score.spans if span.example]
    assert examples
    assert all(example.case != 10 * at for at, example in examples)


def test_a_bundle_without_profiles_is_explained_with_internal_names() -> None:
    found = explain(profiles=False)
    assert {span.expert for span in found.score.spans} <= {"linear/even", "linear/odd"}
    assert all(span.example is None for span in found.score.spans)
    assert b"PNG" in plot_explanation(found)[:8]


def test_times_are_told_as_far_as_they_are_known() -> None:
    known, seconds = explain(), explain(start_ns=None)
    steps = replace(seconds, config=replace(seconds.config, period_ns=None))
    assert when(known, 2, 6) == "22:13:21 to 22:13:23"
    assert when(seconds, 2, 6) == "1 to 3 s"
    assert when(steps, 2, 6) == "steps 2 to 5"
    assert when(known, 0, 24) == "whole window"
    assert window_words(known) == "2023-11-14 22:13:20 to 22:13:32 UTC (24 steps, a step every 0.5 s)"
    assert window_words(steps) == "24 steps"
    assert clock(START + 500_000_000, 500_000_000) == "22:13:20.5"
    assert clock(START + 1_000, 1_000) == "22:13:20.000001"
    night = replace(known, origin=Origin("rec", START - 22 * 3600 * 10**9 - 13 * 60 * 10**9 - 22 * 10**9))
    assert when(night, 2, 6) == "2023-11-13 23:59:59 to 2023-11-14 00:00:01"


def test_the_sentence_names_the_state_the_channels_and_the_runner_up() -> None:
    found = explain(1)
    text = sentence(found)
    assert text.startswith((f"{found.state} (", "unknown: "))
    assert f"Not {found.rival} (" in text
    spoken = next((span for span in found.score.spans if span.value > 0), None)
    assert spoken is None or compare_with_normal(found, spoken) in text
    assert f"true class a;  score {found.logit:+.3f}" in headline(found)


def test_values_are_compared_with_what_was_asked_for_and_peaks_with_where_most_values_are() -> None:
    """No class of the linear model is called normal, so there is nothing normal to compare with."""
    found = explain()
    normal = replace(found.normal, low=np.array([-1.0, -1.0]), high=np.array([1.0, 1.0]), deviation=np.ones(2))
    window, mask = found.window.copy(), np.ones_like(found.mask)
    window[0], window[1] = 1.5, np.random.default_rng(0).normal(0, 0.4, window.shape[1])
    window[1, 10] = 5.0
    level, peak = (replace(found.score.spans[0], term=(at,), channel=at, start=0, stop=24, family="") for at in (0, 1))
    told = replace(found, window=window, mask=mask, normal=normal)
    assert compare_with_normal(told, level).endswith(" 1.5 bar against -1 to 1 in TRAIN")
    assert compare_with_normal(told, peak).endswith(" to 5 K where 90 % of values in TRAIN are -1 to 1")
    told = replace(told, normal=replace(normal, label="normal"))
    assert compare_with_normal(told, level).endswith(" 1.5 bar against -1 to 1 normal")
    assert compare_with_normal(told, peak).endswith(" to 5 K where 90 % of normal values are -1 to 1")


def test_what_moves_is_told_by_its_range_as_its_mean_says_nothing() -> None:
    found = explain()
    normal = replace(
        found.normal, low=np.full(2, -1.2), high=np.full(2, 1.1), deviation=np.full(2, 0.7), label="normal"
    )
    window = np.where(np.arange(24) < 12, -0.9, 0.8).astype(np.float32)[None].repeat(2, axis=0)
    config = replace(found.config, units=("1", "K"))
    told = replace(found, window=window, mask=np.ones_like(found.mask), normal=normal, config=config)
    span = replace(found.score.spans[0], term=(0,), channel=0, start=0, stop=24, family="")
    words = "-0.9 to 0.8 where 90 % of normal values are -1.2 to 1.1"
    assert compare_with_normal(told, span) == f"step up, {words}"
    assert compare_with_normal(told, replace(span, family="spread")) == f"usual variation, {words}"
    assert compare_with_normal(told, replace(span, family="level")) == "usual level, -0.05 against -1.2 to 1.1 normal"
    assert "[1]" not in explanation_html(told, b"", title="")


def test_an_axis_has_whole_numbers_and_no_offset() -> None:
    ticks = [101_320.0, 101_325.05, -42.5, 0.1 + 0.2, 0.0, 3.25e12, 2e-12]
    assert [tick_text(one) for one in ticks] == ["101320", "101325.05", "-42.5", "0.3", "0", "3.25e+12", "2e-12"]


def test_a_recording_that_counts_from_zero_has_no_date() -> None:
    second = 1_000_000_000
    assert recorded(1_700_000_000 * second, second) == " at 2023-11-14 22:13:20"
    assert recorded(124_800_000_000, 40_000_000) == ", 00:02:04.8 after its start"
    assert recorded((86_400 + 61) * second, second) == ", 1 d 00:01:01 after its start"


def test_a_channel_without_data_is_named() -> None:
    x, mask = windows(1)
    mask[:, 1] = False
    found = explain_case(predictor(), Cases.from_windows(x, mask))
    assert found.missing[1] == 1.0
    assert "No data from q." in found.sentence
    mask[:, 1, :3] = True
    assert "Little or no data from q." in explain_case(predictor(), Cases.from_windows(x, mask)).sentence
    assert found.sentence.endswith("Look at this sensor and its connection. If it fails often, train with "
                                   "`--set channel_dropout=1`.")  # fmt: skip
    assert "channel that the model needs is missing" in headline(found)


def test_the_page_is_one_file_with_all_numbers_and_no_script() -> None:
    found = explain(3)
    page = explanation_html(found, b"png", title="<script>alert(1)</script>")
    for table in re.findall(r"<tbody>(.*?)</tbody>", page):
        numbers = [Decimal(one) for one in re.findall(r"<td class=n>([+-][\d.]+)</td>", table)]
        if "class=sum" in table:
            assert sum(numbers[:-1]) == numbers[-1]
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http" not in page
    for value in (found.context, found.logit, found.margin.total, *(span.value for span in found.score.spans)):
        assert f"{value:+.4f}" in page
    assert page.count("<svg") == sum(len(expert.prototypes) for expert in linear_profiles().experts)
    assert found.sentence.split(" because")[0] in page


def test_names_that_look_like_formulas_or_are_very_long_are_drawn() -> None:
    found = explain(1)
    names = ("$x^2", "a_channel_with_a_name_that_is_longer_than_any_axis_could_be_" * 3)
    odd = replace(found, config=replace(found.config, channels=names, units=("$", "%")))
    assert plot_explanation(odd, title="$ \\frac{ $")[:4] == b"\x89PNG"
    assert shorten_name(names[1], 20) == f"{names[1][:9]}…{names[1][-10:]}"


def test_of_many_channels_the_ones_with_evidence_are_shown() -> None:
    found = explain(1)
    many = replace(
        found, terms=tuple((channel,) for channel in range(50)), evidence=np.eye(24, 50) * np.arange(1, 51),
        config=replace(found.config, channels=tuple(f"c{at}" for at in range(50)), units=("",) * 50),
    )  # fmt: skip
    assert shown_channels(many) == [18, 19, 20, 21, 22, 23]
    assert shown_terms(many) == list(range(23, 11, -1))


def test_the_json_has_every_sum() -> None:
    stored = explain(1).to_dict()
    score = stored["score"]
    total = score["context"] + sum(one["contribution"] for one in score["spans"]) + score["remainder"]
    assert total == pytest.approx(stored["logit"])
    assert stored["why_not"]["total"] == pytest.approx(
        stored["logits"][stored["state"]] - stored["logits"][stored["why_not"]["class"]]
    )
    assert sum(one["contribution"] for one in stored["channels"]) + score["context"] == pytest.approx(stored["logit"])


def test_a_probability_is_never_rounded_to_certainty() -> None:
    assert [percent(share) for share in (0.0, 0.0004, 0.25, 0.99951, 1.0)] == [
        "0.0 %", "< 0.1 %", "25.0 %", "> 99.9 %", "100.0 %",
    ]  # fmt: skip


def test_a_training_segment_that_is_far_away_is_not_called_alike() -> None:
    found = explain(1)
    example = Example(0, 4, 1, None, None, 0, 8, 0.3, np.zeros(32, np.float32))
    assert example_words(found, example) == "like b in case 4, distance 0.30"
    assert (
        example_words(found, replace(example, distance=1.6)) == "nothing alike; nearest is b in case 4, distance 1.60"
    )
