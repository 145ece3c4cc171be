"""The reasons for `unknown` in words: what each means, what to look at, what to do. Pure.

The rules of a model are among them, and what the agent knows before it asks one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Reason:
    """`short` fits into a line; the others are half sentences."""

    short: str
    means: str
    look_at: str
    remedy: str

    @property
    def advice(self) -> str:
        if self.look_at.endswith("?"):
            return f"{self.look_at} {self.remedy[0].upper()}{self.remedy[1:]}"
        return f"{self.look_at}; {self.remedy}"


REASONS: Mapping[str, Reason] = MappingProxyType(
    {
        "channel_missing": Reason(
            "a channel that the model needs is missing",
            "a channel has values in less than half of the window, and the model was not trained to do without it",
            "look at this sensor and its connection",
            "if it fails often, train with `--set channel_dropout=1`",
        ),
        "out_of_distribution": Reason(
            "values are outside what the model has learnt",
            "more values are outside the usual range of the training data than in 99 of 100 training windows",
            "look at the channels that are named: is the sensor right, is it a new way of operation?",
            "if the values are right, record them, label them and train with them",
        ),
        "low_probability": Reason(
            "no state is likely enough",
            "the most likely state is not much more likely than by guessing",
            "look at the two states that are nearest, and wait for the next windows: a change may be on its way",
            "if it lasts, it may be a state that was never recorded; record it and train with it",
        ),
        "low_margin": Reason(
            "two states are too close to tell apart",
            "the two most likely states are nearly equally likely",
            "look at what speaks against the runner-up, and wait for the next windows",
            "if it is often these two, train with more recordings of both, or make one state of them",
        ),
        "conformal": Reason(
            "several states are possible",
            "more than one state is as likely as the true one is in nine of ten training windows",
            "look at the states that are named, and wait for the next windows",
            "train with more recordings of these states; `--set abstention.conformal=null` switches the rule off",
        ),
        "implausible_values": Reason(
            "deciding values cannot be right",
            "a sensor sends codes, a flat line or jumps, and without it the answer would be another one",
            "look at the sensor that is named",
            "mend it; the state is told again once its values are plausible",
        ),
        "low_coverage": Reason(
            "too few values arrived",
            "less of the window's values arrived than `min_coverage` asks for",
            "look at the sensors, the connection and the clock of the sender",
            "if the sender is slower by design, train and run with a longer period",
        ),
        "history_lost": Reason(
            "records were deleted before they were read",
            "the log lost records of this window before the agent read them",
            "look at the topic's retention and at how far the agent lags behind",
            "nothing: new data end this",
        ),
        "internal": Reason(
            "the agent failed on this window",
            "classifying the window raised an error; the next windows are not affected",
            "look at the agent's log at this time",
            "report it with the output of `anchormoe-agent support-bundle`",
        ),
    }
)


def short_reason(reason: str) -> str:
    """Of a reason that is not among them, its name."""
    known = REASONS.get(reason)
    return reason.replace("_", " ") if known is None else known.short
