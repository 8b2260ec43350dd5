"""Columns of numbers from whatever has ``__arrow_c_stream__``, without an Arrow library.

The three structures are those of the Arrow C data interface, which is stable:
https://arrow.apache.org/docs/format/CDataInterface.html
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_Pointer = ctypes.POINTER


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", _Pointer(_Pointer(_Schema))),
    ("dictionary", _Pointer(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, _Pointer(_Schema))),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", _Pointer(ctypes.c_void_p)),
    ("children", _Pointer(_Pointer(_Array))),
    ("dictionary", _Pointer(_Array)),
    ("release", ctypes.CFUNCTYPE(None, _Pointer(_Array))),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, _Pointer(_Stream), _Pointer(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, _Pointer(_Stream), _Pointer(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, _Pointer(_Stream))),
    ("release", ctypes.CFUNCTYPE(None, _Pointer(_Stream))),
    ("private_data", ctypes.c_void_p),
]

# Formats of numbers, and the types of their elements.
_NUMBERS = {
    "c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8",
    "e": "f2", "f": "f4", "g": "f8",
}  # fmt: skip
_TEXTS = {"u": "string", "U": "large_string", "vu": "string_view", "n": "null"}


def columns(X: Any) -> tuple[list[str], list[Any]]:
    """Names and columns: arrays of float64 with NaN for what is missing, or the name of a type."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    # The capsule releases the stream when it goes; arrays and schema are released here.
    capsule = X.__arrow_c_stream__()
    stream = ctypes.cast(get_pointer(capsule, b"arrow_array_stream"), _Pointer(_Stream))
    schema = _Schema()
    _checked(stream, stream.contents.get_schema(stream, ctypes.byref(schema)))
    try:
        if schema.format != b"+s":
            kind = schema.format.decode()
            raise ValueError(f"X is an Arrow stream of {kind!r}; a table with columns is needed")
        fields = [schema.children[i].contents for i in range(schema.n_children)]
        names = [(field.name or b"").decode() for field in fields]
        formats = [_format(field) for field in fields]
    finally:
        schema.release(ctypes.byref(schema))
    parts: list[list[Any]] = [[] for _ in names]
    while True:
        array = _Array()
        _checked(stream, stream.contents.get_next(stream, ctypes.byref(array)))
        if not array.release:
            break
        try:
            for i, kind in enumerate(formats):
                if kind == "b" or kind in _NUMBERS:
                    parts[i].append(_numbers(array.children[i].contents, kind, array))
        finally:
            array.release(ctypes.byref(array))
    del capsule
    whole = [
        np.concatenate([np.empty(0), *part]) if kind == "b" or kind in _NUMBERS else kind
        for part, kind in zip(parts, formats)
    ]
    return names, whole


def _checked(stream: Any, code: int) -> None:
    if code:
        reason = stream.contents.get_last_error(stream) or b"no reason is given"
        raise ValueError(f"X cannot be read as an Arrow stream: {reason.decode()}")


def _format(field: Any) -> str:
    if field.dictionary:
        return "dictionary"
    kind = str(field.format.decode())
    return _TEXTS.get(kind, kind)


def _numbers(column: Any, kind: str, parent: Any) -> Any:
    """The values of a column that its table selects; the memory belongs to the array."""
    first, length = column.offset + parent.offset, parent.length
    if not length:
        return np.empty(0)
    if kind == "b":
        values = _bits(column.buffers[1], first, length).astype(np.float64)
    else:
        dtype = np.dtype(_NUMBERS[kind])
        address = column.buffers[1] + first * dtype.itemsize
        memory: Any = (ctypes.c_char * (length * dtype.itemsize)).from_address(address)
        values = np.frombuffer(memory, dtype).astype(np.float64)
    if column.null_count and column.buffers[0]:
        values[~_bits(column.buffers[0], first, length)] = np.nan
    return values


def _bits(address: int, first: int, length: int) -> Any:
    """Bits, the lowest of a byte first."""
    size = (first + length + 7) // 8
    memory: Any = (ctypes.c_uint8 * size).from_address(address)
    return np.unpackbits(np.frombuffer(memory, np.uint8), bitorder="little")[first : first + length].astype(bool)
