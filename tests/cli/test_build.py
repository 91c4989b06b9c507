"""tercel build, diff, refit, and engine files given to the other commands.

run-tests: command
"""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    """conv, relu, matmul, with weights larger than what is kept beside the graph."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
               for name, shape in (("w", (32, 16, 3, 3)), ("m", (32 * 8 * 8, 96)))]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"], name="relu"), helper.make_node("Flatten", ["r"], ["f"], name="flat"),
             helper.make_node("MatMul", ["f", "m"], ["y"], name="product")]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16, 8, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 96])], weights)
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def engine(tercel, net, tmp_path_factory):
    path = tmp_path_factory.mktemp("engine") / "net.tercel"
    result = tercel("build", net, "-o", path, "--threads", 2)
    assert result.returncode == 0, result.stderr
    assert "steps" in result.stdout
    return path


def outputs(tercel, model, folder, *options):
    result = tercel("run", model, "--shapes", "x=2x16x8x8", "--threads", 2, "--output-dir", folder, *options)
    assert result.returncode == 0, result.stderr
    return (folder / "output_0.pb").read_bytes()


def test_it_runs_as_the_model(tercel, net, engine, tmp_path):
    assert outputs(tercel, net, tmp_path / "a") == outputs(tercel, engine, tmp_path / "b")
    assert outputs(tercel, net, tmp_path / "a") == outputs(tercel, engine, tmp_path / "c", "--no-mmap")
    assert engine.stat().st_size < 1.2 * net.stat().st_size


def test_the_same_bytes(tercel, net, engine, tmp_path):
    result = tercel("build", f"--onnx={net}", f"--saveEngine={tmp_path}/again.tercel", "--threads=2")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "again.tercel").read_bytes() == engine.read_bytes()


def test_other_commands_take_it(tercel, engine):
    for arguments in (["bench", engine, "--shapes", "x=1x16x8x8", "--iterations", 2], ["check", engine], ["inspect", engine],
                      ["inspect", engine, "--plan"], ["inspect", engine, "--text"]):
        result = tercel(*arguments)
        assert result.returncode == 0, (arguments, result.stderr)
    result = tercel("explain", engine)
    assert result.returncode == 1 and "give the model" in result.stderr
    result = tercel("run", engine, "--dim", "n=1")
    assert result.returncode == 1 and "built already" in result.stderr


def test_inspect_as_json(tercel, engine):
    told = json.loads(tercel("inspect", engine, "--json", "-").stdout)
    assert told["format"] == 1 and not told["stripped"] and told["repacked"] == 0
    assert [section["name"] for section in told["sections"]][-1] == "weights"
    facts = dict(told["facts"])
    assert facts["source"] == "net.onnx" and facts["threads"] == "2"
    product = next(step for step in told["steps"] if step["op"] == "matmul")
    assert product["packing"].startswith("gemm.b.") and product["sources"] == ["product"]


def test_diff(tercel, net, engine, tmp_path):
    same = tercel("diff", engine, engine)
    assert same.returncode == 0 and same.stdout == "no difference\n"
    plain = tmp_path / "plain.tercel"
    assert tercel("build", net, "-o", plain, "--no-optimize", "--threads", 2).returncode == 0
    result = tercel("diff", engine, plain)
    assert result.returncode == 1
    assert "fact 'no-optimize': (none) -> 1" in result.stdout and "step 'relu': (none) -> pointwise" in result.stdout
    rows = json.loads(tercel("diff", engine, plain, "--json").stdout)
    assert {"kind": "fact", "name": "no-optimize", "what": "", "a": None, "b": "1"} in rows


def test_strip_and_refit(tercel, net, engine, tmp_path):
    small, whole = tmp_path / "small.tercel", tmp_path / "whole.tercel"
    assert tercel("build", net, "-o", small, "--strip-weights", "--threads", 2).returncode == 0
    assert small.stat().st_size < 20_000
    result = tercel("run", small, "--shapes", "x=1x16x8x8")
    assert result.returncode == 1 and "tercel refit" in result.stderr
    assert tercel("inspect", small).returncode == 0 and tercel("check", small).returncode == 0
    result = tercel("refit", small, net, "-o", whole)
    assert result.returncode == 0, result.stderr
    assert whole.read_bytes() == engine.read_bytes()


def test_refit_wants_the_right_model(tercel, net, tmp_path):
    other = onnx.load(net)
    other.graph.node[1].op_type = "Tanh"
    onnx.save(other, tmp_path / "other.onnx")
    assert tercel("build", net, "-o", tmp_path / "small.tercel", "--strip-weights").returncode == 0
    result = tercel("refit", tmp_path / "small.tercel", tmp_path / "other.onnx", "-o", tmp_path / "whole.tercel")
    assert result.returncode == 1 and "not the one that the engine was built from" in result.stderr
    assert not (tmp_path / "whole.tercel").exists()


def test_damage_is_told(tercel, engine, tmp_path):
    bytes_ = bytearray(engine.read_bytes())
    bytes_[-100] ^= 1
    (tmp_path / "damaged.tercel").write_bytes(bytes_)
    result = tercel("check", tmp_path / "damaged.tercel")
    assert result.returncode == 1 and "'weights' is damaged" in result.stderr
    (tmp_path / "short.tercel").write_bytes(bytes_[:9000])
    result = tercel("run", tmp_path / "short.tercel")
    assert result.returncode == 1 and "cut short" in result.stderr


def test_wrong_usage(tercel, net, engine, tmp_path):
    assert "-o FILE is missing" in tercel("build", net).stderr
    assert "does not choose precisions yet" in tercel("build", net, "-o", tmp_path / "x", "--fp16").stderr
    assert "is an engine file already" in tercel("build", engine, "-o", tmp_path / "x").stderr
    assert "MODEL is missing" in tercel("build", "-o", tmp_path / "x").stderr
