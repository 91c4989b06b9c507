"""ONNX's own conformance cases (onnx.backend.test), through the Python package.  run-tests: seconds=600

Every case either passes, or its model is refused as unsupported, with the reason, and is counted apart (skipped).  A case
whose operators are all in REQUIRED may not be refused.  Run as a program it prints the table:

    PYTHONPATH=build/release/python python tests/conformance/test_onnx_backend.py [part of a name]
"""
import collections
import pathlib
import re
import sys
import warnings

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests, load_node_model_tests

import tercel

# What the networks that tercel is tested with are made of.
REQUIRED = set("""
Add AveragePool BatchNormalization Cast Clip Concat Constant ConstantOfShape Conv ConvTranspose Div Equal Erf Exp Expand Gather
Gemm GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish Identity If LSTM LayerNormalization Log MatMul Max MaxPool Mul Neg
Not Pad Pow Range Reciprocal ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Resize Shape Sigmoid Size Slice Softmax Split
Sqrt Squeeze Sub Tanh Transpose Unsqueeze Where
""".split())

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
    return value


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


def run_case(case):
    """Raises tercel.Unsupported where the model, AssertionError where an answer, is not what it should be."""
    session = tercel.Session(case.model.SerializeToString(), threads=1)
    given = {t.name for t in case.model.graph.initializer}
    names = [info.name for info in case.model.graph.input if info.name not in given]
    for i, (inputs, outputs) in enumerate(case.sets):
        if len(inputs) > len(names):  # the case gives initializers that are inputs, too
            inputs = [v for v, info in zip(inputs, case.model.graph.input) if info.name not in given]
        got = session.run(None, dict(zip(names, inputs)))
        for value, want, info in zip(got, outputs, case.model.graph.output):
            same(value, want, case, f"set {i}, output '{info.name}'")


def reason(error):
    """What is unsupported, without the names of nodes, so that cases with one reason stand together."""
    missing = sorted(set(re.findall(r"operator (\S+) \(", str(error))))
    return f"not supported yet: {', '.join(missing)}" if missing else re.sub(r"'[^']*'", "'...'", str(error))


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.kind}/{case.name}")
def test_case(case):
    if case.name in RANDOM:
        pytest.skip("random: its numbers are those of numpy's generator")
    try:
        run_case(case)
    except tercel.Unsupported as error:
        if set(operators(case.model.graph.node)) <= REQUIRED:
            raise
        pytest.skip(reason(error))


def main(part):
    outcomes = collections.Counter()
    for case in cases():
        if part not in case.name:
            continue
        try:
            if case.name in RANDOM:
                outcome, detail = "random", ""
            else:
                run_case(case)
                outcome, detail = "pass", ""
        except tercel.Unsupported as error:
            outcome, detail = "unsupported", str(error)
        except (tercel.Error, AssertionError) as error:
            outcome, detail = "fail", f"{type(error).__name__}: {error}"
        outcomes[case.kind, outcome] += 1
        if outcome != "pass":
            print(outcome, case.kind, case.name, " ".join(detail.split())[:300], sep="\t")
    for kind in KINDS:
        print(kind, ", ".join(f"{count} {outcome}" for (k, outcome), count in sorted(outcomes.items()) if k == kind))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
