"""Engine files in Python: saved, loaded in place of a model, shared by processes."""
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tercel


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((2048, 1024)).astype(np.float32)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2048])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1024])],
                              [numpy_helper.from_array(w, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    made.metadata_props.add(key="author", value="a tern")
    return made.SerializeToString()


def test_an_engine_file_stands_for_the_model(model, tmp_path):
    session = tercel.Session(model, threads=1)
    session.save(tmp_path / "net.tercel")
    loaded = tercel.Session(tmp_path / "net.tercel", threads=1)
    x = np.random.default_rng(1).standard_normal((3, 2048)).astype(np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], loaded.run(None, {"x": x})[0])
    assert loaded.metadata == {"author": "a tern"}
    assert [node.name for node in loaded.get_inputs()] == ["x"]
    assert (tmp_path / "net.tercel").stat().st_size < 1.2 * len(model)


def test_what_is_settled_can_not_be_asked_for(model, tmp_path):
    tercel.Session(model).save(tmp_path / "net.tercel")
    with pytest.raises(ValueError, match="built already"):
        tercel.Session(tmp_path / "net.tercel", dims={"n": 1})


def test_stripped_engines_say_so(model, tmp_path):
    tercel.Session(model).save(tmp_path / "net.tercel", strip_weights=True)
    assert (tmp_path / "net.tercel").stat().st_size < 100_000
    with pytest.raises(ValueError, match="tercel refit"):
        tercel.Session(tmp_path / "net.tercel")


CHILD = """
import sys
import numpy as np
import tercel
session = tercel.Session(sys.argv[1], threads=1)
session.run(None, {"x": np.ones((1, 2048), np.float32)})
print("ready", flush=True)
sys.stdin.readline()
rss = pss = 0
mine = False
for line in open("/proc/self/smaps"):
    first = line.split()[0]
    if "-" in first and not first.endswith(":"):
        mine = line.rstrip().endswith(sys.argv[1])
    elif mine and first in ("Rss:", "Pss:"):
        rss += int(line.split()[1]) * (first == "Rss:")
        pss += int(line.split()[1]) * (first == "Pss:")
print(rss, pss, flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="smaps are Linux's")
def test_processes_share_the_weights(model, tmp_path):
    path = str(tmp_path / "net.tercel")
    tercel.Session(model, threads=1).save(path)
    children = [subprocess.Popen([sys.executable, "-c", CHILD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for _ in range(2)]
    try:
        for child in children:
            assert child.stdout.readline() == "ready\n"
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
            rss, pss = map(int, child.stdout.readline().split())
            assert rss > 8000, "the weights are in the mapping: 8 MB"
            assert pss < 0.6 * rss
    finally:
        for child in children:
            child.communicate("\n\n")
