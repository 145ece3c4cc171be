import subprocess
import sys

from agent.runtime.memory import unwritten_pages

_SMAPS = """\
7f0000000000-7f0000004000 r--p 00000000 fe:00 11   /site packages/libllvmlite.so
Rss:                  16 kB
Anonymous:             0 kB
VmFlags: rd mr mw me
7f0000004000-7f000000a000 r-xp 00004000 fe:00 11   /site packages/libllvmlite.so
Anonymous:             0 kB
7f000000a000-7f000000b000 r--p 0000a000 fe:00 11   /site packages/libllvmlite.so
Anonymous:             4 kB
7f000000b000-7f000000c000 rw-p 0000b000 fe:00 11   /site packages/libllvmlite.so
Anonymous:             0 kB
7f000000c000-7f000000d000 r-xp 00000000 fe:00 12   /lib/libc.so.6
Anonymous:             0 kB
7f000000d000-7f000000e000 rw-p 00000000 00:00 0
Anonymous:             0 kB
"""


def test_only_pages_of_the_library_that_are_as_in_its_file_are_released() -> None:
    assert list(unwritten_pages(_SMAPS.splitlines(), "libllvmlite")) == [
        (0x7F0000000000, 0x4000),
        (0x7F0000004000, 0x6000),
    ]


def test_compiled_code_works_and_new_code_is_compiled_after_the_release() -> None:
    """In a process of its own: it must survive having its compiler's pages taken away."""
    code = (
        "import numba; from agent.runtime.memory import limit_heap, release_compiler\n"
        "limit_heap(); double = numba.njit(lambda x: 2 * x); assert double(2) == 4\n"
        "release_compiler(); assert double(3) == 6; assert double(1.5) == 3.0"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
