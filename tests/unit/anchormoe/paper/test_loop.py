import math
from pathlib import Path

import pytest
import torch
from torch import nn

from anchormoe.errors import ModelError
from anchormoe.paper.loop import (
    MAX_GRADIENT_NORM,
    Examples,
    LoopConfig,
    TrainingHistory,
    Validate,
    Validation,
    clip_gradients,
    learning_rate_factor,
    train_network,
)
from anchormoe.progress import Progress
from anchormoe.training.checkpoints import DirectoryCheckpoints, StageCheckpoint
from anchormoe.training.optimizer_state import TrainingState


class Line(nn.Module):
    """Guesses the mean of x as a class score."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.slope * x.mean(dim=(1, 2))


def squared_error(model: nn.Module, batch: Examples, share: float) -> torch.Tensor:
    error: torch.Tensor = model(batch.x) - batch.y
    return error.square()


def some_examples(count: int = 8) -> Examples:
    x = torch.linspace(-1, 1, count).view(count, 1, 1)
    return Examples(x, torch.ones_like(x, dtype=torch.bool), 2 * x.flatten(), torch.ones(count))


def loop_config(**changes: object) -> LoopConfig:
    return LoopConfig(**{"epochs": 40, "batch_size": 4, "learning_rate": 0.2, "weight_decay": 0.0, "seed": 0} | changes)  # type: ignore[arg-type]


def scripted(*losses: float) -> tuple[Validate, list[float]]:
    """A validation that says these losses, epoch by epoch, and remembers the slopes."""
    said = iter(losses)
    slopes: list[float] = []

    def validate(model: nn.Module) -> Validation:
        assert isinstance(model, Line)
        slopes.append(model.slope.item())
        return Validation(next(said), {}, torch.zeros(1, 1))

    return validate, slopes


def fitted(**changes: object) -> tuple[Line, TrainingHistory]:
    model = Line()
    return model, train_network(model, some_examples(), loop_config(**changes), loss=squared_error)


def test_training_finds_the_slope() -> None:
    model, history = fitted()
    assert math.isclose(model.slope.item(), 2, abs_tol=0.05)
    assert history.epochs == history.best_epoch == 40
    assert history.curves[-1]["loss"] < history.curves[0]["loss"]


def test_weights_decide_what_is_learned() -> None:
    examples = some_examples()
    opposed = Examples(
        torch.cat((examples.x, examples.x)),
        torch.cat((examples.mask, examples.mask)),
        torch.cat((examples.y, -examples.y)),
        torch.cat((torch.ones(8), torch.zeros(8))),
    )
    model = Line()
    train_network(model, opposed, loop_config(epochs=80), loss=squared_error)
    assert model.slope.item() > 1.5


def test_only_the_chosen_examples_are_learned() -> None:
    examples = some_examples()
    spoiled = Examples(examples.x, examples.mask, examples.y.clone(), examples.weight)
    spoiled.y[:4] = math.nan
    model = Line()
    train_network(model, spoiled, loop_config(), loss=squared_error, chosen=torch.arange(4, 8))
    assert math.isclose(model.slope.item(), 2, abs_tol=0.5)  # not NaN


def test_early_stopping_ends_after_patience_epochs_and_keeps_the_best() -> None:
    validate, slopes = scripted(3, 1, 2, 2, 2, 0)
    model = Line()
    history = train_network(model, some_examples(), loop_config(patience=3), loss=squared_error, validate=validate)
    assert (history.epochs, history.best_epoch) == (5, 2)
    assert model.slope.item() == slopes[1]
    assert len(history.validation) == 5


def test_stopping_earlier_follows_the_same_path() -> None:
    validate, slopes = scripted(*[1.0] * 40)
    train_network(Line(), some_examples(), loop_config(), loss=squared_error, validate=validate)
    assert fitted(stop_after=7)[0].slope.item() == slopes[6]


def test_an_interrupt_from_the_progress_callback_keeps_the_best_epoch() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.done == 3:
            raise KeyboardInterrupt

    validate, slopes = scripted(2, 1, 3)
    model = Line()
    history = train_network(
        model, some_examples(), loop_config(), loss=squared_error, validate=validate, progress=interrupt
    )
    assert history.interrupted
    assert (history.epochs, history.best_epoch) == (3, 2)
    assert model.slope.item() == slopes[1]


def test_a_validation_loss_that_is_not_a_number_is_never_the_best() -> None:
    validate, slopes = scripted(2, math.nan, math.nan)
    model = Line()
    history = train_network(model, some_examples(), loop_config(epochs=3), loss=squared_error, validate=validate)
    assert history.best_epoch == 1
    assert model.slope.item() == slopes[0]


def test_training_leaves_the_callers_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    fitted(epochs=1)
    assert torch.equal(torch.rand(1), expected)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def die(progress: Progress) -> None:
        if progress.done == 4:
            raise Killed

    with pytest.raises(Killed):
        train_network(
            Line(),
            some_examples(),
            loop_config(),
            loss=squared_error,
            progress=die,
            checkpoints=DirectoryCheckpoints(tmp_path),
        )
    model = Line()
    history = train_network(
        model, some_examples(), loop_config(), loss=squared_error, checkpoints=DirectoryCheckpoints(tmp_path)
    )
    whole, straight = fitted()
    assert torch.equal(model.slope, whole.slope)
    assert history.curves == straight.curves


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoints = DirectoryCheckpoints(tmp_path)
    assert checkpoints.load("fold 1") is None
    checkpoints.save("fold 1", TrainingState(epoch=2, model={"a": torch.ones(2)}).to_checkpoint())
    saved = checkpoints.load("fold 1")
    assert saved is not None
    assert TrainingState.from_checkpoint(saved).model["a"].tolist() == [1, 1]
    (tmp_path / "fold 1.safetensors").write_bytes(b"no")
    with pytest.raises(ModelError, match="cannot be read"):
        checkpoints.load("fold 1")


def test_a_checkpoint_of_another_kind_is_refused() -> None:
    with pytest.raises(ModelError, match="not one of a training loop"):
        TrainingState.from_checkpoint(StageCheckpoint({"model/a": torch.ones(2)}, {"done": True}))


def test_mixed_precision_trains_to_a_finite_result() -> None:
    model, _ = fitted(mixed_precision=True)
    assert math.isclose(model.slope.item(), 2, abs_tol=0.2)


@pytest.mark.parametrize(("share", "factor"), [(0.05, 0.5), (0.1, 1.0), (0.55, 0.505), (1.0, 0.01)])
def test_the_learning_rate_warms_up_and_then_falls_along_a_cosine(share: float, factor: float) -> None:
    assert math.isclose(learning_rate_factor(share), factor, abs_tol=1e-9)


@pytest.mark.parametrize("size", [1e-3, 10.0])
def test_gradients_are_clipped_bitwise_as_torch_does(size: float) -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(7, 5), nn.Linear(7, 5)
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        own.grad = size * torch.randn_like(own)
        other.grad = own.grad.clone()
    clip_gradients(ours)
    nn.utils.clip_grad_norm_(theirs.parameters(), MAX_GRADIENT_NORM)
    for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert own.grad is not None
        assert other.grad is not None
        assert torch.equal(own.grad, other.grad)
