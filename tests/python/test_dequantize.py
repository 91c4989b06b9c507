"""Block-quantized weights: each type's numbers are those of the package gguf, bit for bit, on random bytes."""
import gguf
import numpy as np
import pytest
import tercel

TYPES = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs",
         "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs", "tq1_0", "tq2_0", "mxfp4", "nvfp4"]


@pytest.mark.parametrize("name", TYPES)
def test_bits(name):
    kind = gguf.GGMLQuantizationType[name.upper()]
    size = gguf.GGML_QUANT_SIZES[kind][1]
    # Random bytes hold scales that are infinite or no numbers, too; there, which NaN it is doesn't matter.
    data = np.random.default_rng(7).integers(0, 256, (300, 8 * size), np.uint8)
    with np.errstate(all="ignore"):
        want = gguf.dequantize(data, kind)
    got = tercel.dequantize(data, name)
    assert got.shape == want.shape and got.dtype == want.dtype == np.float32
    numbers = ~np.isnan(want)
    assert np.array_equal(np.isnan(got), ~numbers)
    assert np.array_equal(got.view(np.uint32)[numbers], want.view(np.uint32)[numbers])


def test_shapes():
    assert tercel.dequantize(np.zeros((2, 3, 0), np.uint8), "q8_0").shape == (2, 3, 0)
    with pytest.raises(tercel.InvalidArgument, match="no whole number of blocks of 34"):
        tercel.dequantize(np.zeros(35, np.uint8), "q8_0")
    with pytest.raises(tercel.InvalidArgument, match="'f32' is not a block-quantized type; these are: q4_0, "):
        tercel.dequantize(np.zeros(4, np.uint8), "f32")
