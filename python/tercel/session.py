"""Sessions, as users of onnxruntime know them."""
import math
import os

import numpy as np

from . import _tercel, arrays
from .operators import Operators

_TENSOR, _MAP, _STATE = "tensor", "map", "state"
_TYPES = {"tensor": "{}", "state": "{}", "sequence": "seq({})", "optional": "optional({})", "optional_sequence": "optional(seq({}))"}
_IN_PLACE_ELEMENTS = 1 << 14  # below, copying the result costs less than binding memory for it
_TEXT, _PLAN, _DECISIONS = 0, 3, 4  # tercel_print


class Node:
    """An input or output: name, shape (numbers; names or None for free dims; None where the rank isn't known) and type."""

    def __init__(self, name, kind, number, dims, key_number):
        self.name, self.kind, self.shape = name, kind, dims
        self._number, self._key_number = number, key_number
        fixed = kind == _TENSOR and dims is not None and all(isinstance(d, int) for d in dims)
        self._in_place = fixed and math.prod(dims) >= _IN_PLACE_ELEMENTS
        tensor = f"tensor({arrays.onnx_name(number)})" if number else "tensor()"
        self.type = self._map_type(tensor) if kind == _MAP else _TYPES[kind].format(tensor)

    def _map_type(self, tensor):
        """A map has a row of values; a sequence of maps, which all have the same keys, several rows."""
        one = f"map({arrays.onnx_name(self._key_number)},{tensor})"
        return one if len(self.shape) == 1 else f"seq({one})"

    @property
    def dtype(self):
        """The numpy dtype of its elements."""
        return arrays.numpy_dtype(self._number)

    def __repr__(self):
        return f"tercel.Node(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"


