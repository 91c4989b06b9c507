"""What the commands do, seen through their files: NumPy and onnx write the inputs and read the outputs.

run-tests: command
"""
import json
import xml.etree.ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def load_pb(path):
    return numpy_helper.to_array(onnx.load_tensor(path))


def test_run_summarizes(tercel, models):
    result = tercel("run", models / "relu.onnx", "--shapes", "x=3x4")
    assert result.returncode == 0, result.stderr
    assert "input 'x'  f32 [3, 4]  random" in result.stdout
    assert "output 'y'  f32 [3, 4]  min 0  max" in result.stdout


def test_seed_and_fill(tercel, models, tmp_path):
    outputs = []
    for number, options in enumerate((["--seed", 1], ["--seed", 1], ["--seed", 2], ["--fill", "ones"], ["--fill", "zeros"])):
        folder = tmp_path / str(number)
        result = tercel("run", models / "picture.onnx", "--output-dir", folder, *options)
        assert result.returncode == 0, result.stderr
        outputs.append(load_pb(folder / "output_0.pb"))
    assert np.array_equal(outputs[0], outputs[1]) and not np.array_equal(outputs[0], outputs[2])
    assert -1 <= outputs[0].min() < -0.9 and 0.9 < outputs[0].max() <= 1
    assert (outputs[3] == 1).all() and (outputs[4] == 0).all()


ARRAYS = {
    "FLOAT": np.array([[0.5, -1, np.inf], [np.nan, 1e-40, 3]], np.float32),
    "DOUBLE": np.array([[0.1, -1, 2], [3, 4, 5]]),
    "FLOAT16": np.array([[0.1, -1, 2], [3, 4, 5]], np.float16),
    "INT64": np.array([[1 << 62, -1, 2], [3, 4, 5]]),
    "INT8": np.array([[1, -1, 2], [3, 4, -128]], np.int8),
    "UINT8": np.array([[1, 255, 2], [3, 4, 5]], np.uint8),
    "BOOL": np.array([[True, False, True], [False, False, True]]),
    "STRING": np.array([["", "a", "Zürich"], ["naïve", "日本", "😀"]]),
    "COMPLEX64": np.array([[1 + 2j, 0, 1], [2, 3, 4j]], np.complex64),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("form", ["npy", "npz", "compressed", "fortran", "big-endian", "pb"])
def test_types_through_files(tercel, models, tmp_path, kind, form):
    array = ARRAYS[kind]
    path = tmp_path / ("x.pb" if form == "pb" else "x.npz" if form in ("npz", "compressed") else "x.npy")
    if form == "pb":
        tensor = numpy_helper.from_array(array.astype(object) if kind == "STRING" else array, "x")
        path.write_bytes(tensor.SerializeToString())
    elif form == "npz":
        np.savez(path, other=np.zeros(3), x=array)
    elif form == "compressed":
        np.savez_compressed(path, array)
    elif form == "fortran":
        np.save(path, np.asfortranarray(array))
    elif form == "big-endian":
        np.save(path, array.astype(array.dtype.newbyteorder(">")))
    else:
        np.save(path, array)
    for saved in ("npy", "pb"):
        result = tercel("run", models / f"identity_{kind}.onnx", "--input", f"x={path}", "--output-dir", tmp_path,
                        "--output-format", saved)
        assert result.returncode == 0, result.stderr
        got = np.load(tmp_path / "output_0.npy") if saved == "npy" else load_pb(tmp_path / "output_0.pb")
        if kind == "STRING":
            assert [str(text) for text in got.ravel()] == [str(text) for text in array.ravel()]
        else:
            assert got.dtype == array.dtype
            assert np.array_equal(got, array, equal_nan=array.dtype.kind in "fc")


def test_inputs_dir(tercel, models, tmp_path):
    np.save(tmp_path / "input_0.npy", np.array([1, 2], np.float32))
    (tmp_path / "b.pb").write_bytes(numpy_helper.from_array(np.array([10, 20], np.float32), "b").SerializeToString())
    result = tercel("run", models / "pair.onnx", "--inputs-dir", tmp_path, "--output-dir", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert load_pb(tmp_path / "out/output_0.pb").tolist() == [11, 22]


def test_raw_input(tercel, models, tmp_path):
    (tmp_path / "x.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    result = tercel("run", models / "relu.onnx", "--input", f"x={tmp_path}/x.bin", "--shapes", "x=2x4", "--output-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    assert load_pb(tmp_path / "output_0.pb").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    result = tercel("run", models / "relu.onnx", "--input", f"x={tmp_path}/x.bin", "--shapes", "x=3x4")
    assert result.returncode == 1 and "32 bytes" in result.stderr and "48" in result.stderr


def test_labels(tercel, models, tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, 9, 3, 7]], np.float32))
    (tmp_path / "labels.txt").write_text("cat\ndog\r\nbird\nfish")
    result = tercel("run", models / "relu.onnx", "--input", tmp_path / "x.npy", "--labels", tmp_path / "labels.txt", "--top", 2)
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("   ")]
    assert rows == [["1.", "1", "9.0000", "dog"], ["2.", "3", "7.0000", "fish"]]


