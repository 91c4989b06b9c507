#!/usr/bin/env python3
"""Small real models, changed in their structure, run by tercel and by ONNX Runtime.

    PYTHONPATH=build/release/python build/venv/bin/python tests/fuzz/mutate_onnx.py [--count N] [--seed S] [--first I] [--keep FOLDER]

The models are ONNX's own conformance cases, with their data.  A mutation drops, doubles, retypes, reshapes, renames or rewires a part of
one, or changes an operator, an attribute or a version.  Whatever comes of it, tercel has to run it right, which is as ONNX Runtime does, or
refuse it with a message.  What tercel runs and ONNX Runtime refuses is only noted, and only where onnx.checker takes the file: there the two
understand the specification differently, or ONNX Runtime lacks a type.

Mutation I of seed S is the same in every run.  The model that is being tried lies in FOLDER (default: build/mutations), so that it is
there after a crash, and so do all that differ.
"""
import argparse
import collections
import multiprocessing
import pathlib
import random
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_node_model_tests

import tercel

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_SEED = 20261130
SECONDS = 20  # that a run may take
MAX_BYTES = 20000  # of a model and of each of its inputs
DTYPES = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.INT32, TensorProto.INT16,
          TensorProto.INT8, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64, TensorProto.BOOL,
          TensorProto.BFLOAT16, TensorProto.STRING]
DRAWN = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
# How far a result may move, by the narrowest type that occurs on the way: (relative, absolute).
LIMITS = {"bfloat16": (4e-2, 4e-2), "float16": (4e-3, 4e-3), "float32": (2e-4, 2e-5), "float64": (2e-4, 2e-5)}


class Case:
    def __init__(self, name, model, feeds):
        self.name, self.model, self.feeds = name, model, feeds


def load_cases():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in load_node_model_tests():
            graph = case.model.graph
            feeds = case.data_sets[0][0]
            feeds = [numpy_helper.to_array(v) if isinstance(v, TensorProto) else v for v in feeds]
            plain = all(isinstance(v, np.ndarray) and v.nbytes <= MAX_BYTES for v in feeds)
            if plain and len(feeds) == len(graph.input) and case.model.ByteSize() <= MAX_BYTES and not draws(case.model):
                yield Case(case.name, case.model, feeds)


def draws(model):
    """Does a random operator occur?  No two runtimes draw the same numbers."""
    return any(node.op_type in DRAWN for node in all_nodes(model.graph)) or any(
        node.op_type in DRAWN for function in model.functions for node in function.node)


def all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


# ---- mutations: each changes the model and the feeds in place; False: nothing that it could change ----------------------------


def drop_input(rng, model, feeds):
    node = rng.choice(model.graph.node)
    if not node.input:
        return False
    i = rng.randrange(len(node.input))
    if rng.random() < 0.5:
        node.input[i] = ""
    else:
        del node.input[i]
    return True


def drop_attribute(rng, model, feeds):
    node = rng.choice(model.graph.node)
    if not node.attribute:
        return False
    del node.attribute[rng.randrange(len(node.attribute))]
    return True


def drop_node(rng, model, feeds):
    if len(model.graph.node) < 2:
        return False
    del model.graph.node[rng.randrange(len(model.graph.node))]
    return True


def drop_output(rng, model, feeds):
    node = rng.choice(model.graph.node)
    if len(node.output) < 2:
        return False
    gone = node.output[rng.randrange(len(node.output))]
    for i, name in enumerate(node.output):
        if name == gone:
            node.output[i] = ""
    for i, info in enumerate(model.graph.output):
        if info.name == gone and len(model.graph.output) > 1:
            del model.graph.output[i]
            break
    return True


def drop_declared_shape(rng, model, feeds):
    info = rng.choice([*model.graph.input, *model.graph.output])
    if not info.type.tensor_type.HasField("shape"):
        return False
    shape = info.type.tensor_type.shape
    if shape.dim and rng.random() < 0.6:
        dim = rng.choice(shape.dim)
        dim.Clear()
        if rng.random() < 0.5:
            dim.dim_param = rng.choice(["n", "m"])
    else:
        info.type.tensor_type.ClearField("shape")
    return True


