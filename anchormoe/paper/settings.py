"""What a user may set for the paper recipe; what is left open comes from the data by rule. Pure."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from msgspec import Meta

from anchormoe.conversion import Amount, Count, require_valid_fields
from anchormoe.errors import ModelError
from anchormoe.paper.architecture import ModelConfig
from anchormoe.paper.defaults import DataShape, PaperDefaults, paper_defaults


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """None means: by the rule in `defaults`."""

    patch_length: Count | None = None
    patch_stride: Count | None = None
    width: Count | None = None
    experts: Count | None = None
    top_k: Count | None = None
    bands: Count | None = None
    dropout: Amount | None = None
    batch_size: Count | None = None
    epochs: Count | None = None
    learning_rate: Amount | None = None
    weight_decay: Amount = 0.01
    lambda_orth: Amount = 0.05
    lambda_ra: Amount = 0.05
    warmup_share: Amount = 0.3
    """Of the epochs, over which λ_orth and λ_ra grow to their full values."""
    patience_share: Amount = 0.3
    """Of the epochs: a fold stops after so many without a better validation loss."""
    folds: Annotated[int, Meta(ge=2)] = 3
    class_weight: Literal["none", "balanced"] = "none"
    use_mvre: bool = True
    use_dpar: bool = True
    use_rgc: bool = True

    def __post_init__(self) -> None:
        require_valid_fields(self, error=ModelError)

    def filled(self, shape: DataShape) -> PaperDefaults:
        """The user's values where there are some, the rule's elsewhere; stride and top_k follow what they depend on."""
        rule = paper_defaults(shape)
        values: dict[str, Any] = {field.name: self._or(rule, field.name) for field in fields(rule)}
        values["patch_length"] = min(values["patch_length"], shape.length)
        if self.patch_length is not None and self.patch_stride is None:
            values["patch_stride"] = max(1, values["patch_length"] // 2)
        values["patch_stride"] = min(values["patch_stride"], values["patch_length"])
        if self.top_k is None:
            values["top_k"] = min(values["top_k"], values["experts"])
        return PaperDefaults(**values)

    def architecture(self, shape: DataShape) -> ModelConfig:
        sizes = self.filled(shape)
        return ModelConfig(
            channels=shape.channels,
            classes=shape.classes,
            patch_length=sizes.patch_length,
            patch_stride=sizes.patch_stride,
            width=sizes.width,
            experts=sizes.experts,
            top_k=sizes.top_k,
            bands=sizes.bands,
            dropout=sizes.dropout,
            use_mvre=self.use_mvre,
            use_dpar=self.use_dpar,
            use_rgc=self.use_rgc,
        )

    def _or(self, rule: PaperDefaults, name: str) -> Any:
        value = getattr(self, name)
        return getattr(rule, name) if value is None else value
