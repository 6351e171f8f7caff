"""The node tests of the onnx package: what becomes of each on the reference and on this computer.

Each is one model of one operator with inputs and the outputs that the standard says it has. A test
is passed, refused in words, rounded (halves within two units), or wrong; whatever else happens
goes through to the caller.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from onnx import TensorProto
from onnx.backend.test.loader import load_model_tests
from onnx.numpy_helper import to_array

from support.native import NATIVE_HOSTS
from support.networks import merged, quickly_loaded
from tilewright.common.dtypes import HALVES
from tilewright.common.errors import InternalError, TilewrightError
from tilewright.graph.frontends.onnx import load_onnx
from tilewright.graph.frontends.onnx.operators import OPERATORS
from tilewright.graph.graph import Network
from tilewright.graph.rewriting import simplified
from tilewright.network.plans import Search
from tilewright.network.requirements import without_look_ups
from tilewright.targets.host.network.generate import generated

Arrays = dict[str, Any]
BY_THE_MODEL = Search(keep=1)
_FEW = 8
"""Numbers that a parameter has at most."""
_TOGETHER = 32
"""Networks that are compiled as one."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a test: `detail` is the refusal, or how the result is wrong."""

    name: str
    status: Literal["passed", "refused", "rounded", "has stages", "wrong", "traceback", "died"]
    detail: str = ""


@dataclass(frozen=True)
class Runnable:
    """A test whose model was read, with its inputs and expected outputs, data set by data set."""

    case: Any
    network: Network
    data: tuple[tuple[Arrays, Arrays], ...]

    def judged(self, results: Sequence[Arrays]) -> Outcome:
        """The outcome for the outputs of each data set."""
        try:
            for found, (_, expected) in zip(results, self.data, strict=True):
                for name, array in expected.items():
                    tolerance = {"rtol": self.case.rtol, "atol": self.case.atol}
                    np.testing.assert_allclose(found[name], array, **tolerance)
                    assert found[name].dtype == array.dtype
                    assert found[name].shape == array.shape
        except AssertionError as error:
            rounded = all(
                _as_halves(found[name], array)
                for found, (_, expected) in zip(results, self.data, strict=True)
                for name, array in expected.items()
            )
            return Outcome(self.case.name, "rounded" if rounded else "wrong", str(error))
        return Outcome(self.case.name, "passed")


