"""All explainers: what each needs of a model, and how its values are added over channels, fixed by what they mean."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from anchormoe.benchmark.explainers.task import Prepare

Needs = Literal["logits", "gradients", "embedding"]
"""What a model must offer: its logits only, a gradient, or a differentiable embedding besides."""
Form = Literal["signed", "unsigned", "positive"]
"""How values are added over channels: as they are, as they are because none is negative, their positive part."""


@dataclass(frozen=True, slots=True)
class Explainer:
    """One method, in the module of its name; `paper_name` is its column in the paper's tables."""

    name: str
    label: str
    form: Form
    needs: Needs
    paper_name: str | None = None

    def load(self) -> "Prepare":
        """Imports it: most need torch or captum, which a page that is written from a ledger does not."""
        module = import_module(f"anchormoe.benchmark.explainers.{self.name.replace('-', '_')}")
        return module.prepare  # type: ignore[no-any-return]


EXPLAINERS = (
    Explainer("chance", "Random", "unsigned", "logits", "Random"),
    Explainer("vanilla", "Vanilla gradient", "unsigned", "gradients", "Vanilla"),
    Explainer("input-gradient", "Input × Gradient", "signed", "gradients", "InputXGrad"),
    Explainer("integrated-gradients", "Integrated Gradients", "signed", "gradients", "IG"),
    Explainer("deeplift", "DeepLIFT", "signed", "gradients", "DeepLIFT"),
    Explainer("deepshap", "DeepSHAP", "signed", "gradients", "DeepSHAP"),
    Explainer("dynamask", "DynaMask", "unsigned", "gradients", "DynaMask"),
    Explainer("fit", "FIT", "positive", "logits", "FIT"),
    Explainer("timex", "TimeX", "unsigned", "embedding", "TimeX"),
    Explainer("occlusion", "Occlusion", "signed", "logits"),
)
"""Signed values add up to a score, so a step's is the sum over its channels. Masks and sizes of gradients have no sign.
A negative value of FIT says that a channel explains nothing, so only the positive part counts."""
