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


@pytest.fixture(scope="module")
def distances(tmp_path_factory):
    """A model of the operator that examples/custom_op.c brings."""
    path = tmp_path_factory.mktemp("models") / "distances.onnx"
    value = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Haversine", ["a", "b"], ["km"], "far", domain="example")], "distances",
                              [value("a", TensorProto.FLOAT, ["n", 2]), value("b", TensorProto.FLOAT, ["m", 2])],
                              [value("km", TensorProto.FLOAT, ["n", "m"])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opsets), path)
    return path


def test_custom_op(example, distances, classifier):
    result = example("custom_op", distances)
    assert result.returncode == 0, result.stderr
    table = [line.split() for line in result.stdout.splitlines()]
    assert [row[0] for row in table] == ["Paris", "Nairobi", "Quito", "Sydney"]
    km = np.array([row[1:] for row in table], float)
    assert (km == km.T).all() and (km.diagonal() == 0).all()
    assert km[0, 1] == pytest.approx(6484, abs=2)
    assert example("custom_op").returncode == 2
    assert example("custom_op", classifier).returncode == 1


@pytest.mark.parametrize("command, shown", [
    (["run", "--shapes", "a=3x2,b=4x2"], "output 'km'  f32 [3, 4]"),
    (["bench", "--shapes", "a=3x2,b=4x2", "--profile", "--duration", "0.1"], "custom"),
    (["inspect"], "example.Haversine    1"),
    (["inspect", "--plan"], "example.Haversine"),
    (["inspect", "--text"], '= "example.Haversine"(%a, %b)'),
    (["explain"], ""),
    (["check"], "runs"),
])
def test_custom_op_as_a_plugin(build, distances, command, shown):
    result = subprocess.run([build / "tercel", *command, distances, "--plugin", build / "examples/custom_op.so"],
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert shown in result.stdout


def test_plugins_that_are_none(build, distances, tmp_path):
    def call(*plugins):
        options = [word for plugin in plugins for word in ("--plugin", plugin)]
        return subprocess.run([build / "tercel", "inspect", distances, *options], capture_output=True, text=True, timeout=60,
                              cwd=build / "examples")

    assert call("custom_op.so").returncode == 0  # of this folder, not of the system's library path
    assert call().returncode == 3
    assert "nobody.so" in call("nobody.so").stderr
    (tmp_path / "text.so").write_text("no library")
    assert call(tmp_path / "text.so").returncode == 1
    assert "no function tercel_plugin_register" in call(build / "libtercel.so").stderr
    assert "the set has one" in call("custom_op.so", "custom_op.so").stderr


@pytest.mark.parametrize("file, language, mark, comment", [("custom_op.c", "c", "haversine", "/* {} */"), ("custom_op.c", "c", "load", "/* {} */"),
                                                           ("custom_op.py", "python", "haversine", "# {}")])
def test_the_guide_shows_the_example(source, file, language, mark, comment):
    """docs/custom-operators.md holds the marked parts of the examples, letter by letter."""
    _, code, _ = (source / "examples" / file).read_text().split(comment.format(f"[{mark}]") + "\n")
    assert f"```{language}\n{code.strip()}\n```" in (source / "docs/custom-operators.md").read_text()


def test_the_guide_to_adding_an_operator_shows_what_is_there(source):
    """Every line of code in docs/adding-an-operator.md stands in the list that it is about."""
    lists = [(source / "src" / name).read_text().splitlines() for name in ("ops/ops.inc", "import/onnx/builders.inc")]
    blocks = (source / "docs/adding-an-operator.md").read_text().split("```c\n")[1:]
    assert len(blocks) == len(lists)
    for block, lines in zip(blocks, lists):
        assert set(block.split("```")[0].splitlines()) <= set(lines)
