"""numpy arrays to what the C side takes, (dtype, dims, address, bytes), and back from what it gives.

Most element types are numpy's own and go by address.  bfloat16, 8-bit floats and 4- and 2-bit types are those of the package
ml_dtypes, which keeps a byte for each narrow element where tercel packs them; strings are arrays of objects here.
"""
import functools
import math

import numpy as np

from . import _tercel

_NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool", "c64": "complex64", "c128": "complex128",
}
_ML_DTYPES = {
    "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0": "float8_e8m0fnu", "f6e2m3": "float6_e2m3fn",
    "f6e3m2": "float6_e3m2fn", "f4e2m1": "float4_e2m1fn", "i4": "int4", "u4": "uint4", "i2": "int2", "u2": "uint2",
}
# As onnxruntime writes them: "tensor(float)".
_ONNX = {
    "f64": "double", "f32": "float", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "i4": "int4", "i2": "int2",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "u4": "uint4", "u2": "uint2", "f16": "float16",
    "bf16": "bfloat16", "f8e4m3fn": "float8e4m3fn", "f8e4m3fnuz": "float8e4m3fnuz", "f8e5m2": "float8e5m2",
    "f8e5m2fnuz": "float8e5m2fnuz", "f8e8m0": "float8e8m0", "f6e2m3": "float6e2m3", "f6e3m2": "float6e3m2",
    "f4e2m1": "float4e2m1", "bool": "bool", "c64": "complex64", "c128": "complex128", "string": "string",
}

NAMES = {number: name for number, name, *_ in _tercel.dtypes()}
_NUMBERS = {name: number for number, name in NAMES.items()}
_BITS = {number: bits for number, _, bits, *_ in _tercel.dtypes()}
# Of block-quantized types: elements and bytes of a block.
_BLOCKS = {number: (elements, size) for number, _, _, elements, size in _tercel.dtypes() if elements > 1}
_STRING = _NUMBERS["string"]
_PACKED = {number for number, bits in _BITS.items() if 0 < bits < 8}
_BY_DTYPE = {}
_BY_NUMPY_NAME = {numpy_name: _NUMBERS[name] for names in (_NUMPY, _ML_DTYPES) for name, numpy_name in names.items()}


def onnx_name(number):
    """'float' for the number of f32."""
    return _ONNX[NAMES[number]]


@functools.lru_cache(maxsize=None)
def numpy_dtype(number):
    """The numpy dtype of an element type; those that numpy lacks need ml_dtypes."""
    name = NAMES[number]
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    if name == "string":
        return np.dtype(object)
    try:
        import ml_dtypes
    except ImportError:
        raise _tercel.Unsupported(f"arrays of {name} need the package ml_dtypes (pip install ml_dtypes)") from None
    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))


def from_dicts(value, key_number, number, rank):
    """Keys and values of a dict (rank 1), or of a list of dicts that all have the same keys (rank 2)."""
    dicts = [value] if rank == 1 else list(value)
    if not all(isinstance(each, dict) for each in dicts):
        raise _tercel.InvalidArgument(f"a map is given as a {'dict' if rank == 1 else 'list of dicts'}")
    keys = list(dicts[0]) if dicts else []
    if any(each.keys() != dicts[0].keys() for each in dicts):
        raise _tercel.InvalidArgument("the dicts of a sequence of maps must have the same keys")
    rows = np.asarray([[each[key] for key in keys] for each in dicts], numpy_dtype(number)).reshape(len(dicts), len(keys))
    return np.asarray(keys, numpy_dtype(key_number)), rows[0] if rank == 1 else rows


def to_dicts(keys, values):
    """A dict; or a list of them, one a row of the values."""
    names = keys.tolist()
    return dict(zip(names, values.tolist())) if values.ndim == 1 else [dict(zip(names, row)) for row in values.tolist()]