def double_node(rng, model, feeds):
    """A node once more, under other names, which become outputs."""
    node = rng.choice(model.graph.node)
    copy = model.graph.node.add()
    copy.CopyFrom(node)
    kinds = {info.name: info for info in model.graph.output}
    for i, name in enumerate(node.output):
        if not name:
            continue
        copy.output[i] = f"{name}_again"
        info = model.graph.output.add()
        if name in kinds:
            info.CopyFrom(kinds[name])
        info.name = copy.output[i]
    return True


def double_input(rng, model, feeds):
    node = rng.choice(model.graph.node)
    if not node.input:
        return False
    node.input.insert(rng.randrange(len(node.input) + 1), rng.choice(node.input))
    return True


def rewire(rng, model, feeds):
    """An input of a node becomes another value of the graph."""
    node = rng.choice(model.graph.node)
    names = [info.name for info in model.graph.input] + [name for n in model.graph.node for name in n.output if name]
    names += [t.name for t in model.graph.initializer]
    if not node.input or not names:
        return False
    node.input[rng.randrange(len(node.input))] = rng.choice(names)
    return True


def chain(rng, model, feeds):
    """A node's result goes through the same operator once more."""
    node = rng.choice(model.graph.node)
    if not node.input or not node.output or node.output[0] not in [info.name for info in model.graph.output]:
        return False
    copy = model.graph.node.add()
    copy.CopyFrom(node)
    middle = f"{node.output[0]}_once"
    copy.input[0] = middle
    node.output[0] = middle
    for i in range(1, len(node.output)):
        node.output[i] = f"{node.output[i]}_once" if node.output[i] else ""
    return True


def retype_input(rng, model, feeds):
    i = rng.randrange(len(feeds)) if feeds else None
    if i is None:
        return False
    dtype = rng.choice(DTYPES)
    try:
        target = helper.tensor_dtype_to_np_dtype(dtype)
        with np.errstate(all="ignore"):
            feeds[i] = feeds[i].astype(target) if dtype != TensorProto.STRING else feeds[i].astype(str).astype(object)
    except (ValueError, TypeError):
        return False
    model.graph.input[i].type.tensor_type.elem_type = dtype
    return True


def retype_all(rng, model, feeds):
    """All inputs of one type become another, and outputs with them."""
    if not feeds:
        return False
    old = model.graph.input[rng.randrange(len(feeds))].type.tensor_type.elem_type
    new = rng.choice(DTYPES[:-1])
    if old == TensorProto.STRING:
        return False
    for i, info in enumerate(model.graph.input):
        if info.type.tensor_type.elem_type == old:
            with np.errstate(all="ignore"):
                feeds[i] = feeds[i].astype(helper.tensor_dtype_to_np_dtype(new))
            info.type.tensor_type.elem_type = new
    for info in model.graph.output:
        if info.type.tensor_type.elem_type == old:
            info.type.tensor_type.elem_type = new
    return True


def other_shape(rng, shape):
    shape = list(shape)
    kind = rng.randrange(6)
    if kind == 0:
        shape.insert(rng.randrange(len(shape) + 1), 1)
    elif kind == 1 and shape:
        i = rng.randrange(len(shape))
        shape[i] = rng.choice([0, 1, 2, 3, shape[i] + 1, max(shape[i] - 1, 0)])
    elif kind == 2 and len(shape) > 1:
        rng.shuffle(shape)
    elif kind == 3 and len(shape) > 1:
        i = rng.randrange(len(shape) - 1)
        shape[i:i + 2] = [shape[i] * shape[i + 1]]
    elif kind == 4 and shape:
        del shape[rng.randrange(len(shape))]
    else:
        shape.append(rng.choice([1, 2]))
    return shape


