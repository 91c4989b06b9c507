"""An operator of one's own in Python: example.Haversine, the distances between places on a sphere.

    custom_op.py MODEL

MODEL has two inputs f32[n, 2] and f32[m, 2], degrees of latitude and longitude, and gives f32[n, m]; custom_op.c does the same in C.
The part between the marks is the code in docs/custom-operators.md.
"""
import sys

# [haversine]
import numpy as np
import tercel

operators = tercel.Operators()


def infer(a, b, *, radius):
    return tercel.Spec(np.float32, (a.shape[0], b.shape[0]))


@operators.register("example", "Haversine", inputs=2, attributes={"radius": 6371.0}, infer=infer, pure=True)
def haversine(a, b, *, radius):
    (y0, x0), (y1, x1) = np.radians(a[:, None].astype(float)).T, np.radians(b[None].astype(float)).T
    h = np.sin((y1 - y0) / 2) ** 2 + np.cos(y0) * np.cos(y1) * np.sin((x1 - x0) / 2) ** 2
    return (2 * radius * np.arcsin(np.sqrt(np.minimum(h, 1)))).T.astype(np.float32)


# [haversine]

CITIES = {"Paris": (48.86, 2.35), "Nairobi": (-1.29, 36.82), "Quito": (-0.18, -78.47), "Sydney": (-33.87, 151.21)}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: custom_op.py MODEL")
    session = tercel.Session(sys.argv[1], operators=operators)
    places = np.array(list(CITIES.values()), np.float32)
    (km,) = session.run(None, {"a": places, "b": places})
    for city, row in zip(CITIES, km):
        print(f"{city:8}", *(f"{distance:8.0f}" for distance in row))


if __name__ == "__main__":
    main()
