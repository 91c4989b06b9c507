"""The runtimes that are compared: a class each, made from a model's path, its inputs and a number of threads.

run() runs once and returns the outputs as arrays, valid until the next run.  prepare(), where there is one, is what a user does
once and for all beforehand.  All work in float32, with `threads` threads on one request at a time.
"""
import importlib.util
import pathlib
import re
import shutil
import subprocess

import numpy

CONVERTED = pathlib.Path(__file__).resolve().parent.parent / "build/bench/ncnn"


class Unsupported(Exception):
    """The runtime can't run this model; the text says why."""


class Tercel:
    def __init__(self, path, inputs, threads):
        import tercel
        self.version = tercel.__version__
        self.session = tercel.Session(str(path), threads=threads)
        self.inputs = inputs

    def run(self):
        return self.session.run(None, self.inputs)

    def least_bytes(self):
        return self.session.memory()["peak_live_bytes"]


class OnnxRuntime:
    def __init__(self, path, inputs, threads):
        import onnxruntime
        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.inputs = inputs

    def run(self):
        return self.session.run(None, self.inputs)


class OpenVino:
    def __init__(self, path, inputs, threads):
        import openvino
        self.version = openvino.__version__.split("-")[0]
        core = openvino.Core()
        model = core.read_model(path)
        names = {name: port for port in model.inputs for name in port.names}
        model.reshape({names[name]: array.shape for name, array in inputs.items()})
        compiled = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads,
                                                     "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"})
        self.request = compiled.create_infer_request()
        self.inputs = dict(inputs)
        self.outputs = compiled.outputs

    def run(self):
        self.request.infer(self.inputs, share_inputs=True)
        return [self.request.get_tensor(output).data for output in self.outputs]


class Ncnn:
    """ncnn has its own format: pnnx converts the model, for these input shapes, next to the copy of it that it needs."""

    @staticmethod
    def prepare(path, inputs):
        convert(path, inputs)

    def __init__(self, path, inputs, threads):
        import ncnn
        self.version = ncnn.__version__
        self.ncnn = ncnn
        param, weights, script = convert(path, inputs)
        # The script that pnnx writes beside the model knows which inputs and outputs have lost their batch dimension.
        givings = re.findall(r'ex\.input\("(\w+)", ncnn\.Mat\(\w+\.numpy\(\)([^)]*)\)', script)
        self.inputs = [(name, ncnn.Mat(array, **keywords(batch)).clone())
                       for array, (name, batch) in zip(inputs.values(), givings, strict=True)]
        names = re.findall(r'ex\.extract\("(\w+)"\)', script)
        takings = re.findall(r"from_numpy\(\w+\.numpy\(([^)]*)\)", script)
        self.outputs = [(name, keywords(batch)) for name, batch in zip(names, takings, strict=True)]
        self.net = ncnn.Net()
        self.net.opt.num_threads = threads
        self.net.opt.use_fp16_packed = self.net.opt.use_fp16_storage = self.net.opt.use_fp16_arithmetic = False
        self.net.opt.use_bf16_storage = False
        if self.net.load_param(str(param)) or self.net.load_model(str(weights)):
            raise Unsupported("ncnn does not load what pnnx made of it")

    def run(self):
        extractor = self.net.create_extractor()
        for name, array in self.inputs:
            extractor.input(name, array)
        results = []
        for name, options in self.outputs:
            status, result = extractor.extract(name)
            if status:
                raise Unsupported(f"ncnn fails at {name}: status {status}")
            results.append(numpy.array(result.numpy(**options)))  # the Mat dies with the extractor
        return results


def keywords(text):
    """{"batch_index": 0} out of ", batch_index=0"; {} out of nothing."""
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", text)}


def convert(path, inputs):
    """The model as ncnn's .param and .bin, and the text of pnnx's script about them; made once for a model and its shapes."""
    # Found without importing it: its Python side wants torch, its program does not.
    program = pathlib.Path(importlib.util.find_spec("pnnx").origin).with_name("pnnx")
    codes = {"float32": "f32", "int32": "i32", "int64": "i64"}
    shapes = ",".join(f"[{','.join(map(str, array.shape))}]{codes[array.dtype.name]}" for array in inputs.values())
    folder = CONVERTED / f"{path.stem}-{re.sub('[^0-9a-z]+', '-', shapes)}"
    param, weights, script = (folder / name for name in ("model.ncnn.param", "model.ncnn.bin", "model_ncnn.py"))
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / "model.onnx")
        program.chmod(0o755)
        result = subprocess.run([program, "model.onnx", "fp16=0", f"inputshape={shapes}"], cwd=folder, timeout=600,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if result.returncode or not script.exists():
            raise Unsupported(f"pnnx does not convert it (exit status {result.returncode})")
    return param, weights, script.read_text()


RUNTIMES = {"tercel": Tercel, "onnxruntime": OnnxRuntime, "openvino": OpenVino, "ncnn": Ncnn}
