"""External data: where it may lie, and files of more than 2 GB."""
import subprocess

import numpy as np
import pytest
from onnx import TensorProto, helper

import tercel

WEIGHTS = np.arange(4, dtype=np.float32)


def write_model(path, location, offset=0, dims=(4,)):
    """x * w, with w in a file of its own."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    length = 4 * int(np.prod(dims))
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        weights.external_data.add(key=key, value=str(value))
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def products(session):
    return session.run(None, {"x": np.full(4, 2, np.float32)})[0]


@pytest.fixture
def cache(tmp_path):
    """A folder as model caches lay it out: what a snapshot shows are links to blobs."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "5eed").write_bytes(WEIGHTS.tobytes())
    write_model(blobs / "b10b", "net.onnx_data")
    (snapshot / "net.onnx").symlink_to("../../blobs/b10b")
    (snapshot / "net.onnx_data").symlink_to("../../blobs/5eed")
    return tmp_path


def test_cache_of_links(cache):
    net, blobs = cache / "snapshots" / "1" / "net.onnx", cache / "blobs"
    with pytest.raises(tercel.InvalidModel, match=f"is a link to '{blobs}/5eed', outside .* --allow-external '{blobs}' allows it"):
        tercel.Session(net)
    (cache / "other").mkdir()
    for folders in (blobs, [str(cache / "other"), blobs], [cache]):
        np.testing.assert_array_equal(products(tercel.Session(net, allow_external=folders)), 2 * WEIGHTS)
    with pytest.raises(tercel.IOFailure, match="no-such"):
        tercel.Session(net, allow_external=[cache / "no-such"])
    with pytest.raises(tercel.InvalidModel, match="outside"):
        tercel.Session(net, allow_external=[cache / "other"])


@pytest.mark.parametrize("location", ["../blobs/5eed", "{cache}/blobs/5eed"])
def test_path_that_leaves_the_folder(cache, location):
    (cache / "models").mkdir()
    net = write_model(cache / "models" / "net.onnx", location.format(cache=cache))
    with pytest.raises(tercel.InvalidModel, match="lies outside the model's folder; --allow-external '"):
        tercel.Session(net)
    np.testing.assert_array_equal(products(tercel.Session(net, allow_external=cache / "blobs")), 2 * WEIGHTS)


@pytest.mark.parametrize("command", [["run"], ["inspect"], ["explain"], ["bench", "--warm-up", "1", "--duration", "0.01"]])
def test_commands_take_the_option(build, cache, command):
    net = cache / "snapshots" / "1" / "net.onnx"

    def call(*options):
        return subprocess.run([build / "tercel", *command, net, *options], capture_output=True, text=True, timeout=60)

    refused = call()
    assert refused.returncode != 0 and f"--allow-external '{cache}/blobs'" in refused.stderr
    allowed = call("--allow-external", cache / "snapshots", "--allow-external", cache / "blobs")
    assert allowed.returncode == 0, allowed.stderr


def test_more_than_2_gb(tmp_path):
    """Offsets beyond what 32 bits count; the file is a hole but for its last bytes."""
    offset = (5 << 30) + 64
    with open(tmp_path / "weights.bin", "wb") as file:
        file.seek(offset)
        file.write(WEIGHTS.tobytes())
    session = tercel.Session(write_model(tmp_path / "net.onnx", "weights.bin", offset))
    np.testing.assert_array_equal(products(session), 2 * WEIGHTS)


def test_tensor_of_more_than_2_gb(tmp_path):
    """One tensor of 2.5 GiB, most of it a hole: only what is looked at is read."""
    rows, last = 10 << 16, 3
    with open(tmp_path / "weights.bin", "wb") as file:
        file.truncate(rows * 1024 * 4)
        file.seek((rows - 1) * 1024 * 4)
        file.write(np.full(1024, 7, np.float32).tobytes())
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, 1024], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="weights.bin")
    graph = helper.make_graph([helper.make_node("Gather", ["w", "i"], ["y"])], "g",
                              [helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1024])], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    (y,) = tercel.Session(tmp_path / "net.onnx").run(None, {"i": np.array([0, rows - 1, -1, last])})
    np.testing.assert_array_equal(y[:, 0], [0, 7, 7, 0])
