"""Timing on a shared computer: contenders take turns, and disturbed samples are discarded.

In: contenders, functions that repeat one piece of work. Out: for each, its seconds per call, sample
by sample. In each round every contender runs once, in random order, for some milliseconds. A sample
counts only if the process had its processors for nearly all of the time. Clocks drift by several
per cent within a minute, so only numbers of one interleaved run compare, round by round.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tilewright.common.errors import BusyError

_LARGEST_REPEATS = 1 << 30
_GROWTH = 8
_TICK_SECONDS = 1e-9
_MOST_WAITING = 16
_LEAST_SHARE_OF_ROUNDS = 3


@dataclass(frozen=True)
class Protocol:
    """Rules for taking samples.

    `rounds` good samples of each contender are wanted; at most `patience` times as many rounds are
    run. A sample is good if its processor time is at least `share` of the wall time of all its
    threads. Each sample follows an idle pause of `pause_seconds`, in which the workers of other
    contenders stop spinning.
    """

    rounds: int = 15
    sample_seconds: float = 4e-3
    share: float = 0.97
    patience: int = 20
    pause_seconds: float = 0.0
    seed: int = 0

    def hurried(self, rounds: int, sample_seconds: float | None = None) -> Protocol:
        """A copy with these `rounds`, and with `sample_seconds` if given."""
        return replace(self, rounds=rounds, sample_seconds=sample_seconds or self.sample_seconds)


DEFAULT_PROTOCOL = Protocol()

TOGETHER = Protocol(rounds=15, sample_seconds=6e-2, share=0.90, pause_seconds=0.02)
"""For contenders that share the processors' threads between turns (several threads). Waking the
sleeping threads takes up to a millisecond, which long samples hide."""


def protocol_for(threads: int) -> Protocol:
    """The protocol for contenders on `threads` threads."""
    return DEFAULT_PROTOCOL if threads == 1 else TOGETHER


@dataclass(frozen=True)
class Sample:
    """One stretch of running one contender."""

    wall_seconds: float
    cpu_seconds: float
    calls: int

    def is_undisturbed(self, share: float, threads: int) -> bool:
        """True if the threads had their processors for at least `share` of the wall time."""
        return self.cpu_seconds >= share * threads * self.wall_seconds


@dataclass(frozen=True)
class Contender:
    """A piece of work to time: `run(n)` does it n times, on `threads` threads.

    >>> contender = Contender("sum", lambda n: sum(range(n)))
    """

    name: str
    run: Callable[[int], object]
    threads: int = 1

    def sample(self, calls: int) -> Sample:
        """Run `calls` times and take wall and processor time. The latter is that of all threads;
        with one thread, of the calling thread alone, as other contenders' idle workers may spin.
        """
        clock = time.thread_time if self.threads == 1 else time.process_time
        cpu, wall = clock(), time.perf_counter()
        self.run(calls)
        wall, cpu = time.perf_counter() - wall, clock() - cpu
        return Sample(wall, cpu, calls)


@dataclass(frozen=True)
class Timing:
    """One contender's samples that count: seconds per call by round.

    By the `clock` "wall" these are the undisturbed samples in wall time; by "processor", where too
    few were undisturbed, all samples in processor time. `disturbed` counts the disturbed samples.
    """

    by_round: Mapping[int, float] = field(default_factory=dict)
    disturbed: int = 0
    clock: Literal["wall", "processor"] = "wall"

    @property
    def seconds(self) -> float:
        """The median; nan without samples."""
        return statistics.median(self.by_round.values()) if self.by_round else float("nan")

    @property
    def best_seconds(self) -> float:
        """The least, for work that waits or shares memory: processor time does not tell its
        disturbed samples from others. nan without samples.
        """
        return min(self.by_round.values(), default=float("nan"))

    @property
    def spread(self) -> float:
        """Half the interquartile range, as a fraction of the median."""
        return quartile_spread(list(self.by_round.values()))


@dataclass(frozen=True)
class Ratio:
    """Comparison of two contenders over the rounds in which both have a sample that counts."""

    median: float
    spread: float
    rounds: int


def ratio_of_speeds(contender: Timing, other: Timing) -> Ratio:
    """Speed of `contender` over that of `other`, round by round: above 1, `contender` is faster."""
    both = sorted(contender.by_round.keys() & other.by_round.keys())
    ratios = [other.by_round[i] / contender.by_round[i] for i in both]
    median = statistics.median(ratios) if ratios else float("nan")
    return Ratio(median, quartile_spread(ratios), len(ratios))


def quartile_spread(values: Sequence[float]) -> float:
    """Half the interquartile range as a fraction of the median; nan below two values.

    >>> quartile_spread([1.0, 2.0, 3.0, 4.0, 5.0])
    0.5
    """
    if len(values) < 2:
        return float("nan")
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / 2 / middle


def calls_for(contender: Contender, seconds: float) -> int:
    """Calls that fill a sample of `seconds`, found by runs of growing length, which also warm up:
    the first is discarded, and only a run of at least half a sample settles the number.

    Processor time counts, since wall time passes while others run. For work that mostly waits, wall
    time bounds it from below (`_MOST_WAITING`).
    """
    contender.sample(1)
    calls = 1
    while True:
        taken = contender.sample(calls)
        used, waited = taken.cpu_seconds / contender.threads, taken.wall_seconds
        wanted = max(1, round(calls * seconds / max(used, waited / _MOST_WAITING, _TICK_SECONDS)))
        if wanted <= 2 * calls or calls >= _LARGEST_REPEATS:
            return wanted
        calls = min(wanted, _GROWTH * calls)


def interleaved(
    contenders: Sequence[Contender], protocol: Protocol = DEFAULT_PROTOCOL
) -> dict[str, Timing]:
    """Time all contenders in one interleaved run.

    If the computer is so busy that some contender has no undisturbed sample after twice the wanted
    rounds, or fewer than a third of the wanted ones in the end, processor time replaces wall time
    in all samples of all contenders (`Timing.clock`): other processes still disturb the caches, but
    alike for each contender. Then a contender with several threads raises BusyError: processor time
    misses its threads' waiting for each other.
    """
    chance = random.Random(protocol.seed)
    calls = {c.name: calls_for(c, protocol.sample_seconds) for c in contenders}
    taken: dict[str, list[Sample]] = {c.name: [] for c in contenders}
    good = dict.fromkeys(taken, 0)
    for number in range(protocol.rounds * protocol.patience):
        least = min(good.values())
        if least >= protocol.rounds or (not least and number >= 2 * protocol.rounds):
            break
        for contender in chance.sample(list(contenders), len(contenders)):
            time.sleep(protocol.pause_seconds)
            sample = contender.sample(calls[contender.name])
            taken[contender.name].append(sample)
            good[contender.name] += sample.is_undisturbed(protocol.share, contender.threads)
    if min(good.values()) < max(1, protocol.rounds // _LEAST_SHARE_OF_ROUNDS):
        _check_single(contenders, good)
        return {name: _by_processor_time(samples) for name, samples in taken.items()}
    return {c.name: _undisturbed(taken[c.name], protocol.share, c.threads) for c in contenders}


def _undisturbed(samples: Sequence[Sample], share: float, threads: int) -> Timing:
    kept = {
        i: sample.wall_seconds / sample.calls
        for i, sample in enumerate(samples)
        if sample.is_undisturbed(share, threads)
    }
    return Timing(kept, len(samples) - len(kept))


def _by_processor_time(samples: Sequence[Sample]) -> Timing:
    times = {i: sample.cpu_seconds / sample.calls for i, sample in enumerate(samples)}
    return Timing(times, len(samples), "processor")


def _check_single(contenders: Sequence[Contender], good: Mapping[str, int]) -> None:
    """Raise BusyError if a contender has several threads: their processor time omits waits."""
    for contender in contenders:
        if contender.threads > 1:
            load = f"the load is {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
            raise BusyError(
                f"{good[contender.name]} undisturbed samples of {contender.name!r} on "
                f"{contender.threads} threads: {load}",
                fix="measure while the computer is less busy",
            )
