"""Language models out of GGUF files: the logits of every architecture against numpy's, on small models with random weights.

numpy's side below is written from the architectures' papers and was checked against llama.cpp's logits on such models (1e-7)."""
import math

import gguf
import numpy as np
import pytest
import tercel

WIDTH, HEADS, KV_HEADS, HEAD, FEED, LAYERS, VOCABULARY, CONTEXT, TOKENS = 64, 4, 2, 32, 96, 4, 48, 64, 12

# What is special about each; the rest is Llama's form.
ARCHITECTURES = {
    "llama": dict(rotary="pairs", factors=True, scales="ffn"),
    "mistral3": dict(rotary="pairs", scales="ffn"),
    "granite": dict(rotary="pairs", keys=dict(embedding_scale=3.0, residual_scale=0.5, logit_scale=4.0)),
    "smollm3": dict(rotary="pairs", no_rotary=4),
    "qwen2": dict(rotary="halves", bias=True, tied=True),
    "qwen3": dict(rotary="halves", head_norm=True),
    "olmo2": dict(rotary="halves", row_norm=True, norms_after=True, window=5, window_period=4),
    "phi3": dict(rotary="halves", fused=True, base=20000.0),
    "gemma": dict(rotary="halves", gelu=True, embedding_scale=8.0, tied=True),
    "gemma2": dict(rotary="halves", gelu=True, embedding_scale=8.0, tied=True, post_norms=True, attention_cap=50.0, logit_cap=30.0,
                   window=5, window_period=2),
    "gemma3": dict(rotary="halves", gelu=True, embedding_scale=8.0, tied=True, post_norms=True, head_norm=True, window=5,
                   window_period=6, base=1000000.0, window_base=10000.0),
    "command-r": dict(rotary="pairs", layer_norm=True, parallel=True, tied=True, keys=dict(logit_scale=0.25)),
    "gpt2": dict(layer_norm=True, gelu=True, fused=True, positions=True, no_gate=True, bias=True, heads=HEADS),
}