def as_array(value, number):
    """An array of what the caller gave.  What has no element type of its own, lists and numbers, takes the wanted one."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (list, tuple, int, float, bool, str)):
        return np.asarray(value, dtype=numpy_dtype(number))
    return np.asarray(value)


def _pack(array, bits):
    """One byte an element -> several in a byte, the first in the low bits."""
    per_byte = 8 // bits
    flat = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    flat = np.concatenate([flat, np.zeros(-flat.size % per_byte, np.uint8)]).reshape(-1, per_byte)
    return np.bitwise_or.reduce(flat << (np.arange(per_byte, dtype=np.uint8) * bits), axis=1).astype(np.uint8)


def _unpack(packed, count, bits, dtype):
    per_byte = 8 // bits
    parts = packed[:, None] >> (np.arange(per_byte, dtype=np.uint8) * bits) & ((1 << bits) - 1)
    flat = parts.reshape(-1)[:count].astype(np.uint8)
    if dtype.name in ("int4", "int2"):  # ml_dtypes keeps the sign in the whole byte
        flat = ((flat ^ (1 << (bits - 1))).astype(np.int8) - (1 << (bits - 1))).astype(np.int8)
    return flat.view(dtype)


def _address(array):
    """Of the first element; arrays of ml_dtypes don't tell it themselves."""
    return (array if array.dtype.kind in "biufc" else array.view(np.uint8)).__array_interface__["data"][0]


def _find_number(dtype):
    """The element type of a numpy dtype, remembered: looking at its name is slow."""
    number = _STRING if dtype.kind in "OUS" else _BY_NUMPY_NAME.get(dtype.name) if dtype.isnative else None
    if number is None:
        raise _tercel.InvalidArgument(f"arrays of {dtype} have no element type in tercel")
    _BY_DTYPE[dtype] = number
    return number


def to_tensor(array):
    """(tensor, what must stay alive until the run is over).  Contiguous arrays are not copied."""
    number = number_of(array.dtype)
    if number == _STRING:
        texts = [t if isinstance(t, bytes) else str(t).encode() for t in array.reshape(-1).tolist()]
        address, size, keeper = _tercel.strings(texts)
        return (_STRING, array.shape, address, size), (texts, keeper)
    shape = array.shape
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if number in _PACKED:
        array = _pack(array, _BITS[number])
    elif not shape:
        array = array.reshape(1)
    return (number, shape, _address(array), array.nbytes), array


def dequantize(data, dtype):
    """Weights of a block-quantized type as float32, with the bits of llama.cpp's reference.

    data: uint8 array [..., bytes of a row]; dtype: "q4_0", "q8_0", "q4_k", ... -> float32 array [..., elements of a row]."""
    number = _NUMBERS.get(dtype)
    if number not in _BLOCKS:
        known = ", ".join(NAMES[n] for n in _BLOCKS)
        raise _tercel.InvalidArgument(f"{dtype!r} is not a block-quantized type; these are: {known}")
    elements, size = _BLOCKS[number]
    data = np.ascontiguousarray(data, np.uint8)
    if data.ndim == 0 or data.shape[-1] % size:
        raise _tercel.InvalidArgument(f"{dtype}: a row of {list(data.shape)} bytes is no whole number of blocks of {size}")
    out = np.empty(data.shape[:-1] + (data.shape[-1] // size * elements,), np.float32)
    _tercel.to_f32((number, (out.size,), _address(data), data.nbytes), _address(out), out.size)
    return out


def new_array(number, shape):
    """An array that a run can write into, with its tensor; None where the forms differ."""
    if number == _STRING or number in _PACKED or 0 in shape:
        return None
    try:
        array = np.empty(shape, numpy_dtype(number))
    except (MemoryError, ValueError) as error:  # ValueError: more elements than a size can count
        raise _tercel.OutOfMemory(f"no memory for an output of shape {list(shape)}: {error}") from None
    return array, (number, tuple(shape), _address(array if shape else array.reshape(1)), array.nbytes)


def from_tensor(tensor):
    """The array that the C side gave a copy of."""
    number, shape, contents = tensor
    if number == _STRING:
        array = np.empty(len(contents), object)
        array[:] = [text.decode("utf-8", "replace") for text in contents]
        return array.reshape(shape)
    dtype = numpy_dtype(number)
    if not contents:
        return np.empty(shape, dtype)
    raw = np.frombuffer(contents, np.uint8)
    return (_unpack(raw, math.prod(shape), _BITS[number], dtype) if number in _PACKED else raw.view(dtype)).reshape(shape)


def from_memory(tensor):
    """An array over memory that the C side lends, not to be written, and the array that every view of it keeps alive; None: a copy."""
    number, shape, memory = tensor
    if number == _STRING or number in _PACKED or not memory.nbytes:
        return from_tensor((number, shape, memory if number == _STRING else bytes(memory))), None
    raw = np.frombuffer(memory, np.uint8)
    return raw.view(numpy_dtype(number)).reshape(shape), raw


def number_of(dtype):
    """The element type of a numpy dtype."""
    return _BY_DTYPE.get(dtype) or _find_number(dtype)