def reshape_input(rng, model, feeds):
    """Another shape for an input, which keeps as many of its elements as there is room for; outputs lose their declared shapes."""
    if not feeds:
        return False
    i = rng.randrange(len(feeds))
    shape = other_shape(rng, feeds[i].shape)
    if len(shape) > 8 or np.prod(shape, dtype=np.int64) > 5000 or (feeds[i].size == 0 and 0 not in shape):
        return False
    feeds[i] = np.resize(feeds[i], shape)
    tensor = model.graph.input[i].type.tensor_type
    if tensor.HasField("shape"):
        tensor.shape.Clear()
        for size in shape:
            tensor.shape.dim.add().dim_value = size
    for info in model.graph.output:
        info.type.tensor_type.ClearField("shape")
    return True


def change_data(rng, model, feeds):
    """Other numbers in an input: the ends of its type, or not finite, or small whole ones."""
    if not feeds:
        return False
    i = rng.randrange(len(feeds))
    x = np.array(feeds[i])
    if x.size == 0 or x.dtype == object or x.dtype.kind in "SU":
        return False
    flat = x.reshape(-1)
    for _ in range(rng.choice([1, 2, x.size])):
        at = rng.randrange(x.size)
        with np.errstate(all="ignore"):
            flat[at] = np.array(rng.choice([0, 1, -1, 2, 3, -2, 5, 7] * 3 + [100, 127, -128, 255, 0.5, 1e-3])).astype(x.dtype)
    feeds[i] = x
    return True


def make_constant(rng, model, feeds):
    """An input becomes an initializer, as exporters write weights."""
    if not feeds:
        return False
    i = rng.randrange(len(feeds))
    name = model.graph.input[i].name
    array = np.asarray(feeds[i])
    try:
        tensor = numpy_helper.from_array(array, name)
    except (ValueError, TypeError, KeyError, RuntimeError, NotImplementedError):
        return False
    tensor.data_type = model.graph.input[i].type.tensor_type.elem_type
    model.graph.initializer.append(tensor)
    del model.graph.input[i], feeds[i]
    return True


def change_attribute(rng, model, feeds):
    node = rng.choice(model.graph.node)
    if not node.attribute:
        return False
    a = rng.choice(node.attribute)
    if a.type == AttributeProto.INT:
        a.i = rng.choice([0, 1, 2, 3, -1, -2, a.i + 1, a.i - 1, -a.i, 7, 10, 11])
    elif a.type == AttributeProto.FLOAT:
        a.f = rng.choice([0.0, 1.0, -1.0, 0.5, 2.0, 1e-5, 1e5, -a.f])
    elif a.type == AttributeProto.STRING:
        words = {b"SAME_UPPER", b"SAME_LOWER", b"VALID", b"NOTSET", b"constant", b"edge", b"reflect", b"wrap", b"linear", b"nearest",
                 b"cubic", b"floor", b"ceil", b"round_prefer_ceil", b"half_pixel", b"asymmetric", b"align_corners", b"add", b"mul",
                 b"max", b"min", b"none", b"tanh", b"mean", b"sum", b"", b"forward", b"reverse", b"bidirectional"}
        a.s = rng.choice(sorted(words))
    elif a.type == AttributeProto.INTS:
        change_list(rng, a.ints, lambda: rng.choice([0, 1, 2, 3, -1, -2, 4, 5]))
    elif a.type == AttributeProto.FLOATS:
        change_list(rng, a.floats, lambda: rng.choice([0.0, 1.0, -1.0, 0.5, 2.0, 1e-3]))
    else:
        return False
    return True


def change_list(rng, values, draw):
    kind = rng.randrange(4)
    if kind == 0 and len(values):
        del values[rng.randrange(len(values))]
    elif kind == 1:
        values.append(draw())
    elif kind == 2 and len(values) > 1:
        shuffled = list(values)
        rng.shuffle(shuffled)
        values[:] = shuffled
    elif len(values):
        values[rng.randrange(len(values))] = draw()