def test_inspect(tercel, models):
    result = tercel("inspect", models / "relu.onnx")
    assert result.returncode == 0, result.stderr
    assert "'x'  f32 [n, 4]" in result.stdout and "purpose = test" in result.stdout and "second line" not in result.stdout
    assert "second line" in tercel("inspect", models / "relu.onnx", "--metadata").stdout
    assert "digraph" in tercel("inspect", models / "relu.onnx", "--dot").stdout
    for option in ("--text", "--plan"):
        result = tercel("inspect", models / "relu.onnx", option)
        assert result.returncode == 0 and result.stdout, result.stderr
    assert tercel("inspect", models / "relu.onnx", "--decisions").returncode == 0


def test_inspect_memory(tercel, models, tmp_path):
    result = tercel("inspect", models / "relu.onnx", "--memory", "--shapes", "x=1000x4", "--json", tmp_path / "memory.json",
                    "--svg", tmp_path / "memory.svg")
    assert result.returncode == 0, result.stderr
    assert "planned     16.0 kB (16000 bytes)" in result.stdout
    assert "the peak is at step 0, pointwise" in result.stdout
    plan = json.loads((tmp_path / "memory.json").read_text())
    assert plan["planned_bytes"] == plan["live_bytes"] == 16000 and plan["depends_on_data_from"] is None
    assert [block["bytes"] for block in plan["blocks"]] == [16000] and len(plan["steps"]) == 1
    assert xml.etree.ElementTree.parse(tmp_path / "memory.svg").getroot().tag.endswith("svg")
    free = tercel("inspect", models / "relu.onnx", "--memory")
    assert free.returncode == 1 and "input 'x', which has free dims: give --shapes" in free.stderr


def test_profiles_and_limits(tercel, models):
    profile = ["--minShapes=x:1x4", "--optShapes=x:8x4", "--maxShapes=x:1000x4"]
    assert "planned     16.0 kB" in tercel("inspect", models / "relu.onnx", "--memory", *profile).stdout
    result = tercel("run", models / "relu.onnx", *profile)
    assert result.returncode == 0 and "input 'x'  f32 [8, 4]" in result.stdout
    outside = tercel("run", models / "relu.onnx", *profile, "--shapes", "x=1001x4")
    assert outside.returncode == 1 and "input 'x' is [1001, 4], but profile 0 of 1 takes [1..1000, 4]" in outside.stderr
    for command in ("run", "inspect", "bench"):
        refused = tercel(command, models / "relu.onnx", *profile, "--max-memory", "15K")
        assert refused.returncode == 1 and "activations need 15.6 KiB, but max_memory allows 15 KiB" in refused.stderr
    wrong = tercel("run", models / "relu.onnx", "--minShapes=x:9x4", "--optShapes=x:8x4")
    assert wrong.returncode == 1 and "want min <= opt <= max" in wrong.stderr


