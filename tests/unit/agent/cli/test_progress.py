"""The one progress display, and its Ctrl-C."""

import os
import signal

import pytest

from agent.cli.progress import count_progress, interrupt_at_report, print_lines, show_progress
from anchormoe.progress import DeferredInterrupt, Progress, silent


def test_a_stage_that_ends_is_a_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress("training", lines=True) as progress:
        progress(Progress("experts", 1, 2, {"loss": 1.0}))
        progress(Progress("experts", 2, 2, {"validation_loss": 0.5}))
    assert capsys.readouterr().err == "experts: done validation loss 0.500\n"


def test_a_long_stage_reports_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 4.0, 11.0, 11.0, 15.0])
    report = print_lines(lambda: next(times))
    for done in (1, 2, 3):
        report(Progress("benchmark", done, 1500, {"accuracy": 1.0}, detail="NATOPS minirocket"))
    assert capsys.readouterr().err == "benchmark: 2 of 1,500 NATOPS minirocket  accuracy 1.000\n"


def test_without_a_terminal_a_count_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with count_progress("replay") as report:
        report(5, 10)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_a_stage_before_its_first_report_and_every_other_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with show_progress("training"):
        pass
    assert "training" in capsys.readouterr().err
    with show_progress("training") as progress:
        progress(Progress("experts", 3, 1500, {"loss": 0.25}))
    shown = capsys.readouterr().err
    assert "training" in shown
    assert "experts" in shown
    assert "3/1,500" in shown
    assert "loss 0.250" in shown


@pytest.mark.parametrize(("total", "count"), [(10, "5/10"), (0, "5")])
def test_a_count_moves_the_bar_of_its_stage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], total: int, count: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with count_progress("simulate") as report:
        report(5, total)
    assert f" {count} " in capsys.readouterr().err


def test_quiet_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with show_progress("training", lines=True, quiet=True) as progress:
        progress(Progress("experts", 2, 2))
    assert capsys.readouterr().err == ""


def test_ctrl_c_arrives_at_the_next_report_where_a_fit_can_keep_its_best() -> None:
    with interrupt_at_report(silent) as progress:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            progress(Progress("experts", 1, 2))
        progress(Progress("experts", 2, 2))


def test_a_second_ctrl_c_does_not_wait() -> None:
    with interrupt_at_report(silent):
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_old_handler_is_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupt_at_report(silent):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_of_what_must_not_be_lost_waits() -> None:
    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    deferred = DeferredInterrupt(stop)
    assert not deferred.asked
    deferred(Progress("TEST", 1, 2))
    assert deferred.asked
