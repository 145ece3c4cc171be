"""Errors of the agent itself."""


class SettingsError(Exception):
    """The configuration is wrong; each problem names its field. Exit code 2, and nothing is connected.

    `may_pass`: all of it may be right in a moment, as a port that another process leaves, or a file of a share that is
    not mounted yet. Exit code 75, so that a supervisor tries again.
    """

    def __init__(self, problems: list[str] | str, *, may_pass: bool = False) -> None:
        self.problems = [problems] if isinstance(problems, str) else problems
        self.may_pass = may_pass
        super().__init__("\n".join(self.problems))


class BreakerTripped(Exception):
    """Too many records raised an exception inside the agent. Exit code 1; those records are not committed."""
