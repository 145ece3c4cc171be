"""What can go wrong in the runtime itself."""


class SettingsError(Exception):
    """The configuration is wrong: each problem names its field; exit 2, connect to nothing."""

    def __init__(self, problems: list[str] | str) -> None:
        self.problems = [problems] if isinstance(problems, str) else problems
        super().__init__("\n".join(self.problems))