def add_attribute(rng, model, feeds):
    """An attribute that the operator knows and the node has not."""
    node = rng.choice(model.graph.node)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset_of(model, node.domain), node.domain)
    except onnx.defs.SchemaError:
        return False
    names = [n for n in sorted(schema.attributes) if n not in [a.name for a in node.attribute]]
    if not names:
        return False
    name = rng.choice(names)
    kind = schema.attributes[name].type
    known = onnx.defs.OpSchema.AttrType
    if kind == known.INT:
        value = rng.choice([0, 1, 2, -1, 3])
    elif kind == known.FLOAT:
        value = rng.choice([0.0, 0.5, 1.0, -1.0, 3.0])
    elif kind == known.INTS:
        value = [rng.choice([0, 1, 2]) for _ in range(rng.choice([1, 2, 2, 4]))]
    elif kind == known.STRING:
        value = rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "mul", "mean", "none"])
    else:
        return False
    node.attribute.append(helper.make_attribute(name, value))
    return True


def opset_of(model, domain):
    return next((o.version for o in model.opset_import if o.domain == domain), 1)


def change_operator(rng, model, feeds):
    """To another operator of the same number of inputs."""
    node = rng.choice(model.graph.node)
    alike = [n for n in OPERATORS if OPERATORS[n].min_input <= len(node.input) <= OPERATORS[n].max_input and n not in DRAWN]
    if node.domain or not alike:
        return False
    node.op_type = rng.choice(alike)
    if rng.random() < 0.6:
        known = OPERATORS[node.op_type].attributes
        for i in reversed(range(len(node.attribute))):
            if node.attribute[i].name not in known:
                del node.attribute[i]
    return True


OPERATORS = {s.name: s for s in sorted(onnx.defs.get_all_schemas(), key=lambda s: s.name) if s.domain == ""}


def change_opset(rng, model, feeds):
    if not model.opset_import:
        return False
    chosen = rng.choice(model.opset_import)
    chosen.version = max(1, chosen.version + rng.choice([-12, -8, -5, -3, -2, -1, 1]))
    return True


def nest(rng, model, feeds):
    """All nodes move into both branches of an If."""
    graph = model.graph
    if any(node.op_type == "If" for node in graph.node) or not graph.output:
        return False
    branches = []
    for branch in ("then", "else"):
        nodes = []
        for node in graph.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            for i, name in enumerate(copy.output):
                copy.output[i] = f"{name}_{branch}" if name else ""
            mine = [name for n in graph.node for name in n.output if name]
            for i, name in enumerate(copy.input):
                copy.input[i] = f"{name}_{branch}" if name in mine else name
            nodes.append(copy)
        outputs = []
        for info in graph.output:
            copy = onnx.ValueInfoProto()
            copy.CopyFrom(info)
            copy.name = f"{info.name}_{branch}"
            outputs.append(copy)
        branches.append(helper.make_graph(nodes, branch, [], outputs))
    condition = helper.make_tensor("condition", TensorProto.BOOL, [], [rng.random() < 0.5])
    del graph.node[:]
    graph.initializer.append(condition)
    graph.node.append(helper.make_node("If", ["condition"], [info.name for info in graph.output], then_branch=branches[0],
                                       else_branch=branches[1]))
    return True


MUTATIONS = [drop_input, drop_attribute, drop_node, drop_output, drop_declared_shape, double_node, double_input, rewire, chain,
             retype_input, retype_all, reshape_input, reshape_input, change_data, change_data, make_constant, make_constant,
             change_attribute, change_attribute, add_attribute, change_operator, change_opset, nest]


def mutate(cases, seed, index):
    """(name, model, feeds): mutation number `index` of the seed."""
    rng = random.Random(seed * 1000003 + index)
    case = rng.choice(cases)
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    feeds = list(case.feeds)
    done = []
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
        mutation = rng.choice(MUTATIONS)
        if model.graph.node and mutation(rng, model, feeds):
            done.append(mutation.__name__)
    return f"{case.name}: {', '.join(done) or 'unchanged'}", model, feeds


# ---- running and comparing ------------------------------------------------------------------------------------------------


