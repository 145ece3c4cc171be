"""`anchormoe-agent` and `python -m agent`: the command line, or what to install where only events can be read."""

import sys

_OURS = ("agent", "anchormoe", "connectors")


def main() -> None:
    try:
        from agent.cli.main import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in _OURS:
            raise
        sys.exit(
            f"error: {error.name} is not installed; this installation can only read events (agent.client)\n"
            "install anchormoe-agent[serve] to run the agent, [train] to train models, [alarms] for the alarm worker"
        )
    run()


if __name__ == "__main__":
    main()
