"""The process that generates the code of a network for another one (`native.generated_apart`).

In: one request on standard input. Out: pickles on standard output: progress as (stage, done,
total), finally the code or an error. The end of standard input, when the other process closes it or
is gone, means that the answer is no longer wanted.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import sys
import threading
import traceback
from _thread import interrupt_main
from importlib import import_module
from typing import Any, BinaryIO

from tilewright.common.errors import TilewrightError

_ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000
"""A search creates little cyclic garbage; Python's default of 700 costs it a tenth of its time."""


def main() -> None:
    """Serve one request, and exit without teardown, as the system reclaims everything anyway."""
    # Anything printed meanwhile goes to standard error: standard output carries the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # The other process warns of the same machine and the same cache itself.
    logging.getLogger("tilewright").addHandler(logging.NullHandler())
    status = 1
    try:
        _interrupted_once()
        request = pickle.load(sys.stdin.buffer)
        threading.Thread(target=_until_unwanted, args=(sys.stdin.buffer,), daemon=True).start()
        _serve(request, answers)
        status = 0
    except (KeyboardInterrupt, EOFError, pickle.UnpicklingError, BrokenPipeError):
        pass
    os._exit(status)


def _serve(request: Any, answers: BinaryIO) -> None:
    def send(answer: object) -> None:
        answers.write(pickle.dumps(answer))
        answers.flush()

    try:
        gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
        generate = import_module("tilewright.targets.host.network.generate")
        answer = generate.generated(*request, lambda *told: send(told), beside=True)
    except BrokenPipeError:
        raise
    except Exception as error:
        answer = _portable(error)
    send(answer)


def _portable(error: Exception) -> Exception:
    """The error itself, or an equivalent one if it cannot be pickled."""
    if not isinstance(error, TilewrightError):
        error.add_note(traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))
    # Unpickling runs the error's own constructor, which may raise anything.
    except Exception:
        return RuntimeError(traceback.format_exc())
    return error


def _until_unwanted(requests: BinaryIO) -> None:
    while requests.read(4096):
        pass
    interrupt_main()


def _interrupted_once() -> None:
    """Let the first interrupt end the work; a second one, as from keyboard and pipe at once, must
    not stop tidying up.
    """

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


if __name__ == "__main__":
    main()
