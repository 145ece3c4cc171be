"""A bundle that wants to speak in a group: found, loaded, checked against what the group's windows are, or refused."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import SettingsError
from agent.events.payloads import ModelName
from agent.models.activations import Activation
from agent.models.bundle_directory import bundle_path
from agent.models.classifier import WindowClassifier
from agent.models.schedule import ActiveModel
from agent.settings import Group, ResolvedGroup, reconcile
from anchormoe.errors import ModelError
from anchormoe.windows import FillRule

if TYPE_CHECKING:
    from anchormoe import Predictor
    from anchormoe.bundle.config import BundleConfig

LoadModel = Callable[[Path], "Predictor"]


@dataclass(frozen=True, slots=True)
class CompatibleBundles:
    """What one group takes. `running` is the group as its windows are kept: no other shape can be judged."""

    directory: Path
    stated: Group
    running: ResolvedGroup
    load: LoadModel

    def speaker(self, activation: Activation) -> ActiveModel:
        """Raises ModelError with the reason of a refusal. Takes seconds: call it in a thread."""
        place = self.running.bundle if activation.bundle is None else bundle_path(self.directory, activation.bundle)
        predictor = self.load(place)
        if predictor.config.digest != activation.digest:
            wrong = f"its digest is {predictor.config.digest[:12]}, the activation says {activation.digest[:12]}"
            raise ModelError(f"{activation.bundle or place.name}: {wrong}")
        return active_model(resolve_for_bundle(self.stated, self.running, predictor.config), predictor)


def resolve_for_bundle(stated: Group, running: ResolvedGroup, config: "BundleConfig") -> ResolvedGroup:
    """The group with the bundle's rules: holes are kept as holes, so each bundle fills them as in its training data.

    Raises ModelError: channels, units, period and window must be those of the windows that are kept.
    """
    try:
        resolved = reconcile(stated, config)
    except SettingsError as error:
        raise ModelError("; ".join(error.problems)) from error
    resolved = replace(resolved, bundle=running.bundle)
    kept, wanted = _unfilled(running), _unfilled(resolved)
    different = [field.name for field in fields(kept) if getattr(kept, field.name) != getattr(wanted, field.name)]
    if different:
        raise ModelError(f"group {running.name}: other {' and '.join(different)} than the windows that are kept")
    return resolved


def _unfilled(group: ResolvedGroup) -> ResolvedGroup:
    return replace(group, channels=tuple(replace(channel, fill=FillRule()) for channel in group.channels))


def active_model(group: ResolvedGroup, predictor: "Predictor") -> ActiveModel:
    config = predictor.config
    judge = WindowClassifier(
        predictor, tuple(config.classes), group.channel_names, group.fill_rules, group.min_coverage
    )
    return ActiveModel(judge, ModelName(config.name, config.version, config.digest))
