"""Ctrl-C and SIGTERM end a long command in the same way: what it has started is stopped, what it has is written."""

import signal


def interrupt_on_sigterm() -> None:
    """Both raise KeyboardInterrupt, also in a background process, whose shell has it ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
