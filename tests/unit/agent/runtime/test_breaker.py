"""When faults of the agent itself stop it: worked out by hand."""

from agent.runtime.breaker import Breaker, BreakerLimits


def breaker(*, records: int = 20, share: float = 0.5) -> Breaker:
    return Breaker(BreakerLimits(records, share))


def test_a_single_failure_neither_trips_nor_holds_anything_back() -> None:
    found = breaker()
    found.passed(1)
    found.failed()
    assert (found.tripped, found.suspicious) == (False, False)


def test_a_run_of_failures_trips_before_as_many_records_were_seen() -> None:
    found = breaker()
    for _ in range(9):
        found.failed()
    assert (found.tripped, found.suspicious) == (False, True)
    found.failed()
    assert found.tripped


def test_failures_between_records_that_pass_trip_by_their_share() -> None:
    found = breaker()
    for _ in range(9):
        found.failed()
        found.passed(1)
    assert not found.tripped
    assert not found.suspicious
    found.failed()
    assert found.tripped


def test_failures_that_are_rare_never_trip() -> None:
    found = breaker()
    for _ in range(1000):
        found.failed()
        found.passed(2)
    assert not found.tripped


def test_many_records_that_pass_at_once_clear_it() -> None:
    found = breaker()
    for _ in range(9):
        found.failed()
    found.passed(5000)
    assert (found.failures, found.suspicious) == (0, False)
