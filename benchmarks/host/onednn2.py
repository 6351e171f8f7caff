"""oneDNN 2 (Debian's libdnnl2): the last with a single-precision Winograd convolution.

In this version the caller allocates descriptors; they are passed as opaque buffers, larger than any
of them. Weights are transformed beforehand, images and results stay in the library's layout.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int, c_int64, c_size_t, c_uint, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from host.contest import Array, Missing, Prepared, Workload
from host.onednn import OneDnnError
from tilewright.common.dtypes import F32
from tilewright.ops import Conv2d, conv2d
from tilewright.targets.host.native import address, page_aligned

_CPU, _F32, _ANY, _IN_ORDER = 1, 3, 1, 1
_INFERENCE, _WINOGRAD = 96, 2
_KINDS = (1, 33, 17)
_QUERIES = (129, 131, 133)
_QUERY_NAME = 8
_OPAQUE_BYTES = 16384
_NAME = "libdnnl.so.2"
_RIVAL = "oneDNN 2 Winograd"
_FIX = "install the system package libdnnl2 (optional)"
_USUAL = conv2d(
    batch=1, in_channels=64, out_channels=64, height=56, width=56, kernel=3, padding=1, dtype="f32"
)
"""A layer that every Winograd implementation supports."""


class _Argument(ctypes.Structure):
    _fields_ = (("kind", c_int), ("memory", c_void_p))


def find_onednn2() -> OneDnn2 | Missing:
    """The library, or a `Missing`: it has Winograd only for processors with AVX-512."""
    try:
        library = ctypes.CDLL(_NAME)
    except OSError as error:
        return Missing(_RIVAL, str(error), _FIX)
    library.dnnl_primitive_desc_query_md.restype = c_void_p
    library.dnnl_version.restype = ctypes.POINTER(c_int * 3)
    version = ".".join(map(str, library.dnnl_version().contents))
    try:
        _Winograd(library, _USUAL)
    except OneDnnError as error:
        why = f"version {version} has none for this processor ({error})"
        return Missing(_RIVAL, why, "a processor with AVX-512")
    return OneDnn2(library, version)


def _check(status: int, what: str) -> None:
    if status:
        raise OneDnnError(f"{what} failed with status {status}")


def _dims(values: Sequence[int]) -> Any:
    return (c_int64 * 12)(*values)


@dataclass(frozen=True)
class OneDnn2:
    """The library's Winograd convolutions; everything else is left to version 3."""

    library: ctypes.CDLL
    version: str
    name: str = _RIVAL

    def prepare(self, workload: Workload) -> list[Prepared]:
        """The Winograd convolution, if the library has one for these extents."""
        if not isinstance(workload.op, Conv2d):
            return []
        try:
            return [_Winograd(self.library, workload.op).prepared(workload)]
        except OneDnnError:
            return []


class _Winograd:
    """One convolution: its primitive and memory."""

    def __init__(self, library: ctypes.CDLL, op: Conv2d) -> None:
        self.library = library
        self.shapes = (*op.input_shapes, op.out_shape)
        self.engine, self.stream = c_void_p(), c_void_p()
        _check(library.dnnl_engine_create(byref(self.engine), _CPU, c_size_t(0)), "engine")
        create = library.dnnl_stream_create
        _check(create(byref(self.stream), self.engine, c_uint(_IN_ORDER)), "stream")
        wanted = [self._described(shape, None) for shape in self.shapes]
        what, self.descriptor, self.primitive = self._opaque(), c_void_p(), c_void_p()
        top, left, bottom, right = op.padding
        status = library.dnnl_dilated_convolution_forward_desc_init(
            what,
            _INFERENCE,
            _WINOGRAD,
            *wanted[:2],
            None,
            wanted[2],
            _dims(op.stride),
            _dims([d - 1 for d in op.dilation]),
            _dims((top, left)),
            _dims((bottom, right)),
        )
        _check(status, "convolution")
        make = library.dnnl_primitive_desc_create
        _check(make(byref(self.descriptor), what, None, self.engine, None), "convolution")
        query = library.dnnl_primitive_desc_query_md
        self.chosen = [c_void_p(query(self.descriptor, q, 0)) for q in _QUERIES]
        self.memories = [self._memory(md, c_void_p(-1)) for md in self.chosen]
        _check(library.dnnl_primitive_create(byref(self.primitive), self.descriptor), "primitive")

    def _opaque(self) -> Any:
        return ctypes.create_string_buffer(_OPAQUE_BYTES)

    def _described(self, shape: Sequence[int], strides: Sequence[int] | None) -> Any:
        found = self._opaque()
        head = found, len(shape), _dims(shape), _F32
        if strides is None:
            status = self.library.dnnl_memory_desc_init_by_tag(*head, _ANY)
        else:
            status = self.library.dnnl_memory_desc_init_by_strides(*head, _dims(strides))
        _check(status, "memory description")
        return found

    def _memory(self, descriptor: Any, place: c_void_p) -> c_void_p:
        found = c_void_p()
        _check(
            self.library.dnnl_memory_create(byref(found), descriptor, self.engine, place), "memory"
        )
        return found

    def _plain(self, array: Array, shape: Sequence[int]) -> tuple[Any, c_void_p]:
        strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
        descriptor = self._described(shape, strides)
        return descriptor, self._memory(descriptor, address(array))

    def _reorder(self, source: Any, source_memory: Any, to: Any, to_memory: Any) -> None:
        descriptor, primitive = c_void_p(), c_void_p()
        create = self.library.dnnl_reorder_primitive_desc_create
        _check(create(byref(descriptor), source, self.engine, to, self.engine, None), "reorder")
        _check(self.library.dnnl_primitive_create(byref(primitive), descriptor), "reorder")
        arguments = (_Argument * 2)((_KINDS[0], source_memory.value), (_KINDS[2], to_memory.value))
        _check(self.library.dnnl_primitive_execute(primitive, self.stream, 2, arguments), "reorder")
        _check(self.library.dnnl_stream_wait(self.stream), "reorder")

    def prepared(self, workload: Workload) -> Prepared:
        """The convolution ready to run, with images reordered and weights transformed."""
        inputs = [page_aligned(x.size, F32) for x in workload.inputs]
        for i, (own, x) in enumerate(zip(inputs, workload.inputs, strict=True)):
            own[:] = x.ravel()
            self._reorder(*self._plain(own, self.shapes[i]), self.chosen[i], self.memories[i])
        pairs = [(k, m.value) for k, m in zip(_KINDS, self.memories, strict=True)]
        arguments, execute = (_Argument * 3)(*pairs), self.library.dnnl_primitive_execute
        wait = self.library.dnnl_stream_wait

        def run(calls: int) -> None:
            for _ in range(calls):
                execute(self.primitive, self.stream, 3, arguments)
                wait(self.stream)

        return Prepared(run, self._result, self._algorithm(), (inputs, self))

    def _result(self) -> Array:
        result = page_aligned(int(np.prod(self.shapes[2])), F32)
        self._reorder(self.chosen[2], self.memories[2], *self._plain(result, self.shapes[2]))
        return result.reshape(self.shapes[2])

    def _algorithm(self) -> str:
        text = ctypes.c_char_p()
        query = self.library.dnnl_primitive_desc_query
        _check(query(self.descriptor, _QUERY_NAME, 0, byref(text)), "query")
        return (text.value or b"?").decode()