def make_weights(spec, rng):
    """Names as in the file; matrices are [out, in]."""
    kv_heads = spec.get("heads", KV_HEADS)
    q, kv = HEADS * HEAD, kv_heads * HEAD
    weights = {}

    def add(name, *shape, about=0.0):
        weights[name] = (about + rng.normal(size=shape) * (0.2 if about else 1.2 / math.sqrt(shape[-1]))).astype(np.float32)

    def linear(name, rows, columns, bias=False, scale=False):
        add(f"{name}.weight", rows, columns)
        if bias:
            add(f"{name}.bias", rows)
        if scale:
            add(f"{name}.scale", 1, about=1.0)

    def norm(name, size):
        add(f"{name}.weight", size, about=1.0)
        if spec.get("layer_norm") and spec.get("bias"):
            add(f"{name}.bias", size)

    bias = spec.get("bias", False)
    add("token_embd.weight", VOCABULARY, WIDTH)
    if spec.get("positions"):
        add("position_embd.weight", CONTEXT, WIDTH)
    if spec.get("factors"):
        add("rope_freqs.weight", HEAD // 2, about=2.0)
    for layer in range(LAYERS):
        p = f"blk.{layer}."
        if not spec.get("norms_after"):
            norm(p + "attn_norm", WIDTH)
            if not spec.get("parallel"):
                norm(p + "ffn_norm", WIDTH)
        if spec.get("norms_after") or spec.get("post_norms"):
            norm(p + "post_attention_norm", WIDTH)
            norm(p + "post_ffw_norm", WIDTH)
        if spec.get("fused"):
            linear(p + "attn_qkv", q + 2 * kv, WIDTH, bias)
        else:
            linear(p + "attn_q", q, WIDTH, bias)
            linear(p + "attn_k", kv, WIDTH, bias)
            linear(p + "attn_v", kv, WIDTH, bias)
        if spec.get("head_norm"):
            norm(p + "attn_q_norm", HEAD)
            norm(p + "attn_k_norm", HEAD)
        if spec.get("row_norm"):
            norm(p + "attn_q_norm", q)
            norm(p + "attn_k_norm", kv)
        linear(p + "attn_output", WIDTH, q, spec.get("positions", False))
        fused_gate = spec.get("fused") and not spec.get("no_gate")
        scale = spec.get("scales") == "ffn"
        linear(p + "ffn_up", 2 * FEED if fused_gate else FEED, WIDTH, spec.get("no_gate", False), scale)
        if not fused_gate and not spec.get("no_gate"):
            linear(p + "ffn_gate", FEED, WIDTH, False, scale)
        linear(p + "ffn_down", WIDTH, FEED, spec.get("no_gate", False), scale)
    norm("output_norm", WIDTH)
    if not spec.get("tied"):
        linear("output", VOCABULARY, WIDTH)
    return weights


def write_file(path, name, spec, weights):
    writer = gguf.GGUFWriter(path, name)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED)
    writer.add_context_length(CONTEXT)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(spec.get("heads", KV_HEADS))
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_freq_base(spec.get("base", 10000.0))
    (writer.add_layer_norm_eps if spec.get("layer_norm") else writer.add_layer_norm_rms_eps)(1e-5)
    if "window" in spec:
        writer.add_sliding_window(spec["window"])
    for key, value in spec.get("keys", {}).items():
        writer.add_float32(f"{name}.{key}", value)
    for tensor, array in weights.items():
        writer.add_tensor(tensor, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Numpy:
    """The network in double, but for the cache, which holds halves."""

    def __init__(self, spec, weights):
        self.spec, self.weights = spec, {name: array.astype(np.float64) for name, array in weights.items()}

    def norm(self, x, name):
        if self.spec.get("layer_norm"):
            x = x - x.mean(-1, keepdims=True)
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * self.weights[name + ".weight"]
        return y + self.weights.get(name + ".bias", 0)

    def after(self, x, name):
        return self.norm(x, name) if name + ".weight" in self.weights else x

    def linear(self, x, name):
        y = x @ self.weights[name + ".weight"].T + self.weights.get(name + ".bias", 0)
        return y * self.weights.get(name + ".scale", 1)

    def activate(self, x):
        if self.spec.get("gelu"):
            return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return x / (1 + np.exp(-x))

    def windowed(self, layer):
        return "window" in self.spec and (layer + 1) % self.spec["window_period"] != 0

    def turn(self, x, layer):
        spec = self.spec
        if "rotary" not in spec or ("no_rotary" in spec and (layer + 1) % spec["no_rotary"] == 0):
            return x
        base = spec["window_base"] if self.windowed(layer) and "window_base" in spec else spec.get("base", 10000.0)
        frequencies = base ** (-2.0 * np.arange(HEAD // 2) / HEAD) / self.weights.get("rope_freqs.weight", 1)
        angles = np.arange(len(x))[:, None, None] * frequencies
        first, second = (slice(0, None, 2), slice(1, None, 2)) if spec["rotary"] == "pairs" else (slice(0, HEAD // 2), slice(HEAD // 2, None))
        a, b, y = x[..., first], x[..., second], np.empty_like(x)
        y[..., first], y[..., second] = a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)
        return y

    def attention(self, x, p, layer):
        spec, n = self.spec, len(x)
        kv_heads = spec.get("heads", KV_HEADS)
        if spec.get("fused"):
            q, k, v = np.split(self.linear(x, p + "attn_qkv"), [HEADS * HEAD, (HEADS + kv_heads) * HEAD], axis=1)
        else:
            q, k, v = (self.linear(x, p + "attn_" + which) for which in "qkv")
        if spec.get("row_norm"):
            q, k = self.norm(q, p + "attn_q_norm"), self.norm(k, p + "attn_k_norm")
        q, k, v = q.reshape(n, HEADS, HEAD), k.reshape(n, kv_heads, HEAD), v.reshape(n, kv_heads, HEAD)
        if spec.get("head_norm"):
            q, k = self.norm(q, p + "attn_q_norm"), self.norm(k, p + "attn_k_norm")
        q, k = self.turn(q, layer), self.turn(k, layer)
        k, v = k.astype(np.float16).astype(np.float64), v.astype(np.float16).astype(np.float64)
        k, v = np.repeat(k, HEADS // kv_heads, 1), np.repeat(v, HEADS // kv_heads, 1)
        scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(HEAD)
        if "attention_cap" in spec:
            scores = spec["attention_cap"] * np.tanh(scores / spec["attention_cap"])
        seen = np.tril(np.ones((n, n), bool))
        if self.windowed(layer):
            seen &= np.triu(np.ones((n, n), bool), 1 - spec["window"])
        scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        y = np.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), v)
        return self.linear(y.reshape(n, -1), p + "attn_output")

    def feed_forward(self, x, p):
        up = self.linear(x, p + "ffn_up")
        if self.spec.get("no_gate"):
            return self.linear(self.activate(up), p + "ffn_down")
        gate, up = np.split(up, 2, axis=1) if self.spec.get("fused") else (self.linear(x, p + "ffn_gate"), up)
        return self.linear(self.activate(gate) * up, p + "ffn_down")

    def logits(self, tokens):
        spec, keys = self.spec, self.spec.get("keys", {})
        x = self.weights["token_embd.weight"][tokens] * spec.get("embedding_scale", keys.get("embedding_scale", 1))
        if spec.get("positions"):
            x = x + self.weights["position_embd.weight"][:len(tokens)]
        residual = keys.get("residual_scale", 1)
        for layer in range(LAYERS):
            p = f"blk.{layer}."
            before = x if spec.get("norms_after") else self.norm(x, p + "attn_norm")
            y = self.after(self.attention(before, p, layer), p + "post_attention_norm")
            if spec.get("parallel"):
                x = x + y + self.feed_forward(before, p)
                continue
            x = x + residual * y
            y = self.feed_forward(x if spec.get("norms_after") else self.norm(x, p + "ffn_norm"), p)
            x = x + residual * self.after(y, p + "post_ffw_norm")
        x = self.linear(self.norm(x, "output_norm"), "token_embd" if spec.get("tied") else "output")
        if "logit_scale" in keys:
            x = x / keys["logit_scale"] if "residual_scale" in keys else x * keys["logit_scale"]
        return spec["logit_cap"] * np.tanh(x / spec["logit_cap"]) if "logit_cap" in spec else x


def run(session, caches, tokens, done, rows):
    n = len(tokens)
    feed = {"tokens": tokens.astype(np.int32), "positions": np.arange(done, done + n, dtype=np.int32),
            "firsts": np.array([0, n], np.int32), "lengths": np.array([done], np.int32),
            "tables": np.array([[1]], np.int32), "rows": np.array(rows, np.int32), **caches}
    return session.run(None, feed)[0]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits(name, tmp_path):
    spec, rng = ARCHITECTURES[name], np.random.default_rng(sum(map(ord, name)))
    weights = make_weights(spec, rng)
    path = tmp_path / "model.gguf"
    write_file(path, name, spec, weights)
    tokens = rng.integers(0, VOCABULARY, TOKENS)
    want = Numpy(spec, weights).logits(tokens)
    session = tercel.Session(path, threads=1)
    caches = {i.name: np.zeros((2, *i.shape[1:]), np.float16) for i in session.inputs if i.kind == "state"}
    assert len(caches) == 2 * LAYERS
    # At once, and again behind what the first tokens left in the cache: a few, then one by one.
    got = run(session, caches, tokens, 0, range(TOKENS))
    np.testing.assert_allclose(got, want, atol=3e-4 * np.abs(want).max())
    run(session, caches, tokens[:7], 0, [])
    for i in range(7, TOKENS):
        got = run(session, caches, tokens[i:i + 1], i, [0])
        np.testing.assert_allclose(got[0], want[i], atol=3e-4 * np.abs(want).max())


def test_unknown_architecture(tmp_path):
    write_file(tmp_path / "model.gguf", "nonsense", {}, {"token_embd.weight": np.zeros((2, 2), np.float32)})
    with pytest.raises(tercel.Unsupported, match="architecture 'nonsense' is not supported; these are: command-r, gemma, "):
        tercel.Session(tmp_path / "model.gguf")


def test_missing_tensor(tmp_path):
    weights = make_weights({"rotary": "pairs"}, np.random.default_rng(1))
    del weights["blk.2.ffn_down.weight"]
    write_file(tmp_path / "model.gguf", "llama", {}, weights)
    with pytest.raises(tercel.InvalidModel, match="tensor 'blk.2.ffn_down.weight' is missing"):
        tercel.Session(tmp_path / "model.gguf")


def test_a_state_is_written_in_place(tmp_path):
    write_file(tmp_path / "model.gguf", "llama", {}, make_weights({"rotary": "pairs"}, np.random.default_rng(1)))
    session = tercel.Session(tmp_path / "model.gguf")
    caches = {i.name: np.zeros((2, *i.shape[1:]), np.float32) for i in session.inputs if i.kind == "state"}
    with pytest.raises(tercel.InvalidArgument, match="is written in place: want a contiguous array of float16"):
        run(session, caches, np.zeros(3, int), 0, [0])
