"""oneDNN 3 through its C interface: SGEMM, and convolutions with prepacked weights.

The wheel `onednn-cpu-gomp` contains only the library, which is installed in the environment's `lib`
folder. Convolutions run in the layout that the library prefers ("any") and in channels-last;
weights are reordered beforehand, images and results stay in the library's layout, and only the
convolution is timed. Constants are those of version 3 of the interface.
"""

from __future__ import annotations

import ctypes
import sysconfig
from collections.abc import Sequence
from ctypes import byref, c_char, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from host.contest import Array, Missing, Prepared, Workload
from tilewright.common.dtypes import F32
from tilewright.ops import Conv2d, Gemm
from tilewright.targets.host.native import address, page_aligned

_CPU, _F32, _ANY = 1, 3, 1
_IN_ORDER = 1
_INFERENCE, _DIRECT = 96, 1
_SOURCE, _WEIGHTS, _RESULT = 1, 33, 17
_QUERY_NAME, _QUERY_SOURCE, _QUERY_WEIGHTS, _QUERY_RESULT = 8, 129, 131, 133
_ALLOCATE = c_void_p(-1)
_FIX = "pip install onednn-cpu-gomp==2023.2.0"
_NAME = "libdnnl.so.3"


class OneDnnError(RuntimeError):
    """A failed call of the library."""


class _Argument(ctypes.Structure):
    _fields_ = (("kind", c_int), ("memory", c_void_p))


class _Version(ctypes.Structure):
    _fields_ = (("major", c_int), ("minor", c_int), ("patch", c_int))


def find_onednn() -> OneDnn | Missing:
    """The library, or a `Missing` if it is not installed in version 3."""
    try:
        library = _load()
    except OSError as error:
        return Missing("oneDNN", str(error), _FIX)
    version = library.dnnl_version().contents
    if version.major != 3:
        return Missing("oneDNN", f"version {version.major} is not the interface of 3", _FIX)
    return OneDnn(library, f"{version.major}.{version.minor}.{version.patch}")


@cache
def _load() -> ctypes.CDLL:
    installed = Path(sysconfig.get_path("data")) / "lib" / _NAME
    library = ctypes.CDLL(str(installed) if installed.is_file() else _NAME)
    library.dnnl_version.restype = ctypes.POINTER(_Version)
    library.dnnl_primitive_desc_query_md.restype = c_void_p
    library.dnnl_memory_desc_get_size.restype = c_size_t
    return library


def _check(status: int, what: str) -> None:
    if status:
        raise OneDnnError(f"{what} failed with status {status}")


@dataclass(frozen=True)
class OneDnn:
    """The library, with one engine and one stream per process."""

    library: ctypes.CDLL
    version: str
    name: str = "oneDNN"

    def prepare(self, workload: Workload) -> list[Prepared]:
        """SGEMM; or the direct convolution in the library's own layout and in channels-last."""
        if isinstance(workload.op, Gemm):
            return [self._product(workload, workload.op)]
        found = [_Convolution(self.library, workload.op, last) for last in (False, True)]
        return [one.prepared(workload) for one in found]

    def _product(self, workload: Workload, op: Gemm) -> Prepared:
        a, b = (_own(x) for x in workload.inputs)
        c = page_aligned(op.m * op.n, F32)
        no = c_char(b"N")
        extents = [c_int64(x) for x in (op.m, op.n, op.k)]
        one, zero = c_float(1), c_float(0)
        lda, ldb, ldc = c_int64(op.k), c_int64(op.n), c_int64(op.n)
        operands = (one, address(a), lda, address(b), ldb, zero, address(c), ldc)
        function = self.library.dnnl_sgemm

        def run(calls: int) -> None:
            for _ in range(calls):
                function(no, no, *extents, *operands)

        return Prepared(run, lambda: c.reshape(op.m, op.n), "sgemm", (a, b, c))


def _own(x: Array) -> Array:
    """A copy that begins on a page."""
    copy = page_aligned(x.size, F32)
    copy[:] = x.ravel()
    return copy


def _dims(values: Sequence[int]) -> Any:
    return (c_int64 * 12)(*values)


@cache
def _engine(library: ctypes.CDLL) -> tuple[c_void_p, c_void_p]:
    engine, stream = c_void_p(), c_void_p()
    _check(library.dnnl_engine_create(byref(engine), c_int(_CPU), c_size_t(0)), "engine")
    _check(library.dnnl_stream_create(byref(stream), engine, c_uint(_IN_ORDER)), "stream")
    return engine, stream


