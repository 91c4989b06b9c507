#!/usr/bin/env python3
"""Makes tests/conformance/ml: cases of ai.onnx.ml's operators, with the outputs of ONNX Runtime.

usage: make_ml_cases.py [OUT]      OUT: normally tests/conformance/ml

Needs PyPI's onnx, onnxruntime and numpy; deterministic.  Each case is a folder as `tercel test` reads it.  Left out is what tercel does
otherwise on purpose: a tree classifier of two labels whose leaves weigh both (tercel takes the larger score, as the specification
says; ONNX Runtime looks at the second score's sign), NaN as a key of LabelEncoder (which the specification lets match), a linear support
vector machine of two labels (the larger score, likewise), and post transforms of one target (ONNX Runtime passes them over).
Maps have tests of their own (tests/python/test_maps.py).
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T, helper as h, numpy_helper

RNG = np.random.RandomState(0)
TYPES = {"float32": T.FLOAT, "float64": T.DOUBLE, "int64": T.INT64, "object": T.STRING}
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"]
KERNELS = {"LINEAR": [1.0, 0.0, 0.0], "POLY": [0.4, 0.3, 3.0], "RBF": [0.5, 0.0, 0.0], "SIGMOID": [0.3, -0.1, 0.0]}


def normal(*shape):
    return RNG.randn(*shape).astype(np.float32)


def numbers(*shape):
    return normal(*shape).ravel().tolist()


def save(out, name, op, inputs, outputs, version=3, for_ort=None, **attrs):
    """for_ort: attributes that ONNX Runtime is given instead."""
    names = [f"x{i}" for i in range(len(inputs))]
    node = h.make_node(op, names, [f"y{i}" for i in range(len(outputs))], domain="ai.onnx.ml", **attrs)
    graph = h.make_graph(
        [node],
        name,
        [h.make_tensor_value_info(n, TYPES[str(a.dtype)], a.shape) for n, a in zip(names, inputs)],
        [h.make_tensor_value_info(f"y{i}", t, None) for i, t in enumerate(outputs)],
    )
    opsets = [h.make_opsetid("", 17), h.make_opsetid("ai.onnx.ml", version)]
    model = h.make_model(graph, ir_version=8, producer_name="make_ml_cases", opset_imports=opsets)
    theirs = onnx.ModelProto.FromString(model.SerializeToString())
    for attribute in theirs.graph.node[0].attribute:
        if attribute.name in (for_ort or {}):
            attribute.CopyFrom(h.make_attribute(attribute.name, for_ort[attribute.name]))
    session = ort.InferenceSession(theirs.SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, dict(zip(names, inputs)))
    data = os.path.join(out, name, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    onnx.save(model, os.path.join(out, name, "model.onnx"))
    for kind, arrays in (("input", inputs), ("output", results)):
        for i, array in enumerate(arrays):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(np.asarray(array)).SerializeToString())


def simple(out):
    x = normal(5, 4)
    x[1] = 0
    ints = RNG.randint(0, 9, (3, 4)).astype(np.int64)
    missing = x.copy()
    missing[0, 1] = np.nan
    words = np.array(["a", "c", "q"], object)
    for norm in ["MAX", "L1", "L2"]:
        save(out, "normalizer_" + norm.lower(), "Normalizer", [x], [T.FLOAT], norm=norm)
    mapper = dict(cats_strings=["a", "b", "c"], cats_int64s=[5, 7, 9])
    save(out, "category_mapper", "CategoryMapper", [words], [T.INT64], version=1, default_int64=-3, **mapper)
    save(out, "category_mapper_back", "CategoryMapper", [np.array([[7, 5], [1, 7]], np.int64)], [T.STRING], version=1, **mapper)
    save(out, "scaler", "Scaler", [x], [T.FLOAT], offset=numbers(4), scale=numbers(4))
    save(out, "scaler_one", "Scaler", [ints], [T.FLOAT], offset=[1.0], scale=[0.5])
    save(out, "imputer_nan", "Imputer", [missing], [T.FLOAT], imputed_value_floats=numbers(4),
         replaced_value_float=float("nan"))
    save(out, "imputer_int", "Imputer", [ints], [T.INT64], imputed_value_int64s=[5],
         replaced_value_int64=int(ints[0, 0]))
    save(out, "one_hot_ints", "OneHotEncoder", [ints], [T.FLOAT], cats_int64s=[1, 2, 3])
    save(out, "one_hot_floats", "OneHotEncoder", [ints.astype(np.float32)], [T.FLOAT], cats_int64s=[1, 2, 3])
    save(out, "one_hot_strings", "OneHotEncoder", [words], [T.FLOAT], cats_strings=["a", "b", "c"])
    save(out, "feature_vectorizer", "FeatureVectorizer", [x, normal(5, 2)], [T.FLOAT], inputdimensions=[3, 4])
    index = np.array([2, 0], np.int64)
    save(out, "array_feature_extractor", "ArrayFeatureExtractor", [x, index], [T.FLOAT])
    save(out, "array_feature_extractor_vector", "ArrayFeatureExtractor", [x[0], index], [T.FLOAT])
    save(out, "label_encoder_1", "LabelEncoder", [words], [T.INT64], version=1, classes_strings=["c", "a"])
    save(out, "label_encoder_1_back", "LabelEncoder", [np.array([1, 0, 5], np.int64)], [T.STRING], version=1,
         classes_strings=["b", "a"], default_string="?")
    save(out, "label_encoder_2", "LabelEncoder", [x[:2]], [T.STRING], version=2, keys_floats=[0.0, float(x[0, 1])],
         values_strings=["zero", "one"])


def linear(out):
    x = normal(5, 4)
    save(out, "linear_regressor", "LinearRegressor", [x], [T.FLOAT], coefficients=numbers(8), intercepts=numbers(2),
         targets=2)
    for post in TRANSFORMS:
        for rows, labels in ((3, [4, 5, 6]), (2, [0, 1]), (1, ["no", "yes"])):
            names = {"classlabels_strings" if rows == 1 else "classlabels_ints": labels}
            save(out, f"linear_classifier_{rows}_{post.lower()}", "LinearClassifier", [x],
                 [T.STRING if rows == 1 else T.INT64, T.FLOAT], coefficients=numbers(4 * rows),
                 intercepts=numbers(rows), post_transform=post, **names)


def probit(out):
    """Scores within (0, 1), where it has values."""
    x = RNG.rand(5, 4).astype(np.float32)
    weights = RNG.rand(12) / 5
    save(out, "linear_classifier_3_probit", "LinearClassifier", [x], [T.INT64, T.FLOAT], coefficients=weights.tolist(),
         intercepts=[0.1, 0.05, 0.1], post_transform="PROBIT", classlabels_ints=[4, 5, 6])
    save(out, "linear_regressor_probit", "LinearRegressor", [x], [T.FLOAT], coefficients=weights.tolist(),
         intercepts=[0.1, 0.05, 0.1], post_transform="PROBIT", targets=3)


def vectors(out):
    x = normal(6, 4)
    for name, params in KERNELS.items():
        kernel = dict(kernel_type=name, kernel_params=params)
        save(out, "svm_regressor_" + name.lower(), "SVMRegressor", [x], [T.FLOAT], n_supports=5, support_vectors=numbers(5, 4),
             coefficients=numbers(5), rho=[0.3], **kernel)
        for classes in (2, 3):
            pairs = classes * (classes - 1) // 2
            shared = dict(vectors_per_class=[2, 3, 1][:classes], rho=numbers(pairs), **kernel)
            count = sum(shared["vectors_per_class"])
            shared |= dict(support_vectors=numbers(count, 4), coefficients=numbers(classes - 1, count))
            save(out, f"svm_classifier_{classes}_{name.lower()}", "SVMClassifier", [x], [T.INT64, T.FLOAT],
                 classlabels_ints=[4, 5, 6][:classes], **shared)
            save(out, f"svm_classifier_{classes}_{name.lower()}_probability", "SVMClassifier", [x], [T.STRING, T.FLOAT],
                 classlabels_strings=["a", "b", "c"][:classes], prob_a=[-1.5, -1.0, -2.0][:pairs],
                 prob_b=[0.1, -0.2, 0.3][:pairs], **shared)
    save(out, "svm_one_class", "SVMRegressor", [x], [T.FLOAT], n_supports=5, support_vectors=numbers(5, 4),
         coefficients=numbers(5), rho=[-0.2], one_class=1, kernel_type="RBF", kernel_params=KERNELS["RBF"])
    save(out, "svm_regressor_no_vectors", "SVMRegressor", [x], [T.FLOAT], coefficients=numbers(4), rho=[-0.2],
         kernel_type="LINEAR", kernel_params=KERNELS["LINEAR"])
    save(out, "svm_classifier_no_vectors", "SVMClassifier", [x], [T.INT64, T.FLOAT], coefficients=numbers(12), rho=[-0.2],
         classlabels_ints=[0, 1, 2], kernel_type="LINEAR", kernel_params=KERNELS["LINEAR"])
    save(out, "svm_classifier_double", "SVMClassifier", [x.astype(np.float64)], [T.INT64, T.FLOAT], coefficients=numbers(12),
         rho=[-0.2], classlabels_ints=[0, 1, 2], kernel_type="LINEAR", kernel_params=KERNELS["LINEAR"])
    for post in TRANSFORMS[1:]:
        for classes in (2, 3):
            pairs = classes * (classes - 1) // 2
            save(out, f"svm_classifier_{classes}_{post.lower()}", "SVMClassifier", [x], [T.INT64, T.FLOAT], post_transform=post,
                 classlabels_ints=[4, 5, 6][:classes], vectors_per_class=[2] * classes, rho=numbers(pairs),
                 support_vectors=numbers(2 * classes, 4), coefficients=numbers(classes - 1, 2 * classes),
                 kernel_type="RBF", kernel_params=KERNELS["RBF"])


def ensembles(out):
    """TreeEnsemble, which takes modes and transforms by number: one tree of three nodes and four leaves.  ONNX Runtime counts LOGISTIC
    before SOFTMAX, the specification behind it."""
    x = normal(7, 3)
    tree = {
        "tree_roots": [0],
        "nodes_featureids": [0, 1, 2],
        "nodes_modes": h.make_tensor("modes", T.UINT8, (3,), [0, 0, 0]),
        "nodes_splits": h.make_tensor("splits", T.FLOAT, (3,), [0.1, 0.2, -0.3]),
        "nodes_truenodeids": [1, 0, 2],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": h.make_tensor("weights", T.FLOAT, (4,), [0.6, 0.9, -0.4, 0.3]),
    }
    for number, post in enumerate(TRANSFORMS):
        save(out, "tree_ensemble_" + post.lower(), "TreeEnsemble", [x], [T.FLOAT], version=5, n_targets=2,
             post_transform=number, for_ort={"post_transform": [0, 2, 1, 3][number]}, **tree)


def forest(prefix, trees, classes, positive=False, mode="BRANCH_LEQ"):
    """Trees of depth 2 over 4 features; every leaf weighs all the classes."""
    nodes = [(t, n) for t in range(trees) for n in range(7)]
    leaves = [(t, n, k) for t, n in nodes if n >= 3 for k in classes]
    inner = [n < 3 for _, n in nodes]
    weights = RNG.rand(len(leaves)) / trees if positive else RNG.randn(len(leaves))
    return {
        "nodes_treeids": [t for t, _ in nodes],
        "nodes_nodeids": [n for _, n in nodes],
        "nodes_featureids": [int(RNG.randint(4)) if i else 0 for i in inner],
        "nodes_values": [float(np.float32(RNG.randn() * 0.7)) if i else 0.0 for i in inner],
        "nodes_modes": [mode if i else "LEAF" for i in inner],
        "nodes_truenodeids": [2 * n + 1 if n < 3 else 0 for _, n in nodes],
        "nodes_falsenodeids": [2 * n + 2 if n < 3 else 0 for _, n in nodes],
        "nodes_missing_value_tracks_true": [int(RNG.randint(2)) for _ in nodes],
        f"{prefix}_treeids": [t for t, _, _ in leaves],
        f"{prefix}_nodeids": [n for _, n, _ in leaves],
        f"{prefix}_ids": [k for _, _, k in leaves],
        f"{prefix}_weights": weights.astype(np.float32).tolist(),
    }


def trees(out):
    x = normal(12, 4)
    x[3] = np.nan
    for aggregate in ["SUM", "AVERAGE", "MIN", "MAX"]:
        save(out, "tree_regressor_" + aggregate.lower(), "TreeEnsembleRegressor", [x], [T.FLOAT], n_targets=2,
             aggregate_function=aggregate, base_values=[0.5, -1.0], **forest("target", 5, [0, 1]))
    for mode in ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"]:
        save(out, "tree_regressor_" + mode.lower(), "TreeEnsembleRegressor", [x], [T.FLOAT], n_targets=1,
             **forest("target", 3, [0], mode="BRANCH_" + mode))
    for post in TRANSFORMS:
        for positive in (True, False):
            sign = "positive" if positive else "mixed"
            save(out, f"tree_classifier_3_{post.lower()}_{sign}", "TreeEnsembleClassifier", [x], [T.INT64, T.FLOAT],
                 classlabels_int64s=[7, 8, 9], post_transform=post, **forest("class", 5, [0, 1, 2], positive))
            for only in (0, 1):
                save(out, f"tree_classifier_only_{only}_{post.lower()}_{sign}", "TreeEnsembleClassifier", [x],
                     [T.STRING, T.FLOAT], classlabels_strings=["n", "y"], post_transform=post,
                     **forest("class", 5, [only], positive))
    save(out, "tree_classifier_base", "TreeEnsembleClassifier", [x], [T.STRING, T.FLOAT],
         classlabels_strings=["n", "y"], base_values=[0.25], **forest("class", 5, [0]))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "ml")
    simple(out)
    linear(out)
    trees(out)
    probit(out)
    vectors(out)
    ensembles(out)


if __name__ == "__main__":
    main()
