"""Errors of the agent itself."""


class SettingsError(Exception):
    """The configuration is wrong; each problem names its field. Exit code 2, and nothing is connected."""

    def __init__(self, problems: list[str] | str) -> None:
        self.problems = [problems] if isinstance(problems, str) else problems
        super().__init__("\n".join(self.problems))


class BreakerTripped(Exception):
    """Too many records raised an exception inside the agent. Exit code 1; those records are not committed."""
