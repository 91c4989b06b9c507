#!/usr/bin/env python3
"""Make tests/models/cases: inputs for the real networks and what ONNX Runtime answers.

usage: make_cases.py MODELS OUT      MODELS: the folder that tools/fetch fills; OUT: normally tests/models/cases

Needs PyPI's onnx, onnxruntime, numpy and pillow, and Debian's espeak-ng and sox.  Everything written is small and
free to redistribute: pictures of scikit-image (page, astronaut, chelsea, coffee: BSD-3-Clause, public domain, CC0), speech by
espeak-ng of a sentence of ours, notes that are computed.

OUT/NAME.npz, stored without compression:
  input_K                 an input as it is; or one of
  input_K_i16             samples: divide by 32768 (f32)
  input_K_scale, _bias    with OUT/NAME.png: pixel * scale[c] + bias[c] in f32; _layout 0: N,C,H,W  1: N,H,W,C; _bgr 1: blue first
  output_K                what ONNX Runtime 1.32.0 (CPU, optimization off) gives, flattened, every output_K_stride-th element
  output_K_shape, output_K_max (largest magnitude of all), output_K_noise (largest change when optimization is on)
  output_K_moved          of networks that quantize as they go: the largest change when their inputs, or where these are whole numbers their
                          f32 weights, are multiplied by 1 +- 1e-7 (largest of MOVES tries)
silero-vad.npz also has speech_i16 and speech_probs: 512 new samples a call behind the 64 before them (zeros at first), the state handed on.
"""
import os
import subprocess
import sys
import tempfile
import wave

import numpy as np
import onnx
import onnxruntime as ort
from PIL import Image

KEEP = 2000  # elements kept of an output
MOVES = 40  # tries that measure how far a quantized network moves


def nudged(array, random):
    """x (1 +- 1e-7), each sign by chance: what a rounding more or less does"""
    some = np.abs(array) < 1e30  # a mask's least number would overflow
    return np.where(some, array * (1 + np.float32(1e-7) * some * random.choice([-1, 1], array.shape)), array).astype(np.float32)


def weights_nudged(path, random):
    """the network with all of its f32 weights nudged, as bytes"""
    model = onnx.load(path)
    for weight in model.graph.initializer:
        if weight.data_type == onnx.TensorProto.FLOAT:
            moved = nudged(onnx.numpy_helper.to_array(weight), random)
            weight.CopyFrom(onnx.numpy_helper.from_array(np.asarray(moved, np.float32), weight.name))
    return model.SerializeToString()


