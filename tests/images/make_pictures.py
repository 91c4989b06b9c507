"""Makes tests/images/cases: one small picture in many files, and beside each NAME.EXT the NAME.EXT.ppm that it decodes to.

    python tests/images/make_pictures.py            (Pillow, which needs libtiff, libwebp and OpenJPEG; numpy)

The pixels are Pillow's own, with transparency laid over white and 16 bits cut to 8 as tercel does it.  The files are fuzz seeds, too.
"""
import pathlib
import struct

import numpy as np
from PIL import Image, TiffImagePlugin

CASES = pathlib.Path(__file__).parent / "cases"
WIDTH, HEIGHT = 13, 9


def picture():
    """Smooth, with all channels different, and a hard edge."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    rgb = np.stack([x * 19, y * 28, 255 - x * 10 - y * 8], axis=2)
    rgb[3:6, 4:8] = (250, 20, 40)
    return rgb.astype(np.uint8)


def alpha():
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    return ((x * 37 + y * 59) % 256).astype(np.uint8)


def over_white(rgba):
    rgb, a = rgba[..., :3].astype(int), rgba[..., 3:].astype(int)
    return ((rgb * a + 255 * (255 - a) + 127) // 255).astype(np.uint8)


def keep(name, rgb):
    Image.fromarray(rgb).save(CASES / f"{name}.ppm")


def save(name, image, want=None, **options):
    """want: the pixels; None: what Pillow reads from the file."""
    path = CASES / name
    image.save(path, **options)
    if want is None:
        with Image.open(path) as back:
            want = over_white(np.array(back.convert("RGBA"))) if "A" in back.mode else np.array(back.convert("RGB"))
    keep(name, want)


def masked_bmp(name, bits, masks, pixels, want):
    """A BMP with channel masks behind a header of version 3; Pillow writes none."""
    header = struct.pack("<IiiHHIIiiII", 56, WIDTH, -HEIGHT, 1, bits, 3, 0, 0, 0, 0, 0) + struct.pack("<4I", *masks)
    stride = (WIDTH * bits + 31) // 32 * 4
    rows = b"".join(row.tobytes().ljust(stride, b"\0") for row in pixels)
    data = struct.pack("<2sIHHI", b"BM", 14 + len(header) + len(rows), 0, 0, 14 + len(header)) + header + rows
    (CASES / name).write_bytes(data)
    keep(name, want)


def bmps(rgb, a):
    for bits, mode in ((24, "RGB"), (8, "L"), (1, "1")):
        save(f"{bits}.bmp", Image.fromarray(rgb).convert(mode))
    save("palette.bmp", Image.fromarray(rgb).quantize(16))
    low = rgb.astype(np.uint16)
    packed = (low[..., 0] >> 3) << 11 | (low[..., 1] >> 2) << 5 | low[..., 2] >> 3
    want = np.stack([((low[..., c] >> shift) * 255 + top // 2) // top for c, shift, top in ((0, 3, 31), (1, 2, 63), (2, 3, 31))], 2)
    masked_bmp("565.bmp", 16, (0xf800, 0x07e0, 0x001f, 0), packed.astype("<u2"), want.astype(np.uint8))
    rgba = np.dstack([rgb, a])
    packed = rgba[..., [2, 1, 0, 3]].copy().view("<u4")[..., 0]
    masked_bmp("alpha.bmp", 32, (0xff0000, 0xff00, 0xff, 0xff000000), packed, over_white(rgba))


def tiffs(rgb, a):
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"):
        save(f"{compression.removeprefix('tiff_')}.tiff", Image.fromarray(rgb), compression=compression)
    save("alpha.tiff", Image.fromarray(np.dstack([rgb, a])))
    save("palette.tiff", Image.fromarray(rgb).quantize(16))
    save("group4.tiff", Image.fromarray(rgb).convert("1"), compression="group4")
    deep = rgb[..., 0].astype(np.uint16) * 257
    save("deep.tiff", Image.fromarray(deep), np.repeat(rgb[..., :1], 3, 2))
    turned = TiffImagePlugin.ImageFileDirectory_v2()
    turned[274] = 6  # the first row is the right side: not applied
    save("turned.tiff", Image.fromarray(rgb), rgb, tiffinfo=turned)


def main():
    CASES.mkdir(exist_ok=True)
    for path in CASES.iterdir():
        path.unlink()
    rgb, a = picture(), alpha()
    color, gray, both = Image.fromarray(rgb), Image.fromarray(rgb).convert("L"), Image.fromarray(np.dstack([rgb, a]))
    bmps(rgb, a)
    tiffs(rgb, a)
    save("444.jpg", color, quality=90, subsampling=0)
    save("420.jpg", color, quality=90, subsampling=2)
    save("progressive.jpg", color, quality=90, progressive=True)
    save("gray.jpg", gray)
    save("rgb.png", color)
    save("gray.png", gray)
    save("bits.png", gray.convert("1"))
    save("palette.png", color.quantize(16))
    save("deep.png", Image.fromarray(rgb[..., 0].astype(np.uint16) * 257), np.repeat(rgb[..., :1], 3, 2))
    save("opaque.png", Image.fromarray(np.dstack([rgb, np.full_like(a, 255)])))
    save("rgb.jp2", color)
    save("gray.jp2", gray)
    save("alpha.jp2", both)
    save("bare.j2k", color)
    save("lossy.jp2", color, irreversible=True)
    save("tiles.jp2", color, tile_size=(8, 8))
    save("lossless.webp", color, lossless=True)
    save("lossy.webp", color, quality=90)
    save("alpha.webp", both, lossless=True, exact=True)


if __name__ == "__main__":
    main()
