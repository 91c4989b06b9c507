"""Operators in Python.

    operators = tercel.Operators()

    @operators.register("my.domain", "Scale", attributes={"factor": 2.0}, infer=lambda x, factor: x)
    def scale(x, *, factor):
        return x * np.float32(factor)

    session = tercel.Session("net.onnx", operators=operators)
"""
import gc
import traceback
import weakref

import numpy as np

from . import _tercel, arrays

_PURE, _SHAPES, _REPLACES = 1, 2, 4  # tercel_operator_flags
_TYPES = {int: 0, float: 1, str: 2}  # tercel_attribute_type; of lists: 3 more


class Dim:
    """A free dim while shapes are inferred: + - * // with numbers and others make new ones; equal ones are equal in every run."""

    def __init__(self, inference, handle):
        self._inference, self._handle = inference, handle

    def _with(self, other, operation, swap=False):
        """None, an unknown dim, gives another; so does an unknown result."""
        if other is None:
            return None
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        if self._inference.address is None:
            raise _tercel.InvalidArgument("a Dim is used when its inference is over")
        if isinstance(other, int) and other < 0:
            raise _tercel.InvalidArgument(f"a dim {operation} {other}: want a number from 0")
        pair = (self._handle, other._handle if isinstance(other, Dim) else other)
        a, b = pair[::-1] if swap else pair
        return self._inference.dim(_tercel.dim(self._inference.address, a, operation, b))

    def __add__(self, other):
        return self._with(other, "+")

    def __sub__(self, other):
        return self._with(other, "-")

    def __mul__(self, other):
        return self._with(other, "*")

    def __floordiv__(self, other):
        return self._with(other, "/")

    def __radd__(self, other):
        return self._with(other, "+", True)

    def __rsub__(self, other):
        return self._with(other, "-", True)

    def __rmul__(self, other):
        return self._with(other, "*", True)

    def __eq__(self, other):
        return isinstance(other, Dim) and self._inference is other._inference and self._handle == other._handle

    def __hash__(self):
        return hash(self._handle)


class Spec:
    """What is known of a tensor before a run.  dtype: numpy's.  shape: a tuple of numbers, Dims, and None for what nobody knows, or None when
    even the rank isn't known.  contents: the numbers in a short input of integers, where they are known."""

    def __init__(self, dtype, shape, contents=None):
        self.dtype = np.dtype(dtype)
        self.shape = None if shape is None else tuple(shape)
        self.contents = contents

    def __repr__(self):
        return f"tercel.Spec({self.dtype.name}, {self.shape})"


class _Inference:
    """One call of inference: Dims belong to it, and are dead after it."""

    def __init__(self, address):
        self.address = address

    def dim(self, handle):
        return handle if handle >= 0 else Dim(self, handle)

    def spec(self, row):
        if row is None:
            return None
        number, dims, contents = row
        return Spec(arrays.numpy_dtype(number), None if dims is None else [self.dim(d) for d in dims], contents)


def _row(spec, which):
    if not isinstance(spec, Spec):
        raise _tercel.InvalidArgument(f"infer gave {type(spec).__name__} for output {which}, want a tercel.Spec")
    if spec.shape is None:
        return arrays.number_of(spec.dtype), None
    dims = tuple(d._handle if isinstance(d, Dim) else None if d is None else int(d) for d in spec.shape)
    return arrays.number_of(spec.dtype), dims


def _as_list(results, count, what):
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    if len(results) < count:
        raise _tercel.InvalidArgument(f"{what} gave {len(results)} results, the node has {count} outputs")
    return results


def _attribute_rows(attributes):
    """{"axis": 1, "alpha": float, "axes": [int], "mode": (str, None)} -> [(name, type, required)], defaults"""
    rows, defaults = [], {}
    for name, about in attributes.items():
        kind, required = about, True
        if isinstance(about, tuple):
            (kind, defaults[name]), required = about, False
        elif not isinstance(about, type) and not (isinstance(about, list) and about and isinstance(about[0], type)):
            kind = [type(about[0])] if isinstance(about, list) and about else type(about)
            defaults[name], required = about, False
        plain = kind[0] if isinstance(kind, list) and len(kind) == 1 else kind
        if plain not in _TYPES:
            raise _tercel.InvalidArgument(f"attribute '{name}': {about!r}, want int, float, str, a list of one of them, or a default")
        rows.append((name, _TYPES[plain] + (3 if isinstance(kind, list) else 0), required))
    return rows, defaults


def _bounds(count):
    low, high = count if isinstance(count, tuple) else (count, count)
    return low, -1 if high is None else high


class Operators:
    """A set of operators of your own, for tercel.Session(..., operators=...)."""

    def __init__(self):
        self._set = _tercel.Operators()

    def register(self, domain, name, *, versions=(1, None), inputs=1, outputs=1, attributes=None, infer=None, pure=False,
                 data_dependent=False, replaces=False):
        """Makes the decorated function the operator `name` of `domain`: it takes arrays, which are the run's own memory and must not be kept
        or written (None: absent), and the attributes by name, and returns an array, or a list of them.

        versions: of the domain, first and last (None: no end).  inputs, outputs: how many, or (least, most), None: any number.
        attributes: {name: type}, type int, float, str or a list of one ([int]); {name: default} or {name: (type, default)} where a
        node may leave it out.  infer: takes a Spec for each input, and the attributes, and returns a Spec for each output; without it
        outputs have the type of the first input and any shape.  pure: equal inputs give equal outputs, so that the optimizer may
        compute it once.  data_dependent: shapes follow from the data, or outputs are strings.  replaces: stands in for an
        operator that tercel has."""
        rows, defaults = _attribute_rows(attributes or {})

        def add(function):
            self._set.add(domain, name, versions[0], versions[1] or 0, *_bounds(inputs), *_bounds(outputs), rows,
                          pure * _PURE | data_dependent * _SHAPES | replaces * _REPLACES,
                          infer and _infer_with(infer, defaults), _run_with(function, defaults))
            return function

        return add


def _infer_with(infer, defaults):
    def call(address, rows, attributes, count):
        inference = _Inference(address)
        try:
            specs = infer(*map(inference.spec, rows), **{**defaults, **attributes})
            return [_row(spec, i) for i, spec in enumerate(_as_list(specs, count, "infer"))]
        finally:
            inference.address = None

    return call


class _Lent:
    """The inputs of one call: arrays over memory that is the run's.  Calling it, when they should be gone, finds those that are not."""

    def __init__(self, rows):
        self.arrays, self._memory = [], []
        for row in rows:
            array, memory = arrays.from_memory(row) if row else (None, None)
            self.arrays.append(array)
            if memory is not None:
                self._memory.append(weakref.ref(memory))

    def __call__(self):
        if any(memory() is not None for memory in self._memory):
            gc.collect()  # of a cycle, perhaps
        if any(memory() is not None for memory in self._memory):
            raise _tercel.InvalidArgument("the function kept an input, whose memory is used again: copy what is to stay")


def _run_with(function, defaults):
    def call(rows, attributes, count):
        lent = _Lent(rows)
        inputs, lent.arrays = lent.arrays, None
        try:
            results = _as_list(function(*inputs, **{**defaults, **attributes}), count, "the function")
            return [None if result is None else arrays.to_tensor(np.asarray(result)) for result in results], lent
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # they hold the inputs
            raise
        finally:
            del inputs

    return call