def test_bench(tercel, models, tmp_path):
    result = tercel("bench", models / "relu.onnx", "--duration", 0, "--iterations", 7, "--warmUp=0", "--dumpProfile",
                    "--json", tmp_path / "bench.json")
    assert result.returncode == 0, result.stderr
    for word in ("throughput", "median", "p90", "p95", "p99", "GFLOP/s"):
        assert word in result.stdout
    report = json.loads((tmp_path / "bench.json").read_text())
    assert report["runs"] == 7 == len(report["latencies_ms"])
    latency = report["latency_ms"]
    assert latency["min"] <= latency["median"] <= latency["p90"] <= latency["p99"] <= latency["max"]
    assert sum(layer["share"] for layer in report["layers"]) == pytest.approx(1)


def test_bench_counts_what_is_not_repeated(tercel, models, tmp_path):
    result = tercel("bench", models / "relu.onnx", "--duration", 0, "--iterations", 20, "--warmUp=0", "--json",
                    tmp_path / "bench.json")
    assert result.returncode == 0, result.stderr
    assert "heap        0 allocations in 20 runs" in result.stdout and "new shapes  bound in" in result.stdout
    bench = json.loads((tmp_path / "bench.json").read_text())
    assert bench["allocations"] == 0 and bench["bind_ms"] > 0


def test_bench_batches(tercel, models, tmp_path):
    result = tercel("bench", models / "relu.onnx", "--batch", "1,2,8", "--duration", 0, "--iterations", 3, "--warmUp=0",
                    "--json", tmp_path / "batch.json", "--svg", tmp_path / "batch.svg")
    assert result.returncode == 0, result.stderr
    batches = json.loads((tmp_path / "batch.json").read_text())["batches"]
    assert [row["batch"] for row in batches] == [1, 2, 8]
    assert [row["activation_bytes"] for row in batches] == [16, 32, 128]
    assert xml.etree.ElementTree.parse(tmp_path / "batch.svg").getroot().tag.endswith("svg")
    fixed = tercel("bench", models / "pair.onnx", "--batch", "1,2")
    assert fixed.returncode == 1 and "its batch is fixed" in fixed.stderr
    for wrong in ("0", "2,1", "x", "1,,2"):
        assert tercel("bench", models / "relu.onnx", "--batch", wrong).returncode == 1
    assert tercel("bench", models / "relu.onnx", "--svg", tmp_path / "x.svg").returncode == 2


def test_bench_like_trtexec(tercel, models):
    result = tercel("bench", f"--onnx={models / 'relu.onnx'}", "--shapes=x:2x4", "--duration=0", "--iterations=3", "--warmUp=1",
                    "--percentile=50", "--infStreams=2", "--threads=1", "--json", "-")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["runs"] == 6 and report["streams"] == 2 and "p50" in report["latency_ms"]


# ---- pictures ----------------------------------------------------------------------------------------------------------


def write_png(path, pixels):
    """A PNG without any library: 8 bits, RGB."""
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def test_picture(tercel, models, tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (8, 12, 3), np.uint8)
    write_png(tmp_path / "picture.png", pixels)
    result = tercel("run", models / "picture.onnx", "--input", tmp_path / "picture.png", "--mean", "0.1,0.2,0.3", "--std", "0.5",
                    "--bgr", "--output-dir", tmp_path)
    assert result.returncode == 0, result.stderr
    want = ((pixels[:, :, ::-1] / 255 - [0.1, 0.2, 0.3]) / 0.5).transpose(2, 0, 1)[None]
    assert np.abs(load_pb(tmp_path / "output_0.pb") - want).max() < 1e-6