def feed_dict(model, feeds):
    return {info.name: value for info, value in zip(model.graph.input, feeds)}


def run_tercel(data, feeds, optimize=True):
    session = tercel.Session(data, threads=1, max_memory=1 << 28, optimize=optimize)
    return session.run(None, feeds)


def run_onnxruntime(data, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def limits_of(model):
    """By the narrowest type that is declared anywhere."""
    types = {info.type.tensor_type.elem_type for info in [*model.graph.input, *model.graph.output]}
    types |= {t.data_type for t in model.graph.initializer}
    for dtype, name in ((TensorProto.BFLOAT16, "bfloat16"), (TensorProto.FLOAT16, "float16")):
        if dtype in types:
            return LIMITS[name]
    return LIMITS["float32"]


def difference(got, want, limits, where):
    """None, or what differs."""
    if isinstance(want, list) or want is None or isinstance(got, list) or got is None:
        if type(got) is not type(want) or (want is not None and len(got) != len(want)):
            return f"{where}: {type(got).__name__}, want {type(want).__name__}"
        return next((d for i, (g, w) in enumerate(zip(got or [], want or [])) if (d := difference(g, w, limits, f"{where}[{i}]"))), None)
    want, got = np.asarray(want), np.asarray(got)
    if got.shape != want.shape:
        return f"{where}: shape {got.shape}, want {want.shape}"
    if want.dtype.kind in "OUS":
        same = [str(x) for x in got.reshape(-1)] == [x.decode() if isinstance(x, bytes) else str(x) for x in want.reshape(-1)]
        return None if same else f"{where}: other strings"
    if got.dtype != want.dtype and got.dtype.itemsize == want.dtype.itemsize and want.dtype.kind in "uV":
        want = want.view(got.dtype)  # ONNX Runtime gives bfloat16 and the like as their bits
    if got.dtype != want.dtype:
        return f"{where}: type {got.dtype}, want {want.dtype}"
    if want.dtype.kind in "biu":
        different = np.flatnonzero(got.reshape(-1) != want.reshape(-1))
    else:
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        a, b = got.astype(wide).reshape(-1), want.astype(wide).reshape(-1)
        with np.errstate(all="ignore"):
            largest = np.max(np.abs(b), where=np.isfinite(b), initial=0)
            near = np.abs(a - b) <= limits[1] + limits[0] * np.maximum(np.abs(b), 0.05 * largest)
        different = np.flatnonzero(~(near | (a == b) | (np.isnan(a) & np.isnan(b))))
    if not different.size:
        return None
    i = different[0]
    return f"{where}: element {i} is {got.reshape(-1)[i]}, want {want.reshape(-1)[i]} ({different.size} of {want.size} differ)"


def takes(model):
    """Does onnx.checker take the model, shapes and types too?"""
    try:
        onnx.checker.check_model(model, full_check=True)
        return True
    except Exception:  # pylint: disable=broad-except
        return False


class Worker:
    """A process that calls a function, since what is tried may crash or hang (ONNX Runtime does both now and then)."""

    def __init__(self, run):
        self.run, self.process = run, None

    def start(self):
        self.pipe, far = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=self.serve, args=(far,), daemon=True)
        self.process.start()
        far.close()

    def serve(self, pipe):
        warnings.simplefilter("ignore")
        np.seterr(all="ignore")
        while True:
            arguments = pipe.recv()
            try:
                pipe.send((self.run(*arguments), "", ""))
            except Exception as error:  # pylint: disable=broad-except
                pipe.send((None, type(error).__name__, str(error)))

    def call(self, *arguments):
        """(outputs, "", ""), or (None, the error's name, its message); "Crash" and "Hang" are such names."""
        if not self.process:
            self.start()
        self.pipe.send(arguments)
        try:
            if self.pipe.poll(SECONDS):
                return self.pipe.recv()
            name = "Hang"
        except EOFError:
            name = "Crash"
        self.stop()
        return None, name, f"no answer, {name.lower()}"

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def attribute_of(node, name, default):
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