@cache
def node_tests() -> tuple[Any, ...]:
    """All of them; their making computes with infinities and says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(load_model_tests(kind="node"))


def read(case: Any, folder: Path) -> Runnable | Outcome:
    """The network of a test, or its refusal."""
    path, graph = folder / "model.onnx", case.model.graph
    path.write_bytes(case.model.SerializeToString())
    bound = dict(bound_inputs(case))
    try:
        network = load_onnx(path, values=bound)
    except InternalError:
        raise
    except TilewrightError as error:
        few = dict(_few(case))
        if "must be a constant" not in str(error) or few.keys() <= bound.keys():
            return Outcome(case.name, "refused", str(error).removeprefix(f"{path}: "))
        try:
            network = load_onnx(path, values={**bound, **few})
        except InternalError:
            raise
        except TilewrightError as again:
            return Outcome(case.name, "refused", str(again).removeprefix(f"{path}: "))
    names = [value.name for value in graph.input], [value.name for value in graph.output]
    data = tuple(
        (dict(zip(names[0], map(_array, inputs), strict=True)),
         dict(zip(names[1], map(_array, outputs), strict=True)))
        for inputs, outputs in case.data_sets
    )  # fmt: skip
    return Runnable(case, network, data)


def _as_halves(found: Any, expected: Any) -> bool:
    """True for floats of 16 bits that differ by two units in the last place at most: tolerances of
    tests are less than what their own expectation, rounded at every node, is off.
    """
    halves = [kind.numpy for kind in HALVES]
    if found.dtype != expected.dtype or found.dtype not in halves or found.shape != expected.shape:
        return False
    a, b = (x.astype(np.float64) for x in (found, expected))
    unit = np.spacing(np.abs(expected)).astype(np.float64)
    return bool(np.all((np.abs(a - b) <= 2 * unit) | (a == b)))


def _array(data: Any) -> Any:
    return to_array(data) if isinstance(data, TensorProto) else data


def bound_inputs(case: Any) -> Iterator[tuple[str, Any]]:
    """Inputs that are parameters of the operator, with their numbers; those of all data sets are
    equal.
    """
    graph = case.model.graph
    given = dict(zip((value.name for value in graph.input), case.data_sets[0][0], strict=True))
    versions = (entry.version for entry in case.model.opset_import if not entry.domain)
    opset = next(versions, 0)
    for node in graph.node:
        operator = OPERATORS.get(node.op_type)
        version = operator.version(opset) if operator else 0
        declared = operator.inputs_of(version) if version else ()
        for name, item in zip(node.input, declared, strict=False):
            if item.kind == "constant" and name in given and given[name] is not None:
                yield name, np.asarray(_array(given[name]))


def _few(case: Any) -> Iterator[tuple[str, Any]]:
    """Inputs of a few numbers: parameters of what the standard defines by several nodes."""
    for value, array in zip(case.model.graph.input, case.data_sets[0][0], strict=True):
        numbers = np.asarray(_array(array)) if not isinstance(array, list | type(None)) else None
        if numbers is not None and numbers.size <= _FEW and numbers.dtype.kind in "iubf":
            yield value.name, numbers


def on_reference(runnable: Runnable) -> Outcome:
    """By the operators' references."""
    return runnable.judged([runnable.network.evaluate(inputs) for inputs, _ in runnable.data])


def on_host(
    runnables: Sequence[Runnable], done: Callable[[int], None] = lambda _: None
) -> Iterator[Outcome]:
    """By generated code, many networks compiled together."""
    for dtype in sorted({_kind(r) for r in runnables}):
        own = [r for r in runnables if _kind(r) == dtype]
        for start in range(0, len(own), _TOGETHER):
            part = own[start : start + _TOGETHER]
            yield from _together(part)
            done(len(part))


def _kind(runnable: Runnable) -> str:
    """The element type of the first input, or of what is known without one."""
    network = runnable.network
    return (*network.inputs, *network.weights)[0].dtype


def _together(part: Sequence[Runnable]) -> Iterator[Outcome]:
    """Half of them at a time where one is refused."""
    try:
        results = host_results([r.network for r in part], [[i for i, _ in r.data] for r in part])
    except InternalError:
        raise
    except TilewrightError as error:
        if len(part) == 1:
            yield Outcome(part[0].case.name, "refused", str(error))
            return
        middle = len(part) // 2
        yield from _together(part[:middle])
        yield from _together(part[middle:])
        return
    for runnable, found in zip(part, results, strict=True):
        yield runnable.judged(found)


def host_results(
    networks: Sequence[Network],
    inputs: Sequence[Sequence[Arrays]],
    search: Search = BY_THE_MODEL,
) -> list[list[Arrays]]:
    """The outputs of each network for each of its data sets."""
    whole = without_look_ups(simplified(merged(networks)), reads=False)
    loaded = quickly_loaded(generated(whole, NATIVE_HOSTS[0], search))
    bound = loaded.bind(loaded.constants(whole.values))
    results: list[list[Arrays]] = [[] for _ in networks]
    for turn in range(max(map(len, inputs))):
        given = [sets[min(turn, len(sets) - 1)] for sets in inputs]
        bound.give({f"{i}/{n}": a for i, sets in enumerate(given) for n, a in sets.items()})
        bound.repeat(1)
        outputs = bound.outputs()
        for number, network in enumerate(networks):
            if turn < len(inputs[number]):
                found = {name: outputs[f"{number}/{name}"].copy() for name in network.outputs}
                results[number].append(found)
    return results
