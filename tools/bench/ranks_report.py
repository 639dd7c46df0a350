"""Ratios, goals and tables out of the rows that a comparison on several GPUs collected."""

from compare_report import BLOCK_LAYERS, BasicReport, Times, line, select, spread  # noqa: F401  (line: for compare_ranks)

# Peer's time for a block of layers by ours, and our tokens/s a GPU by those of one GPU at the same depth.
BLOCK_GOAL, EFFICIENCY_GOAL = 1.6, 0.95
# Of the tokens/s a GPU on the fewest ranks, on the most; and what the whole model is to reach on eight.
SCALING_GOAL, EIGHT_RANKS_GOAL, WHOLE_MODEL_LAYERS = 0.97, 3500, 64
MEMORY_GOAL = 0.01


def kind(row):
    """What tells plans of one depth apart: "f32 states, full recompute"."""
    flags = row.get("flags", "")
    parts = ["bf16 states" if "--masters=none" in flags else "f32 states"]
    parts += ["bf16 gradients"] if "--grad-dtype=bf16" in flags else []
    parts += [f"recompute {word}" for word in ("none", "full") if f"--recompute={word}" in flags]
    return ", ".join(parts)


def name_of(row):
    return kind(row) if row["side"] == "ours" else f"{row['peer']}, {row['activations']}"


def rate(row, times):
    """Tokens/s of a GPU."""
    if row["side"] == "peer":
        return row["real_tokens"] / times.median * 1e3
    return row["tokens"] / len(row["step_ms"]) / row["ranks"] / times.median * 1e3


class Measured:
    """All rounds of one thing."""

    def __init__(self, rows):
        self.rows = rows
        self.times = Times(rows)
        self.row = rows[0]
        self.ranks, self.layers = self.row["ranks"], self.row["layers"]
        self.rate = rate(self.row, self.times)
        self.name = name_of(self.row)


def group(rows):
    """Measured things by ranks, layers and name."""
    found = {}
    for row in rows:
        found.setdefault((row["ranks"], row["layers"], name_of(row)), []).append(row)
    return {key: Measured(rows) for key, rows in sorted(found.items())}