# Where ONNX Runtime 1.32 departs from the specification or from itself, so that its answer decides nothing: operator, condition.
QUIRKS = [
    ("MaxUnpool", lambda node: True),  # indices are taken in the wanted output's shape; it fails ONNX's own case
    ("Resize", lambda node: attribute_of(node, "coordinate_transformation_mode", b"") in (b"align_corners", b"tf_crop_and_resize")),
    ("StringSplit", lambda node: attribute_of(node, "maxsplit", -1) >= 0),  # white space at the end of the last part is lost
    ("BatchNormalization", lambda node: attribute_of(node, "training_mode", 0) == 1),  # two in a row share their running means
    ("Pow", lambda node: True),  # integers through doubles: what is too large doesn't wrap
    ("Attention", lambda node: len(node.output) > 3),  # hidden scores are the lowest number, not -infinity
    ("Optional", lambda node: True),  # an empty one inside If is told from an empty sequence
]


def has_quirk(model):
    return any(node.op_type == name and holds(node) for node in all_nodes(model.graph) for name, holds in QUIRKS)


REFUSALS = {"Error", "InvalidArgument", "InvalidModel", "OutOfMemory", "Unsupported"}


def try_one(workers, model, feeds):
    """(verdict, details): same, both refuse, refused, differs, quirk (see QUIRKS), broken or more."""
    data, named, limits = model.SerializeToString(), feed_dict(model, feeds), limits_of(model)
    got, error, message = workers["tercel"].call(data, named)
    if error and (error not in REFUSALS or not message):
        return "broken", f"{error}: {message}"
    want, refusal, why = workers["onnxruntime"].call(data, named)
    if error:
        return ("both refuse", "") if refusal else ("refused", f"{error}: {message}")
    if refusal:
        return "more", why if takes(model) else ""
    plain, error, message = workers["tercel"].call(data, named, False)
    if error:
        return "broken", f"not optimized: {error}: {message}"
    for which, outputs in (("", got), ("not optimized, ", plain)):
        for info, g, w in zip(model.graph.output, outputs, want):
            if d := difference(g, w, limits, f"{which}'{info.name}'"):
                return "quirk" if has_quirk(model) else "differs", d
    return "same", ""


def try_many(cases, seed, first, count, keep, report):
    """Counts of verdicts; what is wrong goes to report(index, name, verdict, details), and its model into the folder `keep`."""
    keep.mkdir(parents=True, exist_ok=True)
    workers = {"tercel": Worker(run_tercel), "onnxruntime": Worker(run_onnxruntime)}
    counts = collections.Counter()
    for index in range(first, first + count):
        name, model, feeds = mutate(cases, seed, index)
        if draws(model):
            continue
        (keep / "current.onnx").write_bytes(model.SerializeToString())
        (keep / "current.txt").write_text(f"--seed {seed} --first {index} --count 1: {name}\n", encoding="utf-8")
        verdict, details = try_one(workers, model, feeds)
        counts[verdict] += 1
        if verdict in ("differs", "broken"):
            (keep / f"{seed}-{index}.onnx").write_bytes(model.SerializeToString())
        report(index, name, verdict, details)
    for worker in workers.values():
        worker.stop()
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=pathlib.Path, default=SOURCE / "build/mutations")
    parser.add_argument("--refused", action="store_true", help="print what tercel refuses and ONNX Runtime runs")
    parser.add_argument("--more", action="store_true", help="print what tercel runs and ONNX Runtime refuses")
    arguments = parser.parse_args()

    def report(index, name, verdict, details):
        wanted = {"differs", "broken"} | ({"refused"} if arguments.refused else set()) | ({"more"} if arguments.more else set())
        if verdict in wanted and details:
            print(index, verdict, name, " ".join(details.split())[:400], sep="\t", flush=True)

    counts = try_many(list(load_cases()), arguments.seed, arguments.first, arguments.count, arguments.keep, report)
    print(f"seed {arguments.seed}: " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    return 1 if counts["differs"] or counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
