"""One runtime with one model in a process of its own, driven line by line by bench/compare.

usage: worker.py RUNTIME MODEL.onnx INPUTS.npz THREADS OUTPUTS.npz time|memory

Says one line of JSON when it is ready (or why it can't be): with `memory`, it is about the memory that a run writes.  Then it answers each number of seconds read from stdin with the
times, in nanoseconds, of the runs that it made in that time: at least one.
"""
import gc
import json
import os
import pathlib
import sys
import time

import numpy

import written


def resident_bytes(field):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def timed_run(runtime):
    start = time.perf_counter_ns()
    runtime.run()
    return time.perf_counter_ns() - start


def main():
    # What the libraries print must not get into the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    name, model, inputs_path, threads, outputs_path, what = sys.argv[1:]
    if what == "memory":
        written.use_small_pages()
    # The module of the runtime is loaded before memory is counted: its code is not the model's doing.
    __import__(name)
    from runtimes import RUNTIMES

    with numpy.load(inputs_path) as archive:
        inputs = {key: archive[key] for key in archive.files}
    try:
        if hasattr(RUNTIMES[name], "prepare"):
            RUNTIMES[name].prepare(pathlib.Path(model), inputs)
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew here
        start_bytes = resident_bytes("VmRSS")
        start = time.perf_counter()
        runtime = RUNTIMES[name](pathlib.Path(model), inputs, int(threads))
        load_seconds = time.perf_counter() - start
        outputs = runtime.run()
    except Exception as error:  # whatever a peer throws at us is its answer about this model
        answer({"problem": f"{type(error).__name__}: {' '.join(str(error).split())}"})
        return
    numpy.savez(outputs_path, *[numpy.asarray(output) for output in outputs])
    del outputs
    for _ in range(3):
        timed_run(runtime)
    about = {"version": runtime.version, "load_seconds": load_seconds, "peak_bytes": resident_bytes("VmHWM") - start_bytes}
    if what == "memory":
        about["written_bytes"] = written.written_bytes(runtime.run)
        if hasattr(runtime, "least_bytes"):
            about["least_bytes"] = runtime.least_bytes()
    answer(about)

    gc.disable()
    for line in sys.stdin:
        end = time.perf_counter() + float(line)
        times = [timed_run(runtime)]
        while time.perf_counter() < end:
            times.append(timed_run(runtime))
        answer(times)


if __name__ == "__main__":
    main()
