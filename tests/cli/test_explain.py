"""tercel explain: what was made and refused, by the names in the file, with what it saves.

run-tests: command
"""
import json
import os
import re
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """conv, batch norm and relu, whose result a gate reads too."""
    rng = np.random.default_rng(7)

    def constant(name, *shape):
        return numpy_helper.from_array(rng.uniform(0.5, 1.5, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="the/conv"),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], name="the/norm"),
        helper.make_node("Relu", ["n"], ["r"], name="the/relu"),
        helper.make_node("Sigmoid", ["r"], ["g"], name="the/gate"),
        helper.make_node("Conv", ["r", "u"], ["d"], name="the/second"),
        helper.make_node("Mul", ["d", "g"], ["y"], name="the/product"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
                              [value("y", TensorProto.FLOAT, ["batch", 4, 8, 8])],
                              [constant("w", 4, 3, 1, 1), constant("u", 4, 4, 1, 1)] + [constant(n, 4) for n in "sbmv"])
    path = tmp_path_factory.mktemp("explain") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def explain(tercel, model, *options):
    result = tercel("explain", model, *options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_json(tercel, model):
    report = json.loads(explain(tercel, model, "--json", "-"))
    made = {(d["pass"], d["rule"]): d for d in report["made"]}
    assert "the/norm" in made["fold-scale", "factor"]["sources"]
    # the scaled result is neither written nor read: 4 x 8 x 8 floats, and the factors
    assert made["fold-scale", "factor"]["bytes_saved"] == 2 * 4 * 4 * 8 * 8 + 4 * 4
    assert made["fold-scale", "factor"]["flops_saved"] == 4 * 8 * 8
    first = next(step for step in report["steps"] if step["name"] == "the/conv")
    assert first["operator"] == "conv" and first["sources"] == "the/conv + the/norm + the/relu"
    assert report["after"]["nodes"] == len(report["steps"]) < report["before"]["nodes"]
    assert report["before"]["bytes"] - report["after"]["bytes"] == pytest.approx(sum(d["bytes_saved"] for d in report["made"]))
    assert [p["name"] for p in report["passes"]][0] == "shapes" and report["optimizer_ms"] > 0


def test_sizes_of_free_dims(tercel, model):
    """Bytes and flops follow the dims that are fixed."""
    one = json.loads(explain(tercel, model, "--json", "-"))
    three = json.loads(explain(tercel, model, "--json", "-", "--dim", "batch=3"))
    assert three["before"]["flops"] == 3 * one["before"]["flops"]


def test_text(tercel, model):
    text = explain(tercel, model)
    assert "1  fold-scale: factor, saved 2.1 kB and 256 FLOP\n          the/conv + the/norm\n" in text
    assert "near misses:" in text and "canonicalize: removes" not in text
    assert "canonicalize: removes" in explain(tercel, model, "--timing")
    for line in explain(tercel, model, "--measure").splitlines():
        if "fuse-epilogue: applies" in line:
            assert line.split()[5].endswith("%")
            break
    else:
        pytest.fail("no time of fuse-epilogue")


def test_near_miss(tercel, tmp_path):
    """The reader in the way is named."""
    value = helper.make_tensor_value_info
    w = numpy_helper.from_array(np.ones((2, 2, 1, 1), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), helper.make_node("Relu", ["c"], ["y"], name="relu"),
         helper.make_node("Softmax", ["c"], ["z"], name="other", axis=1)],
        "g", [value("x", TensorProto.FLOAT, [1, 2, 3, 3])],
        [value("y", TensorProto.FLOAT, [1, 2, 3, 3]), value("z", TensorProto.FLOAT, [1, 2, 3, 3])], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    assert "relu: 'c' is also read by softmax 'other'" in explain(tercel, tmp_path / "m.onnx")


def page(tercel, model, path):
    if not shutil.which("dot"):
        pytest.skip("Graphviz's dot is not installed (tools/setup page)")
    explain(tercel, model, "--html", path)
    return path.read_text()


def test_verify(tercel, model):
    result = tercel("explain", model, "--verify", "--all", "--dim", "batch=2")
    assert result.returncode == 0, result.stderr
    found = re.search(r"verified: (\d+) steps against their reference kernels, (\d+) against the file's nodes: all are right", result.stdout)
    assert found and int(found[1]) >= 2 and int(found[2]) >= 2
    assert re.search(r"conv \(conv\.\w+\): the/conv \+ the/norm", result.stdout)


def test_page(tercel, model, tmp_path):
    """One file, nothing fetched: the report and both graphs are in it."""
    text = page(tercel, model, tmp_path / "page.html")
    assert text.count("<svg") == 2 and "the/relu" in text
    data = text.split('id="data">')[1].split("</script>")[0]
    assert json.loads(data)["steps"] == json.loads(explain(tercel, model, "--json", "-"))["steps"]
    links = re.findall(r'(?:src|href)="([^"]*)"|url\(([^)]*)\)', text.split("<svg")[0])
    assert not links


def test_page_without_graphviz(tercel, model, tmp_path):
    result = tercel("explain", model, "--html", tmp_path / "page.html", env={**os.environ, "PATH": str(tmp_path)})
    assert result.returncode == 3 and "install dot" in result.stderr and not (tmp_path / "page.html").exists()


def test_page_in_a_browser(tercel, model, tmp_path):
    """The step that holds a node of the file is marked in both graphs, with its decisions beside them."""
    browser = shutil.which("chromium")
    if not browser:
        pytest.skip("Chromium is not installed (tools/setup page)")
    page(tercel, model, tmp_path / "page.html")
    result = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", f"--user-data-dir={tmp_path}/profile",
         "--dump-dom", f"file://{tmp_path}/page.html#the/norm"], capture_output=True, text=True, timeout=120)
    dom = result.stdout
    assert dom.count("node chosen") == 2  # the norm before, the convolution that took it in after
    assert "steps (1)" in dom and "the/conv + the/norm + the/relu" in dom and "fold-scale: factor" in dom