class Report(BasicReport):
    def __init__(self, rows):
        super().__init__(rows)
        self.ours = group(select(rows, bench="step", side="ours"))
        self.peers = group(select(rows, bench="step", side="peer"))

    def steps(self):
        cells = []
        for measured in self.ours.values():
            row = measured.rows[-1]
            memory = max(row.get("device_bytes", 0) for row in measured.rows)
            utilisation = f"{row['mfu']:.3f} / {row['hfu']:.3f}" if "mfu" in row else ""
            cells.append([f"ours, {measured.name}", measured.ranks, measured.layers, measured.times.text(),
                          f"{measured.rate:.0f}", utilisation, row["gpu_kernels"], row["driver_calls"], f"{memory / 1e9:.1f}",
                          f"{measured.rows[0]['first_step_s']:.1f}", ""])
        for measured in self.peers.values():
            memory = max(row["peak_bytes"] for row in measured.rows)
            ratios = ["{:.2f} ({:.2f}-{:.2f})".format(*spread(ours.times, measured.times)) + f" {ours.name}"
                      for ours in self.ours.values() if (ours.ranks, ours.layers) == (measured.ranks, measured.layers)]
            cells.append([measured.name, measured.ranks, measured.layers, measured.times.text(), f"{measured.rate:.0f}", "", "",
                          "", f"{memory / 1e9:.1f}", "", "; ".join(ratios)])
        self.table("Training steps", ["side", "ranks", "layers", "ms a step", "tokens/s", "MFU / HFU", "GPU kernels",
                                      "driver calls", "GB", "first step, s", "peer / ours"], cells)
        for measured in self.ours.values():
            self.memory(measured)

    def memory(self, measured):
        row = measured.row
        if not row.get("device_bytes") or not row["gpu_kernels"]:
            return
        error = (row["device_bytes"] - row["before_bytes"] - row["library_bytes"]) / row["forecast_bytes"] - 1
        self.check(f"memory of {measured.layers} layers on {measured.ranks}, {measured.name}: forecast "
                   f"{row['forecast_bytes'] / 1e9:.2f} GB, libraries {row['library_bytes'] / 1e9:.2f} GB, on the card "
                   f"{row['device_bytes'] / 1e9:.2f} GB, within {MEMORY_GOAL:.0%}", f"{error:+.2%}", abs(error) <= MEMORY_GOAL)

    def blocks(self):
        """The cost of a block, by the depths of each name and number of ranks; peers beside ours."""
        cells, found = [], {}
        for side, all_measured in (("ours", self.ours), ("peer", self.peers)):
            depths = {}
            for measured in all_measured.values():
                depths.setdefault((measured.name, measured.ranks), []).append(measured)
            for (name, ranks), by_depth in depths.items():
                shallow, deep = min(by_depth, key=lambda m: m.layers), max(by_depth, key=lambda m: m.layers)
                if shallow.layers == deep.layers:
                    continue
                slopes = sorted((d - s) * BLOCK_LAYERS / (deep.layers - shallow.layers) for d in deep.times.medians
                                for s in shallow.times.medians)
                block = (deep.times.median - shallow.times.median) * BLOCK_LAYERS / (deep.layers - shallow.layers)
                found[side, name, ranks] = block
                cells.append([side, name, ranks, f"{shallow.layers} to {deep.layers}",
                              f"{block:.2f} ({slopes[0]:.2f}-{slopes[-1]:.2f})"])
        self.table(f"A block of {BLOCK_LAYERS} layers: slope between depths, optimizer included",
                   ["side", "what", "ranks", "layers", "ms"], cells)
        for (side, name, ranks), block in found.items():
            for (other, peer, count), theirs in found.items():
                if side == "ours" and other == "peer" and count == ranks:
                    self.check(f"block on {ranks} ranks, {name}, against {peer}, at least {BLOCK_GOAL}",
                               f"{theirs / block:.3f}", theirs / block >= BLOCK_GOAL)

    def efficiency(self):
        """Against one GPU at the same depth; of the whole model, plans of one kind against the fewest ranks."""
        for measured in self.ours.values():
            one = [m for m in self.ours.values() if m.ranks == 1 and m.layers == measured.layers]
            if measured.ranks == 1 or not one:
                continue
            best = max(m.rate for m in one)
            self.check(f"tokens/s a GPU on {measured.ranks} ranks, {measured.layers} layers, {measured.name}, of one GPU's, at "
                       f"least {EFFICIENCY_GOAL:.0%}", f"{measured.rate / best:.1%}", measured.rate >= EFFICIENCY_GOAL * best)
        whole = [m for m in self.ours.values() if m.layers == WHOLE_MODEL_LAYERS]
        for measured in whole:
            if measured.ranks == 8:
                self.check(f"tokens/s a GPU of all layers on 8 ranks, {measured.name}, at least {EIGHT_RANKS_GOAL}",
                           f"{measured.rate:.0f}", measured.rate >= EIGHT_RANKS_GOAL)
        for name in dict.fromkeys(m.name for m in whole):
            sizes = [m for m in whole if m.name == name]
            few, many = min(sizes, key=lambda m: m.ranks), max(sizes, key=lambda m: m.ranks)
            if few.ranks < many.ranks:
                self.check(f"tokens/s a GPU of all layers on {many.ranks} ranks, {name}, of those on {few.ranks}, at least "
                           f"{SCALING_GOAL:.0%}", f"{many.rate / few.rate:.1%}", many.rate >= SCALING_GOAL * few.rate)

    def others(self):
        cells = []
        for row in select(self.rows, bench="profile"):
            step = [m for m in self.ours.values() if m.row["plan"] == row["plan"]]
            part = f", {row['exposed_ms'] / step[0].times.median:.2%} of a step" if step else ""
            cells.append(["exposed communication", row["plan"], f"{row['exposed_ms']:.2f} ms{part}"])
        for row in select(self.rows, bench="train"):
            memory = f", {row['device_bytes'] / 1e9:.1f} GB ({row['memory_error']:+.2%})" if "memory_error" in row else ""
            mfu = f", MFU {row['mfu']:.3f}" if "mfu" in row else ""
            cells.append(["steps on text from random weights", row["plan"],
                          f"{row['median_ms']:.1f} ms{mfu}{memory}; loss {row['losses'][0]:.3f} to {row['losses'][-1]:.3f}"])
            self.check(f"losses of {row['plan']} finite and falling", "yes" if row["ok"] else "no", row["ok"])
        for row in select(self.rows, bench="save"):
            pauses = " and ".join(f"{pause:.2f}" for pause in row["pause_s"])
            cells.append(["training paused by a save", row["plan"], f"{pauses} s"])
        self.table("Communication, training and saves", ["what", "plan", "found"], cells)


def report(rows):
    """Adds the checks to the rows; returns the comparison as markdown."""
    made = Report(rows)
    made.versions(", several", "; tokens/s, GB and GPU kernels are those of a GPU")
    made.steps()
    made.blocks()
    made.efficiency()
    made.others()
    made.goals()
    made.failures()
    rows += made.checks
    return "\n".join(made.text) + "\n"
