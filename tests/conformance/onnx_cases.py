"""ONNX's own conformance cases (onnx.backend.test), and how an answer is compared with what a case wants.

Knows no runtime: test_onnx_backend.py gives them to tercel, measure_peers.py to others, export_cases.py writes them as files.
"""
import pathlib
import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests, load_node_model_tests

# Their answers are drawn by numpy's generator: no other can give the same numbers.
RANDOM = {"test_bernoulli", "test_bernoulli_double", "test_bernoulli_seed", "test_bernoulli_expanded",
          "test_bernoulli_double_expanded", "test_bernoulli_seed_expanded", "test_training_dropout", "test_training_dropout_default",
          "test_training_dropout_default_mask", "test_training_dropout_mask"}

# As ONNX's own runner compares bfloat16: two units in the last place.
NARROW_RTOL = {"bfloat16": 2.0**-6}

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")


class Case:
    """A model with its data sets: pairs of lists of inputs and wanted outputs, in the order of the graph."""

    def __init__(self, kind, name, model, rtol, atol, sets):
        self.kind, self.name, self.model, self.rtol, self.atol, self.sets = kind, name, model, rtol, atol, sets


def read_value(path, info):
    proto = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(info.type.WhichOneof("value"),
                                                                                             onnx.TensorProto)()
    proto.ParseFromString(path.read_bytes())
    return to_numpy(proto)


def to_numpy(value):
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def read_sets(folder, graph):
    for data in sorted(folder.glob("test_data_set_*")):
        yield tuple([read_value(data / f"{kind}_{i}.pb", info) for i, info in enumerate(infos) if (data / f"{kind}_{i}.pb").exists()]
                    for kind, infos in (("input", graph.input), ("output", graph.output)))


def light_set(path, graph):
    """The runner of onnx feeds these nine big networks with a ramp."""
    given = {t.name for t in graph.initializer}
    ramps = []
    for info in graph.input:
        if info.name not in given:
            shape = [d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim]
            ramps.append((np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype(np.float32))
    outputs = [read_value(pathlib.Path(f"{path.with_suffix('')}_output_{i}.pb"), info) for i, info in enumerate(graph.output)]
    return ramps, outputs


def cases():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for c in load_node_model_tests():
            sets = [([to_numpy(v) for v in i], [to_numpy(v) for v in o]) for i, o in c.data_sets]
            yield Case("node", c.name, c.model, c.rtol, c.atol, sets)
        for kind in ("simple", "pytorch-converted", "pytorch-operator"):
            for c in load_model_tests(kind=kind):
                if c.model_dir:
                    folder = pathlib.Path(c.model_dir)
                    model = onnx.load(folder / "model.onnx")
                    yield Case(kind, c.name, model, c.rtol, c.atol, list(read_sets(folder, model.graph)))
        for c in load_model_tests(kind="real"):
            path = pathlib.Path(DATA_DIR) / "light" / f"light_{c.model_name}.onnx"
            model = onnx.load(path)
            yield Case("light", c.name, model, c.rtol, c.atol, [light_set(path, model.graph)])


def operators(nodes):
    for node in nodes:
        yield node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from operators(attribute.g.node)


def same(got, want, case, where):
    """As onnx's runner compares: shape and type equal, numbers within the case's tolerances."""
    if want is None or isinstance(want, list):
        assert type(got) is type(want), f"{where}: got {type(got).__name__}, want {type(want).__name__}"
        if want is not None:
            assert len(got) == len(want), f"{where}: {len(got)} elements, want {len(want)}"
            for i, (g, w) in enumerate(zip(got, want)):
                same(g, w, case, f"{where}[{i}]")
        return
    want = np.asarray(want)
    assert got.shape == want.shape, f"{where}: shape {got.shape}, want {want.shape}"
    if want.dtype.kind in "OUS":
        assert [str(x) for x in got.reshape(-1)] == [x.decode() if isinstance(x, bytes) else str(x) for x in want.reshape(-1)], where
        return
    assert got.dtype == want.dtype, f"{where}: type {got.dtype}, want {want.dtype}"
    if want.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=where)
        return
    rtol = max(case.rtol, NARROW_RTOL.get(want.dtype.name, 0))
    wide = want.dtype if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=case.atol, err_msg=where)


def alike(got, want, case, where):
    """What two draws of one distribution share: type, shape, and a mean within five standard errors of the difference."""
    want = np.asarray(want)
    assert got.shape == want.shape, f"{where}: shape {got.shape}, want {want.shape}"
    assert got.dtype == want.dtype, f"{where}: type {got.dtype}, want {want.dtype}"
    a, b = got.astype(np.float64), want.astype(np.float64)
    allowed = 5 * np.sqrt((a.var() + b.var()) / a.size) + case.atol
    assert abs(a.mean() - b.mean()) <= allowed, f"{where}: mean {a.mean():g}, want {b.mean():g} +- {allowed:g}"


def feed(case, inputs):
    """The inputs of a data set by name, without initializers that are listed as inputs, too."""
    given = {t.name for t in case.model.graph.initializer}
    names = [info.name for info in case.model.graph.input if info.name not in given]
    if len(inputs) > len(names):
        inputs = [v for v, info in zip(inputs, case.model.graph.input) if info.name not in given]
    return dict(zip(names, inputs))
