"""The networks that the benchmark runs, and the inputs it gives them: seeded, of the shapes people use them with."""
import os
import pathlib

import numpy

CACHE = pathlib.Path(os.environ.get("TERCEL_CACHE") or pathlib.Path.home() / ".cache/tercel")


def floats(*shape):
    return lambda random: random.standard_normal(shape, dtype=numpy.float32)


def integers(low, high, dtype, *shape):
    return lambda random: random.integers(low, high, shape).astype(dtype)


def constant(value, dtype, *shape):
    return lambda random: numpy.full(shape, value, dtype)


def listed(values, dtype):
    return lambda random: numpy.array(values, dtype)


# name: {input: how it is made}
NETWORKS = {
    "magika": {"bytes": integers(0, 257, "int32", 1, 2048)},
    "ppocrv4-det": {"x": floats(1, 3, 384, 768)},
    "ppocrv4-rec": {"x": floats(1, 3, 48, 640)},
    "ppocrv2-cls": {"x": floats(1, 3, 48, 192)},
    "orientation-lcnet": {"x": floats(1, 3, 224, 224)},
    "layout-picodet": {"image": floats(1, 3, 800, 608)},
    "resnet50-thin": {"input_0": floats(1, 224, 224, 3)},
    "yolov8n-320": {"images": floats(1, 3, 320, 320)},
    "vit-s-focus": {"input_image": floats(1, 3, 224, 224)},
    "minilm-l3": {"input_ids": integers(1000, 30000, "int64", 1, 128),
                  "attention_mask": constant(1, "int64", 1, 128)},
    "minilm-l6-int8": {"input_ids": integers(1000, 30000, "int64", 1, 128),
                       "attention_mask": constant(1, "int64", 1, 128), "token_type_ids": constant(0, "int64", 1, 128)},
    "t5s-encoder-int8": {"input_ids": integers(3, 32000, "int64", 1, 36), "attention_mask": constant(1, "int64", 1, 36)},
    "t5s-decoder-int8": {"input_ids": integers(3, 32000, "int64", 1, 6), "encoder_hidden_states": floats(1, 36, 512),
                         "encoder_attention_mask": constant(1, "int64", 1, 36)},
    "speaker-lstm-int8": {"mel_window": floats(1, 80, 40)},
    "minimol-gnn": {"feat": floats(27, 85), "edge_feat": floats(56, 13), "edge_index": integers(0, 27, "int64", 2, 56),
                    "laplacian_eigvec": floats(27, 8), "laplacian_eigval": floats(27, 8), "rw_return_probs": floats(27, 16),
                    "batch": listed([0] * 14 + [1] * 13, "int64"), "graph_slots": constant(0, "float32", 2)},
    "knn-trees": {"input": integers(0, 8, "float32", 36, 4)},
    "silero-vad-half": {"input": floats(1, 576), "state": floats(2, 1, 128)},
    "silero-vad": {"input": floats(1, 576), "state": floats(2, 1, 128), "sr": constant(16000, "int64")},
    "dnsmos": {"input_1": floats(1, 144160)},
    "basic-pitch": {"serving_default_input_2:0": floats(1, 43844, 1)},
}


def path_of(name):
    return CACHE / f"{name}.onnx"


def inputs_of(name):
    random = numpy.random.default_rng(1)
    return {key: make(random) for key, make in NETWORKS[name].items()}
