"""How bench/compare shows its rows: the machine, a table, a plot."""
import math
import os
import pathlib
import platform
import statistics

TICKS = [0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.4, 2, 3, 5, 10]
WIDTHS = "{:18} {:24} {:>9} {:>7}  {:13} {:>9} {:>8}"


def load():
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def machine():
    cpu = platform.processor() or platform.machine()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    return {"cpu": cpu, "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release(), "load": load()}


def describe(about):
    return f"{about['cpu']}, {about['cpus']} CPUs; load at the start: {about['load']}"


def heading(threads):
    title = WIDTHS.format("network", "runtime", "ms", "ratio", "quartiles", "peak MB", "load ms")
    return f"\n{threads} thread{'s' if threads > 1 else ''}\n{title}"


def shortened(text, length=110):
    """Both ends of a long message: the kind of error stands at its beginning, the reason often at its end."""
    return text if len(text) <= length else f"{text[:length // 4]} ... {text[-3 * length // 4:]}"


def table(rows):
    lines = []
    for row in rows:
        name = row["network"] if row is rows[0] else ""
        if "problem" in row:
            lines.append(WIDTHS.format(name, row["runtime"], "-", "-", "", "", "").rstrip() + f"  {shortened(row['problem'])}")
            continue
        own = row["runtime"] == "tercel"
        lines.append(WIDTHS.format(name, f"{row['runtime']} {row['version']}", f"{row['ms']:.3f}",
                                   "" if own else f"{row['ratio']:.2f}",
                                   "" if own else f"{row['ratio_low']:.2f}-{row['ratio_high']:.2f}", f"{row['peak_mb']:.1f}",
                                   f"{row['load_ms']:.0f}").rstrip())
    return "\n".join(lines)


def memory_heading(threads, peers):
    """Ratios stand beside the peers' numbers; `least`: the largest set of values that live at one step of tercel's plan."""
    columns = "".join(f"{peer:>13} {'ratio':>6}" for peer in peers)
    return f"\n{threads} thread{'s' if threads > 1 else ''}, MB written by a run\n{'network':18} {'tercel':>9} {'least':>9}{columns}"


def memory_row(rows):
    own = rows[0]
    line = f"{own['network']:18} {own['mb']:9.2f} {own['least_mb']:9.2f}"
    for row in rows[1:]:
        line += f"{'-':>13} {'':>6}" if "problem" in row else f"{row['mb']:13.2f} {own['mb'] / row['mb']:6.2f}"
    return line


def summary(rows):
    lines = ["\ntercel's time over the other's (below 1: tercel is faster)"]
    for threads in sorted({row["threads"] for row in rows}):
        for runtime in dict.fromkeys(row["runtime"] for row in rows if row["runtime"] != "tercel"):
            ratios = [row["ratio"] for row in rows
                      if row["runtime"] == runtime and row["threads"] == threads and "ratio" in row]
            if ratios:
                mean = math.exp(statistics.fmean(map(math.log, ratios)))
                lines.append(f"  threads {threads}, {runtime:12} geometric mean {mean:.2f}, worst {max(ratios):.2f}, "
                             f"of {len(ratios)} networks")
    return "\n".join(lines)


def plot(rows, about, path):
    """One bar a network and runtime: tercel's speed relative to it, on a logarithmic axis with 1 in the middle."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    threads = sorted({row["threads"] for row in rows})
    figure, axes = pyplot.subplots(1, len(threads), squeeze=False, sharex=True, sharey=True, figsize=(6 * len(threads), 7))
    networks = list(dict.fromkeys(row["network"] for row in rows))
    runtimes = list(dict.fromkeys(row["runtime"] for row in rows if row["runtime"] != "tercel"))
    height = 0.8 / len(runtimes)
    for axis, number in zip(axes[0], threads):
        for index, runtime in enumerate(runtimes):
            shown = [row for row in rows if row["threads"] == number and row["runtime"] == runtime and "ratio" in row]
            places = [networks.index(row["network"]) + (index - (len(runtimes) - 1) / 2) * height for row in shown]
            speeds = [1 / row["ratio"] for row in shown]
            errors = [[max(0, speed - 1 / row["ratio_high"]) for speed, row in zip(speeds, shown)],
                      [max(0, 1 / row["ratio_low"] - speed) for speed, row in zip(speeds, shown)]]
            axis.barh(places, [speed - 1 for speed in speeds], height, left=1, xerr=errors, label=f"vs {runtime}",
                      error_kw={"elinewidth": 0.8})
        axis.set_xscale("log")
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_yticks(range(len(networks)), networks)
        axis.set_title(f"{number} thread{'s' if number > 1 else ''}")
        axis.set_xlabel("speed of tercel relative to the other (right: tercel is faster)")
    low, high = axes[0][0].get_xlim()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes[0][0].set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes[0][0].minorticks_off()
    axes[0][0].invert_yaxis()
    axes[0][0].legend()
    figure.suptitle(f"{about['cpu']}, {about['cpus']} CPUs", fontsize=10)
    figure.tight_layout()
    figure.savefig(path)
