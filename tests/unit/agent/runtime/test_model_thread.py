"""The model thread: calls in order, errors to the caller, and a close that does not hang."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from functools import partial

import pytest

from agent.runtime.model_thread import ModelThread


async def test_calls_run_one_after_the_other_in_their_order() -> None:
    thread = ModelThread()
    seen: list[int] = []
    calls = [thread.submit(partial(seen.append, number)) for number in range(20)]
    await asyncio.gather(*map(asyncio.wrap_future, calls))
    await thread.close()
    assert seen == list(range(20))


async def test_an_error_reaches_the_caller_and_the_thread_goes_on() -> None:
    thread = ModelThread()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wrap_future(thread.submit(lambda: 1 // 0))
    assert await asyncio.wrap_future(thread.submit(lambda: 7)) == 7
    await thread.close()


async def test_what_waits_behind_a_call_is_cancelled_by_close() -> None:
    thread, under_way, go_on = ModelThread(), threading.Event(), threading.Event()

    def wait_to_go_on() -> bool:
        under_way.set()
        return go_on.wait()

    first, second = thread.submit(wait_to_go_on), thread.submit(lambda: 1)
    under_way.wait()
    closing = asyncio.create_task(thread.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    assert first.result()
    with pytest.raises(CancelledError):
        second.result(timeout=1)


def test_a_process_exits_although_a_call_never_returns() -> None:
    program = "\n".join(
        [
            "import threading",
            "from agent.runtime.model_thread import ModelThread",
            "ModelThread().submit(threading.Event().wait)",
            "print('the end')",
        ]
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=180)
    assert (done.returncode, done.stdout) == (0, "the end\n")
