"""MODEL_CARD.md: what a bundle is, how good it is, and what it is not for. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from anchormoe.bundle.config import BundleConfig
from anchormoe.bundle.usefulness import KEY
from anchormoe.evidence import Json
from anchormoe.metrics.cancellation import describe_cancellation
from anchormoe.model.reasons import REASONS
from anchormoe.profiles.names import Vocabulary
from anchormoe.profiles.profile import ExpertProfiles
from anchormoe.profiles.table import COLUMNS, judged_words, profile_rows
from anchormoe.recipes.fit import FittedModel
from anchormoe.windows import FillRule, step_words

_CAPTIONS = {
    "curves.png": "Training",
    "reliability.png": "Reliability: accuracy at each level of confidence",
    "confusion.png": "Confusion",
    "experts.png": "Experts: classes, prototypes, and the cosines of posterior anchors where there are any",
}
_MEANING = """A score is the sum of its evidence: `logit = context + Σ contributions`, within 1e-5, and
`softmax(logits)` is the probability. A contribution is what some steps of a channel, or of several channels that are
read together, add to the score in this model. It does not say how the score would change if they were deleted, and it
is not a cause."""
_LIMITS = """Not a medical device and not a primary alarm. The figures hold for data like TRAIN; for other data the
rules above make the model answer `unknown`, and each event names the rule."""


def model_card(
    config: BundleConfig, fitted: FittedModel, data: Mapping[str, Json], metrics: Mapping[str, Json],
    *, plots: Sequence[str] = (), experts: ExpertProfiles | None = None,
) -> str:  # fmt: skip
    parts = [
        f"# {config.name}, version {config.version}",
        _facts(config, data),
        "## Figures\n\n" + _figures(metrics) + _warnings(data) + _usefulness(metrics[KEY]),
        "## Evidence\n\n" + _MEANING + "\n\n" + _cancellation(metrics["cancellation"]) + "\n\n" + _sources(fitted),
        *_experts(config, experts),
        "## When it answers `unknown`\n\n" + _rules(fitted),
        *_without(metrics["out_of_fold"]),
        "## Limits\n\n" + _LIMITS,
    ]
    images = [f"![{_CAPTIONS[name]}]({name})" for name in plots if name in _CAPTIONS]
    return "\n\n".join(parts + images) + "\n"


def _experts(config: BundleConfig, experts: ExpertProfiles | None) -> list[str]:
    if experts is None or not experts.experts:
        return []
    period_s = None if config.period_ns is None else config.period_ns / 1e9
    rows = profile_rows(experts, Vocabulary(config.channels, config.classes, period_s))
    table = [COLUMNS, ["---"] * len(COLUMNS), *rows]
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in table]
    return ["## Experts\n\n" + f"What each expert learnt from TRAIN; {judged_words(experts)}.\n\n" + "\n".join(lines)]


def _facts(config: BundleConfig, data: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{name} ({count})" for name, count in data["class_counts"].items())
    groups = "" if data["groups"] is None else f" from {data['groups']} groups"
    period = "" if config.period_ns is None else f", {step_words(config.period_ns / 1e9)}"
    return "\n".join([
        f"- Recipe `{config.recipe}`, alignment `{config.alignment}`, protocol **{config.protocol}**",
        f"- Trained on {data['name']}: {data['cases']} cases{groups}, fingerprint `{data['fingerprint'][:16]}`",
        f"- Classes: {counts}",
        f"- Channels: {', '.join(_channel(config, index) for index in range(len(config.channels)))}",
        f"- Windows: {config.length} steps{period}{', unequal lengths' if config.unequal_length else ''}; "
        f"evidence in patches of {config.patch_length} steps, {config.patch_stride} apart",
        *_filling(config),
    ])  # fmt: skip


def _channel(config: BundleConfig, index: int) -> str:
    unit = config.units[index]
    return config.channels[index] + (f" [{unit}]" if unit else "")


def _filling(config: BundleConfig) -> list[str]:
    """How missing values were filled, by rule; nothing where they were not, or where that is not known."""
    filled: dict[FillRule, list[str]] = {rule: [] for rule in config.fill if rule.kind != "none"}
    for name, rule in zip(config.channels, config.fill, strict=False):
        if rule in filled:
            filled[rule].append(name)
    rules = [
        f"{rule.kind} up to {rule.max_age} steps ({'all' if len(names) == len(config.channels) else ', '.join(names)})"
        for rule, names in filled.items()
    ]
    return [f"- Missing values are filled: {'; '.join(rules)}"] if rules else []


def _figures(metrics: Mapping[str, Any]) -> str:
    rows = [("out-of-fold on TRAIN", metrics["out_of_fold"]), ("TEST, read once", metrics["test"])]
    if metrics["protocol"] == "optimistic":
        rows[1] = ("TEST, **optimistic**: epoch chosen on it", metrics["test"])
    names = ("", "cases", "accuracy (95 %)", "balanced accuracy", "macro F1", "log loss", "Brier", "ECE")
    head = f"| {' | '.join(names)} |\n{'|---' * len(names)}|\n"
    return head + "\n".join(_row(name, figures) for name, figures in rows if figures is not None)


def _warnings(data: Mapping[str, Any]) -> str:
    return "".join(f"\n\n**Warning:** {note}." for note in data["fold_notes"])


def _usefulness(judged: Mapping[str, Any] | None) -> str:
    """Baselines on the same folds, and what speaks against the model."""
    if judged is None:
        return ""
    rows = [(f"this model (`unknown` {judged['unknown']:.1%})", judged), *((b["name"], b) for b in judged["baselines"])]
    table = "\n".join(f"| {name} | {one['accuracy']:.3f} | {one['balanced_accuracy']:.3f} |" for name, one in rows)
    remarks = [f"**Not useful:** {one}." for one in judged["useless"]] + [f"Note: {one}." for one in judged["notes"]]
    head = "\n\n| out-of-fold | accuracy | balanced accuracy |\n|---|---|---|\n"
    return "\n\n".join([head + table, *remarks])


def _row(name: str, figures: Mapping[str, Any]) -> str:
    low, high = figures["accuracy_interval"]
    ece = "– (fewer than 300 cases)" if figures["ece"] is None else f"{figures['ece']:.3f}"
    accuracy = f"{figures['accuracy']:.3f} ({low:.3f} to {high:.3f})"
    others = [f"{figures[key]:.3f}" for key in ("balanced_accuracy", "macro_f1", "nll", "brier")]
    return f"| {' | '.join([name, str(figures['n']), accuracy, *others, ece])} |"


def _sources(fitted: FittedModel) -> str:
    lines = [f"- `{part.name}` with weight {part.weight:.3g}" for part in fitted.model.parts]
    left_out = sorted(set(fitted.report["sources"]) - {part.name for part in fitted.model.parts})
    lines += [f"- `{name}` was fitted, but got no weight in the blend" for name in left_out]
    biases = "class biases are context" if any(fitted.model.calibration.bias) else "no class biases"
    lines.append(f"- calibration: scale {fitted.model.calibration.scale:.3g}, {biases}")
    if fitted.interrupted:
        lines.append("- **training was interrupted**; this is the best model so far")
    return "Sources and calibration, all chosen on TRAIN out-of-fold:\n\n" + "\n".join(lines)


def _cancellation(figures: Mapping[str, Any]) -> str:
    line = describe_cancellation(figures)
    return f"{line[0].upper()}{line[1:]} (final model, {figures['cases']} TRAIN cases). It is (Σ |contributions| + " + (
        "|context|) / |logit| of the predicted class: 1 means that nothing cancels."
    )


def _rules(fitted: FittedModel) -> str:
    rules = fitted.model.abstention
    thresholds = {
        "low_probability": f"probability below {_short(rules.least_probability)}",
        "low_margin": f"margin over the second class below {_short(rules.least_margin)}",
        "conformal": f"more than one class reaches {_short(rules.conformal)} (coverage {_short(rules.coverage)})",
        "out_of_distribution": f"more than {_short(rules.most_unusual)} of the values outside TRAIN's usual range",
        "channel_missing": "a channel is less than half valid"
        + (" (one of those below may be)" if rules.without else ""),
    }
    lines = [
        f"| `{name}` | {thresholds[name]} | {rate:.1%} | {REASONS[name].advice} |" for name, rate in rules.rates.items()
    ]
    return "| rule | fires when | on TRAIN, out-of-fold | what to do |\n|---|---|---|---|\n" + "\n".join(lines)


def _short(threshold: float | None) -> str:
    """A rule that is off has no row, so the dash is never shown."""
    return "–" if threshold is None else f"{threshold:.3g}"


def _without(figures: Mapping[str, Any]) -> list[str]:
    """A section for models that were trained with channel dropout."""
    accuracies = figures.get("accuracy_without_channel")
    if accuracies is None:
        return []
    head = (
        f"## With a channel missing\n\nTrained with channel dropout: one channel at a time may be missing. Out-of-fold "
        f"accuracy on TRAIN (with all channels {figures['accuracy']:.3f}):\n\n| without | accuracy |\n|---|---|\n"
    )
    return [head + "\n".join(f"| {name} | {_accuracy(value)} |" for name, value in accuracies.items())]


def _accuracy(value: float | None) -> str:
    return "– (too few cases: `channel_missing`)" if value is None else f"{value:.3f}"