class _Convolution:
    """One convolution: its primitive, and memory in the layouts that the primitive chose."""

    def __init__(self, library: ctypes.CDLL, op: Conv2d, channels_last: bool) -> None:
        self.library, self.op, self.channels_last = library, op, channels_last
        self.engine, self.stream = _engine(library)
        images, weights = op.input_shapes
        if op.groups > 1:
            weights = (op.groups, op.out_channels // op.groups, *weights[1:])
        wanted = [self._wanted(images), self._described(weights, None), self._wanted(op.out_shape)]
        self.descriptor = self._create(wanted)
        queries = (_QUERY_SOURCE, _QUERY_WEIGHTS, _QUERY_RESULT)
        self.chosen = [c_void_p(self._query(q)) for q in queries]
        self.memories = [self._memory(md, _ALLOCATE) for md in self.chosen]
        self.shapes = (images, weights, op.out_shape)
        self.primitive = c_void_p()
        status = library.dnnl_primitive_create(byref(self.primitive), self.descriptor)
        _check(status, "primitive")

    def _query(self, what: int) -> int:
        return int(
            self.library.dnnl_primitive_desc_query_md(self.descriptor, c_int(what), c_int(0))
        )

    def _wanted(self, shape: Sequence[int]) -> c_void_p:
        if not self.channels_last:
            return self._described(shape, None)
        _, channels, height, width = shape
        return self._described(shape, (channels * height * width, 1, width * channels, channels))

    def _described(self, shape: Sequence[int], strides: Sequence[int] | None) -> c_void_p:
        """A memory descriptor of this shape; without strides the library chooses the layout."""
        found = c_void_p()
        head = byref(found), c_int(len(shape)), _dims(shape), c_int(_F32)
        if strides is None:
            status = self.library.dnnl_memory_desc_create_with_tag(*head, c_int(_ANY))
        else:
            status = self.library.dnnl_memory_desc_create_with_strides(*head, _dims(strides))
        _check(status, "memory description")
        return found

    def _create(self, wanted: Sequence[c_void_p]) -> c_void_p:
        op, found = self.op, c_void_p()
        top, left, bottom, right = op.padding
        _check(
            self.library.dnnl_convolution_forward_primitive_desc_create(
                byref(found),
                self.engine,
                c_int(_INFERENCE),
                c_int(_DIRECT),
                *wanted[:2],
                c_void_p(),
                wanted[2],
                _dims(op.stride),
                _dims([d - 1 for d in op.dilation]),
                _dims((top, left)),
                _dims((bottom, right)),
                c_void_p(),
            ),
            "convolution",
        )
        return found

    def _memory(self, descriptor: c_void_p, place: c_void_p) -> c_void_p:
        found = c_void_p()
        create = self.library.dnnl_memory_create
        _check(create(byref(found), descriptor, self.engine, place), "memory")
        return found

    def _reorder(
        self, source: c_void_p, source_memory: c_void_p, to: c_void_p, to_memory: c_void_p
    ) -> None:
        descriptor, primitive = c_void_p(), c_void_p()
        create = self.library.dnnl_reorder_primitive_desc_create
        sides = (source, self.engine, to, self.engine)
        _check(create(byref(descriptor), *sides, c_void_p()), "reorder")
        _check(self.library.dnnl_primitive_create(byref(primitive), descriptor), "reorder")
        self._execute(primitive, [(_SOURCE, source_memory), (_RESULT, to_memory)])

    def _execute(self, primitive: c_void_p, memories: Sequence[tuple[int, c_void_p]]) -> None:
        arguments = (_Argument * len(memories))(*((k, m.value) for k, m in memories))
        execute = self.library.dnnl_primitive_execute
        _check(execute(primitive, self.stream, c_int(len(memories)), arguments), "execution")
        _check(self.library.dnnl_stream_wait(self.stream), "waiting")

    def _plain(self, array: Array, shape: Sequence[int]) -> tuple[c_void_p, c_void_p]:
        """(descriptor, memory) of a dense array for the library."""
        strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
        descriptor = self._described(shape, strides)
        return descriptor, self._memory(descriptor, address(array))

    def prepared(self, workload: Workload) -> Prepared:
        """The convolution ready to run, with inputs reordered into the chosen layouts."""
        inputs = [_own(x) for x in workload.inputs]
        for i, array in enumerate(inputs):
            self._reorder(*self._plain(array, self.shapes[i]), self.chosen[i], self.memories[i])
        kinds = (_SOURCE, _WEIGHTS, _RESULT)
        pairs = [(k, m.value) for k, m in zip(kinds, self.memories, strict=True)]
        arguments, execute = (_Argument * 3)(*pairs), self.library.dnnl_primitive_execute
        wait = self.library.dnnl_stream_wait

        def run(calls: int) -> None:
            for _ in range(calls):
                execute(self.primitive, self.stream, 3, arguments)
                wait(self.stream)

        return Prepared(run, self._result, self._algorithm(), (inputs, self))

    def _result(self) -> Array:
        result = page_aligned(int(np.prod(self.op.out_shape)), F32)
        descriptor, memory = self._plain(result, self.op.out_shape)
        self._reorder(self.chosen[2], self.memories[2], descriptor, memory)
        return result.reshape(self.op.out_shape)

    def _algorithm(self) -> str:
        text = ctypes.c_char_p()
        query = self.library.dnnl_primitive_desc_query
        _check(query(self.descriptor, c_int(_QUERY_NAME), c_int(0), byref(text)), "query")
        layout = "channels last" if self.channels_last else "own layout"
        return f"{(text.value or b'?').decode()}, {layout}"