class Session:
    """A model, optimized and planned for this machine.

    model: path of a file (of an engine file, too: docs/engine-file.md), or a model's bytes (folder: where its external data may lie).
    allow_external: folders that external data may lie in besides the model's own, as where a model cache keeps links.
    threads: None for as many as the process may use.
    optimize: False runs the graph as imported.  disable_passes: names of passes to leave out, see tercel.passes().
    dims: {"batch": 1} fixes free dims of the model.  max_memory: bytes that activations may take, 0 for no limit.
    deterministic: True gives the same bits whatever the threads, the batch and the CPU's instruction sets; slower.
    profile: True times every step, see profile().  operators: a tercel.Operators, of your own.

    run() may be called from several threads at once; each call in progress has a context of its own.
    """

    def __init__(self, model, *, threads=None, optimize=True, disable_passes=None, profile=False, dims=None, max_memory=0,
                 folder=None, allow_external=(), operators=None, deterministic=False):
        if operators is not None and not isinstance(operators, Operators):
            raise TypeError(f"operators: {type(operators).__name__}, want a tercel.Operators")
        path = data = None
        if isinstance(model, (bytes, bytearray, memoryview)):
            data = bytes(model)
        else:
            path = os.fspath(model)
        passes = disable_passes if isinstance(disable_passes, str) or disable_passes is None else ",".join(disable_passes)
        folders = (allow_external,) if isinstance(allow_external, (str, os.PathLike)) else allow_external
        self._engine = _tercel.Engine(path, data, None if folder is None else os.fspath(folder), threads or 0, not optimize,
                                      passes, dict(dims or {}), max_memory, [os.fspath(name) for name in folders],
                                      operators and operators._set, deterministic)
        self._source = path
        self._profile = profile
        self._contexts, self._idle = [], []
        self.inputs = [Node(*row) for row in self._engine.inputs()]
        self.outputs = [Node(*row) for row in self._engine.outputs()]
        self._input_index = {node.name: i for i, node in enumerate(self.inputs)}
        self._output_index = {node.name: i for i, node in enumerate(self.outputs)}

    def get_inputs(self):
        return self.inputs

    def get_outputs(self):
        return self.outputs

    @property
    def metadata(self):
        """What the file says of itself: a dict of texts."""
        return self._engine.metadata()

    @property
    def threads(self):
        return self._engine.num_threads()

    def run(self, output_names, feeds):
        """Runs once.  output_names: a list, or None for all.  feeds: {name: array}; a sequence is a list of arrays, an
        optional an array or None, a map a dict.  Contiguous arrays are read in place.  Returns a list in the order of output_names."""
        wanted = range(len(self.outputs)) if output_names is None else [self._find_output(name) for name in output_names]
        context = self._take_context()
        try:
            kept = self._give_inputs(context, feeds)
            bound = self._bind_outputs(context, wanted)
            try:
                context.run()
                return [bound[i] if i in bound else self._read_output(context, i) for i in wanted]
            finally:
                for i in bound:
                    context.bind_output(i, None)
                del kept
        finally:
            self._idle.append(context)

    def profile(self):
        """Rows of what each step took since the session began (profile=True): dicts with name, op, tactic, sources, shape,
        runs, total_us, flops and bytes (of one run)."""
        rows = {}
        for context in self._contexts:
            for i, row in enumerate(context.profile()):
                if i in rows:
                    rows[i]["runs"] += row["runs"]
                    rows[i]["total_us"] += row["total_us"]
                else:
                    rows[i] = row
        return list(rows.values())

    def memory(self):
        """Bytes that activations, packed and mapped weights take: a dict, sums over the contexts in use."""
        total = {}
        for context in self._contexts:
            for key, value in context.memory().items():
                total[key] = value if "activation" not in key else total.get(key, 0) + value
        return total

    def save(self, path, *, strip_weights=False):
        """Writes an engine file, which Session takes in place of the model: it is ready in milliseconds, and its weights are shared
        by all processes.  strip_weights: leaves them out; `tercel refit` brings them back from the model."""
        self._engine.save(os.fspath(path), self._source, strip_weights)

    def graph(self):
        """The optimized graph as text."""
        return self._engine.print(_TEXT)

    def plan(self):
        """The steps with tactics, shapes and memory, as text."""
        return self._engine.print(_PLAN)

    def decisions(self):
        """What each pass did and what it refused, with the reason, as text."""
        return self._engine.print(_DECISIONS)

    # ---- steps of a run ----

    def _take_context(self):
        try:
            return self._idle.pop()
        except IndexError:
            context = _tercel.Context(self._engine, self._profile)
            self._contexts.append(context)
            return context

    def _find_output(self, name):
        if name not in self._output_index:
            raise _tercel.InvalidArgument(f"no output '{name}'; there are {', '.join(self._output_index)}")
        return self._output_index[name]

    def _give_inputs(self, context, feeds):
        """What is returned must live until the run is over."""
        kept = []
        if feeds.keys() != self._input_index.keys():
            self._fail_names(feeds)
        for i, node in enumerate(self.inputs):
            kept.append(self._give_input(context, i, node, feeds[node.name]))
        return kept

    def _fail_names(self, feeds):
        for name in feeds:
            if name not in self._input_index:
                raise _tercel.InvalidArgument(f"no input '{name}'; there are {', '.join(self._input_index)}")
        for name in self._input_index:
            if name not in feeds:
                raise _tercel.InvalidArgument(f"input '{name}' is missing")

    @staticmethod
    def _give_input(context, i, node, value):
        if node.kind == _STATE and not (isinstance(value, np.ndarray) and value.flags.carray and value.dtype == node.dtype):
            raise _tercel.InvalidArgument(f"state '{node.name}' is written in place: want a contiguous array of {node.dtype}")
        if node.kind in (_TENSOR, _STATE):
            tensor, keeper = arrays.to_tensor(arrays.as_array(value, node._number))
            context.set_input(i, tensor)
            return keeper
        if node.kind == _MAP:
            pairs = [arrays.to_tensor(part) for part in arrays.from_dicts(value, node._key_number, node._number, len(node.shape))]
            context.set_elements(i, [tensor for tensor, _ in pairs])
            return pairs
        elements = [] if value is None else value if isinstance(value, (list, tuple)) else [value]
        pairs = [arrays.to_tensor(arrays.as_array(element, node._number)) for element in elements]
        context.set_elements(i, [tensor for tensor, _ in pairs])
        return pairs

    def _bind_outputs(self, context, wanted):
        """Large outputs of fixed shape are written straight into arrays of the caller's own."""
        bound = {}
        for i in wanted:
            node = self.outputs[i]
            made = arrays.new_array(node._number, node.shape) if node._in_place and i not in bound else None
            if made:
                bound[i], tensor = made
                context.bind_output(i, tensor)
        return bound

    def _read_output(self, context, i):
        kind = self.outputs[i].kind
        if kind == _TENSOR:
            return arrays.from_tensor(context.output(i))
        elements = [arrays.from_tensor(tensor) for tensor in context.output_elements(i)]
        if kind == _MAP:
            return arrays.to_dicts(*elements)
        if kind == "optional":
            return elements[0] if elements else None
        return elements