def test_picture_is_resized(tercel, models, tmp_path):
    pixels = np.repeat(np.repeat(np.arange(8 * 12 * 3, dtype=np.uint8).reshape(8, 12, 3), 2, 0), 2, 1)
    write_png(tmp_path / "picture.png", pixels)
    result = tercel("run", models / "picture.onnx", "--input", f"image={tmp_path / 'picture.png'}", "--scale", 1,
                    "--output-dir", tmp_path)
    assert result.returncode == 0 and "24 x 16 resized to 12 x 8" in result.stdout, result.stderr
    got = load_pb(tmp_path / "output_0.pb")[0].transpose(1, 2, 0)
    inner = np.s_[2:6, 2:10]  # a linear ramp stays what it is, away from the border and the wrap of u8
    want = np.arange(8 * 12 * 3).reshape(8, 12, 3)
    assert np.abs(got[inner] - want[inner])[want[inner] < 200].max() <= 1


# ---- test --------------------------------------------------------------------------------------------------------------


def make_case(folder, model, inputs, outputs):
    sets = folder / "test_data_set_0"
    sets.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.read_bytes())
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for number, array in enumerate(arrays):
            tensor = numpy_helper.from_array(array)
            (sets / f"{kind}_{number}.pb").write_bytes(tensor.SerializeToString())


def test_cases(tercel, models, tmp_path):
    x = np.array([[1, -2, 3, np.nan]], np.float32)
    y = np.array([[1, 0, 3, np.nan]], np.float32)
    make_case(tmp_path / "kind/good", models / "relu.onnx", [x], [y])
    make_case(tmp_path / "kind/close", models / "relu.onnx", [x], [y * np.float32(1.0009)])
    make_case(tmp_path / "kind/wrong", models / "relu.onnx", [x], [y * np.float32(1.01)])
    make_case(tmp_path / "kind/shape", models / "relu.onnx", [x], [y[0]])
    make_case(tmp_path / "kind/type", models / "relu.onnx", [x], [y.astype(np.float64)])
    make_case(tmp_path / "kind/missing", models / "relu.onnx", [], [y])
    result = tercel("test", tmp_path, "--verbose")
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert lines[-1] == "2 passed, 4 failed, 0 skipped"
    failures = {line.split("kind/")[1].split(":")[0]: line for line in lines if line.startswith("FAILED")}
    assert "2 of 4 elements differ" in failures["wrong"] and "element 0 is 1, want 1.0099" in failures["wrong"]
    assert "is f32 [1, 4], want f32 [4]" in failures["shape"] and "want f64" in failures["type"]
    assert "input_0.pb" in failures["missing"]

    (tmp_path / "index.tsv").write_text("kind\tname\trtol\tatol\nkind\twrong\t0.1\t0\nkind\tclose\t0\t0\n")
    assert tercel("test", tmp_path, "--filter", "wrong").stdout == "1 passed, 0 failed, 0 skipped\n"
    assert tercel("test", tmp_path, "--filter", "close").returncode == 1
    assert tercel("test", tmp_path / "kind/good", "--no-fork").stdout == "1 passed, 0 failed, 0 skipped\n"


def test_unsupported_cases(tercel, models, tmp_path):
    graph = helper.make_graph([helper.make_node("NoSuchOperator", ["x"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "odd.onnx")
    make_case(tmp_path / "case", tmp_path / "odd.onnx", [np.zeros(1, np.float32)], [np.zeros(1, np.float32)])
    result = tercel("run", tmp_path / "odd.onnx")
    assert result.returncode == 3 and "NoSuchOperator" in result.stderr
    assert tercel("test", tmp_path).stdout.endswith("0 passed, 1 failed, 0 skipped\n")
    result = tercel("test", tmp_path, "--skip-unsupported")
    assert result.returncode == 0 and "NoSuchOperator" in result.stdout and result.stdout.endswith("0 passed, 0 failed, 1 skipped\n")


def test_no_cases(tercel, tmp_path):
    result = tercel("test", tmp_path)
    assert result.returncode == 1 and result.stdout == "0 passed, 0 failed, 0 skipped\n" and "no folder" in result.stderr
