"""The process that generates the code of a network for another one (`apart`).

In: one request on standard input. Out: pickles on standard output: progress as (stage, done,
total), at last the code or an error. Standard input is read to its end: once it is closed, or the
other process is gone, nobody wants the answer.
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
"""A search makes little garbage that refers to itself; Python's 700 cost it a tenth of its time."""


def main() -> None:
    """Serve one request, and end without tearing down what the system takes back anyway."""
    # Whatever is printed on the way goes to standard error.
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
    # An error's own constructor runs as it is read again, and may raise anything.
    except Exception:
        return RuntimeError(traceback.format_exc())
    return error


def _until_unwanted(requests: BinaryIO) -> None:
    while requests.read(4096):
        pass
    interrupt_main()


def _interrupted_once() -> None:
    """One interruption ends the work; a second, by keyboard and pipe, must not stop tidying up."""

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


if __name__ == "__main__":
    main()
