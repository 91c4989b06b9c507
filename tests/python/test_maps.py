"""Maps, as scikit-learn's exports use them: a dict goes in, a dict or a list of dicts comes out.  What is expected is what ONNX Runtime gives."""
import numpy as np
import pytest
from onnx import TensorProto, helper

import tercel

F, I, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
ML = "ai.onnx.ml"


def map_type(key, value, sequence=False):
    one = helper.make_map_type_proto(key, helper.make_tensor_type_proto(value, None))
    return helper.make_sequence_type_proto(one) if sequence else one


def session(nodes, inputs, outputs):
    infos = [[helper.make_value_info(name, type) for name, type in values] for values in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *infos)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    return tercel.Session(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def tensor(dtype, *shape):
    return helper.make_tensor_type_proto(dtype, shape)


def classifier(**labels):
    """As skl2onnx writes a logistic regression: labels and probabilities, the latter a list of dicts."""
    names = {"classlabels_strings": labels["strings"]} if "strings" in labels else {"classlabels_ints": labels["ints"]}
    zipped = {name.replace("ints", "int64s"): values for name, values in names.items()}
    key = S if "strings" in labels else I
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain=ML, coefficients=[1.0, 0.0, 0.0, 1.0, -1.0, -1.0],
                         intercepts=[0.0, 0.0, 0.0], post_transform="SOFTMAX", **names),
        helper.make_node("ZipMap", ["scores"], ["probabilities"], domain=ML, **zipped),
    ]
    return session(nodes, [("x", tensor(F, "n", 2))], [("label", tensor(key, "n")), ("probabilities", map_type(key, F, True))])


@pytest.mark.parametrize("labels", [{"strings": ["no", "yes", "maybe"]}, {"ints": [7, 8, 9]}])
def test_a_classifier_gives_a_list_of_dicts(labels):
    s = classifier(**labels)
    names = next(iter(labels.values()))
    x = np.array([[2, 0], [0, 3], [-1, -1]], np.float32)
    label, probabilities = s.run(None, {"x": x})
    scores = x @ np.array([[1, 0, -1], [0, 1, -1]], np.float32)
    want = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert label.tolist() == names
    assert [list(row) for row in probabilities] == [names] * 3
    np.testing.assert_allclose([list(row.values()) for row in probabilities], want, rtol=1e-5)
    assert all(type(value) is float for row in probabilities for value in row.values())


def test_maps_are_described():
    output = classifier(ints=[7, 8, 9]).get_outputs()[1]
    assert (output.kind, output.type, output.shape[1]) == ("map", "seq(map(int64,tensor(float)))", 3)
    s = vectorizer(S, F, string_vocabulary=["a"])
    assert s.get_inputs()[0].type == "map(string,tensor(float))"


def test_each_run_has_as_many_maps_as_rows():
    s = classifier(ints=[7, 8, 9])
    for rows in (3, 1, 5, 0, 3):
        assert len(s.run(["probabilities"], {"x": np.zeros((rows, 2), np.float32)})[0]) == rows


def vectorizer(key, value, **vocabulary):
    nodes = [helper.make_node("DictVectorizer", ["x"], ["y"], domain=ML, **vocabulary)]
    return session(nodes, [("x", map_type(key, value))], [("y", tensor(value, None, None))])


@pytest.mark.parametrize("key, value, vocabulary, given, want", [
    (S, F, {"string_vocabulary": ["b", "a", "c"]}, {"a": 1.5, "c": -2.0, "z": 9.0}, [0, 1.5, -2]),
    (I, F, {"int64_vocabulary": [3, 5]}, {5: 0.25}, [0, 0.25]),
    (S, TensorProto.INT64, {"string_vocabulary": ["b", "a"]}, {"a": 4}, [0, 4]),
    (S, TensorProto.DOUBLE, {"string_vocabulary": ["b", "a"]}, {"b": 0.1}, [0.1, 0]),
    (I, S, {"int64_vocabulary": [3, 5]}, {5: "five"}, ["", "five"]),
    (S, F, {"string_vocabulary": ["a"]}, {}, [0]),
])
def test_dict_vectorizer(key, value, vocabulary, given, want):
    (y,) = vectorizer(key, value, **vocabulary).run(None, {"x": given})
    assert y.shape == (1, len(want))
    assert y[0].tolist() == want


@pytest.mark.parametrize("value, target, attributes, given, want", [
    (F, F, {}, {5: 2.0, 1: 1.0}, [1, 2]),
    (F, I, {"cast_to": "TO_INT64"}, {5: 2.0, 1: 1.0}, [1, 2]),
    (F, F, {"map_form": "SPARSE", "max_map": 4}, {2: 0.5, 0: 1.0, 9: 3.0}, [1, 0, 0.5, 0]),
    (S, I, {"cast_to": "TO_INT64"}, {2: "12", 1: "-3"}, [-3, 12]),
    (S, F, {"map_form": "SPARSE", "max_map": 3}, {1: "1.5"}, [0, 1.5, 0]),
    (S, S, {"cast_to": "TO_STRING"}, {2: "b", 1: "a"}, ["a", "b"]),
])
def test_cast_map(value, target, attributes, given, want):
    nodes = [helper.make_node("CastMap", ["x"], ["y"], domain=ML, **attributes)]
    s = session(nodes, [("x", map_type(I, value))], [("y", tensor(target, None, None))])
    (y,) = s.run(None, {"x": given})
    assert y.shape == (1, len(want))
    assert y[0].tolist() == want
    assert s.run(None, {"x": {7: given[next(iter(given))]}})[0].shape == ((1, 1) if "max_map" not in attributes else y.shape)


def test_what_is_no_map_is_refused():
    s = vectorizer(S, F, string_vocabulary=["a"])
    for wrong in (np.zeros(3, np.float32), [{"a": 1.0}], None):
        with pytest.raises(tercel.InvalidArgument, match="dict"):
            s.run(None, {"x": wrong})
    with pytest.raises(tercel.Unsupported, match="map"):
        session([helper.make_node("Identity", ["x"], ["y"])], [("x", map_type(TensorProto.INT32, F))],
                [("y", map_type(TensorProto.INT32, F))])
