"""The programs of examples/, built against the shared library, do what their first comment says.

run-tests: command
"""
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.fixture(scope="module")
def example(build):
    def call(name, *arguments):
        program = build / "examples" / name
        if name == "ocr" and not program.exists():
            pytest.skip("tercel was built without pictures")
        return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300)

    return call


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """Scores of three classes: how red, green and blue a picture is."""
    path = tmp_path_factory.mktemp("models") / "colours.onnx"
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["flat", "weights"], ["y"]),
             helper.make_node("Flatten", ["x"], ["flat"])][::-1]
    weights = np.kron(np.eye(3), np.ones((64, 1))).astype(np.float32) / 64
    graph = helper.make_graph(nodes, "colours", [value("x", TensorProto.FLOAT, [1, 3, 8, 8])], [value("y", TensorProto.FLOAT, [1, 3])],
                              [numpy_helper.from_array(weights, "weights")])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_classify(example, classifier, tmp_path):
    picture = tmp_path / "green.ppm"
    picture.write_bytes(b"P6 10 20 255\n" + bytes([10, 250, 100]) * 200)
    result = example("classify", classifier, picture)
    assert result.returncode == 0, result.stderr
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["1", "2", "0"]
    want = (np.array([10, 250, 100]) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    assert [float(line.split()[3]) for line in result.stdout.splitlines()] == pytest.approx(sorted(want)[::-1], abs=1e-4)


def test_classify_refuses(example, classifier, tmp_path):
    assert example("classify").returncode == 2
    (tmp_path / "x.ppm").write_bytes(b"P6 10 20 255\n123")
    result = example("classify", classifier, tmp_path / "x.ppm")
    assert result.returncode == 1 and "x.ppm" in result.stderr


def test_threads(example, classifier):
    result = example("threads", classifier, 3, 50)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("3 threads, 50 runs each: ")
    assert example("threads", classifier, 0).returncode == 2


def test_ocr_reads_the_page(example, fetched, tmp_path):
    result = example("ocr", fetched("ppocrv4-det.onnx"), fetched("ppocrv4-rec.onnx"), fetched("page.png"), tmp_path / "boxes.png")
    assert result.returncode == 0, result.stderr
    text, times = result.stdout.split("\n\n")
    lines = [line.split("  ", 1)[1].replace(" ", "") for line in text.splitlines()]
    assert lines[:4] == ["Region-basedsegmentation", "Letusfirstdeterminemarkersofthecoinsandthe",
                         "background.Thesemarkersarepixelsthatwecanlabel", "unambiguouslyaseitherobjectorbackground.Here,"]
    assert len(lines) == 7 and lines[5] == "histogramofgreyvalues:"
    assert all(stage in times for stage in ("load and build", "detect", "recognize", "all"))
    assert (tmp_path / "boxes.png").read_bytes()[:4] == b"\x89PNG"
