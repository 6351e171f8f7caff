"""Work on all cores: forked copies of this process take calls, and leave results in the cache.

In: calls whose results the cache keeps. Out: nothing; who asks again finds them there. A copy
starts with all that is loaded and planned so far, which a new process would take seconds for. Only
for a process whose other threads hold no locks.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from struct import Struct

from tilewright.common.progress import Steps, uncounted

_NUMBER = Struct("i")


Call = Callable[[], object]


def call_beside(calls: Sequence[Call], steps: Steps = uncounted) -> None:
    """Make all calls, each in one of as many processes as there are cores, this one among them.
    Nothing is done on one core. What a call raises is left to whoever makes it again. `steps`
    counts the calls begun.
    """
    processes = min(len(os.sched_getaffinity(0)), len(calls))
    if processes < 2:
        return
    numbers, given = os.pipe()  # whoever is free reads the next one
    os.write(given, b"".join(map(_NUMBER.pack, range(len(calls)))))
    os.close(given)
    copies: list[int] = []
    try:
        while len(copies) < processes - 1:
            if copy := os.fork():
                copies.append(copy)
            else:
                _end_after(calls, numbers)
        for number in _begun(calls, numbers):
            steps(number, len(calls))
    except BaseException:
        for copy in copies:
            os.kill(copy, signal.SIGKILL)
        raise
    finally:
        os.close(numbers)
        for copy in copies:
            os.waitpid(copy, 0)


def _begun(calls: Sequence[Call], numbers: int) -> Iterator[int]:
    """The numbers of the calls that this process gets, each before it is made."""
    while found := os.read(numbers, _NUMBER.size):
        (number,) = _NUMBER.unpack(found)
        yield number
        with suppress(Exception):
            calls[number]()


def _end_after(calls: Sequence[Call], numbers: int) -> None:
    """Make calls and end, with nothing torn down that belongs to the process copied."""
    with suppress(BaseException):
        list(_begun(calls, numbers))
    os._exit(0)