def session(path, optimize):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.graph_optimization_level = (ort.GraphOptimizationLevel.ORT_ENABLE_ALL if optimize
                                        else ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class Cases:
    def __init__(self, models, out):
        self.models, self.out = models, out
        ort.set_default_logger_severity(4)

    def path(self, name):
        return os.path.join(self.models, name + ".onnx")

    def moved(self, name, named, want):
        """how far each output moves when the inputs, or the weights, are nudged"""
        random = np.random.default_rng(1)
        has_floats = any(x.dtype == np.float32 for x in named.values())
        most = [0.0] * len(want)
        for _ in range(MOVES):
            s = session(self.path(name) if has_floats else weights_nudged(self.path(name), random), False)
            feeds = {k: nudged(x, random) if x.dtype == np.float32 else x for k, x in named.items()}
            most = [max(m, float(np.abs(a - b).max())) for m, a, b in zip(most, s.run(None, feeds), want)]
        return most

    def write(self, name, feeds, arrays, quantizes=False):
        """feeds: arrays in the order of the graph's inputs; arrays: what is kept of the inputs"""
        s = session(self.path(name), False)
        named = {i.name: f for i, f in zip(s.get_inputs(), feeds)}
        want = s.run(None, named)
        other = session(self.path(name), True).run(None, named)
        if quantizes:
            arrays |= {f"output_{k}_moved": np.float64(m) for k, m in enumerate(self.moved(name, named, want))}
        for k, (a, b) in enumerate(zip(want, other)):
            stride = max(1, -(-a.size // KEEP))
            arrays[f"output_{k}"] = a.reshape(-1)[::stride]
            arrays[f"output_{k}_stride"] = np.int64(stride)
            arrays[f"output_{k}_shape"] = np.array(a.shape, np.int64)
            arrays[f"output_{k}_max"] = np.float64(np.abs(a.astype(np.float64)).max())
            arrays[f"output_{k}_noise"] = np.float64(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
        file = os.path.join(self.out, name + ".npz")
        np.savez(file, **arrays)
        print(f"{name:20} {os.path.getsize(file):8} bytes")
        return want

    def picture(self, name, file, size, mean, std, nhwc=False, bgr=False, box=None):
        """mean and std in units of the pixel (0..255)"""
        image = Image.open(os.path.join(self.models, file)).convert("RGB")
        if box:
            image = image.crop(box)
        image = image.resize(size, Image.BILINEAR)
        image.save(os.path.join(self.out, name + ".png"), optimize=True)
        pixels = np.asarray(image).astype(np.float32)
        if bgr:
            pixels = pixels[:, :, ::-1]
        scale = (1 / np.asarray(std, np.float64)).astype(np.float32)
        bias = (-np.asarray(mean, np.float64) / std).astype(np.float32)
        x = pixels * scale + bias
        x = x[None] if nhwc else np.ascontiguousarray(x.transpose(2, 0, 1)[None])
        return self.write(name, [x], {"input_0_scale": scale, "input_0_bias": bias,
                                      "input_0_layout": np.int64(nhwc), "input_0_bgr": np.int64(bgr)})


def speech(text, voice="en"):
    """16 kHz i16 samples of a sentence"""
    with tempfile.TemporaryDirectory() as tmp:
        raw, wav = os.path.join(tmp, "a.wav"), os.path.join(tmp, "b.wav")
        subprocess.run(["espeak-ng", "-v", voice, "-s", "140", "-w", raw, text], check=True)
        subprocess.run(["sox", raw, "-r", "16000", "-c", "1", "-b", "16", "-D", wav], check=True)
        with wave.open(wav) as w:
            return np.frombuffer(w.readframes(w.getnframes()), "<i2")


def notes(count, rate):
    """four notes with overtones, one after the other"""
    t = np.arange(count) / rate
    wave_ = np.zeros(count)
    for i, f in enumerate((261.63, 329.63, 392.0, 440.0)):
        start = i * count // 4
        u = t[start:] - t[start]
        wave_[start:] += sum(np.sin(2 * np.pi * f * h * u) / h for h in (1, 2, 3)) * np.exp(-4 * u)
    return np.round(wave_ / np.abs(wave_).max() * 20000).astype(np.int16)


def plain(feeds):
    return {f"input_{k}": x for k, x in enumerate(feeds)}


def log_mel(samples, frames, bands):
    """frames x bands logarithms of energies, roughly as a front end makes them: any such picture of a voice will do"""
    hop, size = 160, 400
    rows = np.stack([samples[i * hop:i * hop + size] for i in range(frames)]) * np.hanning(size)
    power = np.abs(np.fft.rfft(rows, 512)) ** 2
    edges = (np.linspace(0, 1, bands + 1) ** 2 * (256 - bands) + np.arange(bands + 1)).astype(int)
    energy = np.stack([power[:, a:b].mean(1) for a, b in zip(edges, edges[1:])], 1)
    return np.log(energy + 1e-6).astype(np.float32)


def molecules(random):
    """two rings of 6 and 7 atoms as minimol's inputs: made-up features of the right kind"""
    atoms, edges = [6, 7], []
    for ring, first in zip(atoms, (0, 6)):
        for i in range(ring):
            edges += [(first + i, first + (i + 1) % ring), (first + (i + 1) % ring, first + i)]
    n, e = sum(atoms), len(edges)
    kinds = random.integers(0, 4, n)
    return [np.eye(85, dtype=np.float32)[kinds], np.eye(13, dtype=np.float32)[random.integers(0, 4, e)],
            np.array(edges, np.int64).T.copy(), random.uniform(-0.5, 0.5, (n, 8)).astype(np.float32),
            random.uniform(0, 2, (n, 8)).astype(np.float32), random.uniform(0, 0.5, (n, 16)).astype(np.float32),
            np.repeat(np.arange(2), atoms).astype(np.int64), np.zeros(2, np.float32)]


def small_integers_and_graphs(c, ids, mask, voice, chunk, state):
    """networks that quantize as they go, one of a graph, one of trees, and silero's small one"""
    feeds = [ids, mask, np.zeros_like(ids)]
    c.write("minilm-l6-int8", feeds, plain(feeds), quantizes=True)
    # "summarize: the falcon is a very fast bird." or nearly so in T5's vocabulary; then some tokens of an answer
    words = np.array([[21603, 10, 8, 18263, 106, 19, 3, 9, 182, 1006, 6894, 5, 1]], np.int64)
    feeds = [words, np.ones_like(words)]
    hidden, = c.write("t5s-encoder-int8", feeds, plain(feeds), quantizes=True)
    feeds = [np.array([[0, 71, 182, 1006]], np.int64), hidden, np.ones_like(words)]
    c.write("t5s-decoder-int8", feeds, plain(feeds), quantizes=True)
    feeds = [log_mel(voice[8000:].astype(np.float64) / 32768, 80, 40)[None]]
    c.write("speaker-lstm-int8", feeds, plain(feeds), quantizes=True)
    feeds = molecules(np.random.default_rng(1))
    c.write("minimol-gnn", feeds, plain(feeds))
    feeds = [np.array([[k, a, b, d] for k in (1, 3, 7, 15) for a in (0, 2) for b in (2, 5) for d in (0, 1)], np.float32)]
    c.write("knn-trees", feeds, plain(feeds))
    feeds = [chunk, state]
    c.write("silero-vad-half", feeds, plain(feeds))


def main(models, out):
    c = Cases(models, out)
    imagenet = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])
    half = dict(mean=[127.5] * 3, std=[127.5] * 3)
    line = (0, 20, 384, 44)
    c.picture("ppocrv4-det", "page.png", (384, 192), **imagenet)
    c.picture("ppocrv4-rec", "page.png", (384, 48), box=line, **half)
    c.picture("ppocrv2-cls", "page.png", (192, 48), box=line, **half)
    c.picture("orientation-lcnet", "page.png", (224, 224), **imagenet)
    c.picture("layout-picodet", "page.png", (608, 800), **imagenet)
    c.picture("yolov8n-320", "astronaut.png", (320, 320), mean=[0] * 3, std=[255] * 3)
    c.picture("resnet50-thin", "chelsea.png", (224, 224), mean=[104, 117, 123], std=[1] * 3, nhwc=True, bgr=True)
    c.picture("vit-s-focus", "coffee.png", (224, 224), **imagenet)

    ids = np.zeros((2, 16), np.int64)
    mask = np.zeros((2, 16), np.int64)
    # "the falcon is a very fast bird ." and "a small net" in BERT's uncased WordPiece vocabulary
    for row, tokens in enumerate(([101, 1996, 11684, 2003, 1037, 2200, 3435, 4743, 1012, 102], [101, 1037, 2235, 5658, 102])):
        ids[row, :len(tokens)], mask[row, :len(tokens)] = tokens, 1
    c.write("minilm-l3", [ids, mask], {"input_0": ids, "input_1": mask})

    source = ("#include <stdio.h>\n\nint main(void) {\n  for (int i = 0; i < 10; i++) printf(\"%d\\n\", i * i);\n  return 0;\n}\n" * 12).encode()
    head, tail = source[:1024], source[-1024:]
    x = np.full((1, 2048), 256, np.int32)
    x[0, :len(head)] = np.frombuffer(head, np.uint8)
    x[0, 2048 - len(tail):] = np.frombuffer(tail, np.uint8)
    c.write("magika", [x], {"input_0": x})

    tune = notes(43844, 22050)
    c.write("basic-pitch", [(tune.astype(np.float32) / 32768).reshape(1, -1, 1)], {"input_0_i16": tune.reshape(1, -1, 1)})

    voice = speech("A small and very fast falcon reads the network, and gives the right answer.")
    long = np.tile(voice, 4)[:144160].reshape(1, -1)
    c.write("dnsmos", [long.astype(np.float32) / 32768], {"input_0_i16": long})

    said = voice[:512 * 60]
    x = said.astype(np.float32) / 32768
    s = session(c.path("silero-vad"), False)
    state, context, probs, kept = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32), [], None
    for i in range(len(x) // 512):
        chunk = np.concatenate([context, x[512 * i:512 * i + 512]])[None]
        if i == 15:
            kept = (chunk, state)
        p, state = s.run(None, {"input": chunk, "state": state, "sr": np.array(16000, np.int64)})
        context = chunk[0, -64:]
        probs.append(p[0, 0])
    rate = np.array(16000, np.int64)
    c.write("silero-vad", [kept[0], kept[1], rate],
            {"input_0": kept[0], "input_1": kept[1], "input_2": rate, "speech_i16": said, "speech_probs": np.array(probs, np.float32)})
    print("speech probabilities:", np.round(probs[::6], 2))
    small_integers_and_graphs(c, ids, mask, voice, *kept)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
