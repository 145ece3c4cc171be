"""The progress display and its Ctrl-C."""

import os
import signal

import pytest

from agent.cli.progress import plain_lines, shown_progress
from anchormoe.progress import DeferredInterrupt, Progress


def test_a_stage_that_ends_is_a_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress() as progress:
        progress(Progress("experts", 1, 2, {"loss": 1.0}))
        progress(Progress("experts", 2, 2, {"validation_loss": 0.5}))
    assert capsys.readouterr().err == "experts: done validation loss 0.500\n"


def test_a_long_stage_says_now_and_then_where_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 4.0, 11.0, 11.0, 15.0])
    tell = plain_lines(lambda: next(times))
    for done in (1, 2, 3):
        tell(Progress("experts", done, 1500, {"loss": 1.0}))
    assert capsys.readouterr().err == "experts: 2 of 1,500 loss 1.000\n"


def test_a_terminal_shows_that_something_goes_on_before_the_first_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with shown_progress():
        pass
    assert "training" in capsys.readouterr().err


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress(quiet=True) as progress:
        progress(Progress("experts", 2, 2))
    assert capsys.readouterr().err == ""


def test_ctrl_c_arrives_at_the_next_report_where_a_fit_can_keep_its_best() -> None:
    with shown_progress(quiet=True) as progress:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            progress(Progress("experts", 1, 2))
        progress(Progress("experts", 2, 2))


def test_a_second_ctrl_c_does_not_wait() -> None:
    with shown_progress(quiet=True):
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_old_handler_is_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with shown_progress(quiet=True):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_of_what_must_not_be_lost_waits() -> None:
    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    later = DeferredInterrupt(stop)
    assert not later.asked
    later(Progress("TEST", 1, 2))
    assert later.asked
