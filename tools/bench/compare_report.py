"""Ratios, goals and a table out of the rows that a comparison collected."""

import statistics

# Which of our kernels stands against which peer's, and the ratio that is the goal: peer time / ours.
KERNEL_GOALS = [
    ("gated_delta", "fla", 2.5), ("gated_delta_grad", "fla", 2.5),
    ("attention", "flash-attention-2 varlen", 1.5), ("attention_grad", "flash-attention-2 varlen", 1.5),
    ("attention", "cudnn", None), ("attention_grad", "cudnn", None),
    ("causal_conv1d", "fla", None), ("causal_conv1d_grad", "fla", None),
    ("linear_cross_entropy_grad", "eager", None),
]
# The same of the cost of a block of layers.
STEP_GOALS = {"fla:packed:ckpt": 1.5, "compiled:packed:keep": 1.05}
# Of what a copy moves: for generated kernels that touch more than what a launch costs.
GROUP_GOAL, GROUP_BYTES = 0.85, 32e6
STRONGEST_PEER = "compiled:packed:keep"
BLOCK_LAYERS = 4


def line(row):
    """A row on one short line, for the terminal."""
    names = ("kernel", "symbol", "peer", "kernels", "batch", "activations", "model", "shape", "documents", "layers", "plan", "error")
    parts = [row["bench"], row.get("side", "")]
    parts += [str(row[name]) for name in names if name in row and not isinstance(row[name], list)]
    if "median_ms" in row:
        parts.append(f"{row['median_ms']:.4g} ms ({row['min_ms']:.4g}-{row['max_ms']:.4g})")
    parts += [f"{name} {row[name]}" for name in ("tflops", "tbps", "of_floor", "of_copy", "launch", "mfu", "gpu_operations", "copy_tbps", "block_ms")
              if name in row]
    return "  ".join(part for part in parts if part)


class Times:
    """Milliseconds of one thing, over all its measurements."""

    def __init__(self, rows):
        self.median = statistics.median(row["median_ms"] for row in rows)
        self.least = min(row["min_ms"] for row in rows)
        self.most = max(row["max_ms"] for row in rows)
        self.medians = [row["median_ms"] for row in rows]

    def text(self):
        return f"{self.median:.4g} ({self.least:.4g}-{self.most:.4g})"


def select(rows, **wanted):
    return [row for row in rows if "error" not in row and all(row.get(name) == value for name, value in wanted.items())]


def spread(ours, peer):
    """Ratio of the medians, and the range that the medians of single measurements give."""
    ratios = [theirs / mine for theirs in peer.medians for mine in ours.medians]
    return peer.median / ours.median, min(ratios), max(ratios)


def configuration(row):
    return f"{row['kernels']}:{row['batch']}:{row['activations']}"


class BasicReport:
    """Markdown and checks out of rows."""

    def __init__(self, rows):
        self.rows = rows
        self.checks, self.text = [], []

    def check(self, what, value, passed):
        self.checks.append({"bench": "check", "what": what, "value": value, "passed": bool(passed)})

    def table(self, title, head, rows):
        if rows:
            self.text += ["", f"## {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
            self.text += ["| " + " | ".join(str(cell) for cell in cells) + " |" for cells in rows]

    def versions(self, cards, of_times):
        """`cards`: what is said of the card beside its name; `of_times`: what the tables hold beside times."""
        for row in select(self.rows, bench="machine"):
            self.text += [f"# {row['card']}{cards}, {row['date']}", "",
                          f"Commit {row['commit'] or 'unknown'}, driver {row['driver']}; `{row['command']}`."]
        for row in select(self.rows, bench="versions")[:1]:
            packages = ", ".join(f"{name} {value}" for name, value in row.items()
                                 if name not in ("bench", "side", "round", "ranks") and value)
            self.text += ["", f"Peers: {packages}."]
        self.text += ["", f"Times are medians (least-most over all samples){of_times}. Absolute times of different runs are "
                          "not to be compared, ratios of one run are; theirs is the range over single measurements."]

    def goals(self):
        self.table("Goals", ["goal", "found", ""],
                   [[check["what"], check["value"], "met" if check["passed"] else "**missed**"] for check in self.checks])

    def failures(self):
        failed = [row["error"] for row in self.rows if "error" in row]
        if failed:
            self.text += ["", "## Failed measurements", ""] + [f"- {text}" for text in failed]


class Report(BasicReport):
    def kernels(self):
        ours = select(self.rows, bench="kernel", side="ours")
        cells = []
        for kernel, peer_name, goal in KERNEL_GOALS:
            for peer_row in select(self.rows, bench="kernel", side="peer", kernel=kernel, peer=peer_name):
                place = {name: peer_row[name] for name in ("model", "tokens", "documents") if name in peer_row}
                mine = select(ours, kernel=kernel, **place)
                if not mine:
                    continue
                us, them = Times(mine), Times([peer_row])
                ratio, least, most = spread(us, them)
                launches = f"{peer_row['launch']}; eager {peer_row['eager_ms']:.4g}"
                cells.append([kernel, " ".join(f"{value}" for value in place.values()), us.text(),
                              f"{peer_name}, {launches}", them.text(), f"**{ratio:.2f}** ({least:.2f}-{most:.2f})"])
                if goal and place.get("model") == "27B":
                    count = f"{place['documents']} document{'' if place['documents'] == 1 else 's'}"
                    self.check(f"{kernel} against {peer_name}, {count}, at least {goal}",
                               f"{ratio:.2f} (called eagerly {peer_row['eager_ms'] / us.median:.2f})", ratio >= goal)
        self.table("Kernels, milliseconds", ["kernel", "model, tokens, documents", "ours", "peer", "peer's", "peer / ours"],
                   cells)
        self.own_kernels(ours)

    def own_kernels(self, ours):
        seen, cells = set(), []
        for row in ours:
            key = tuple(row.get(name) for name in ("kernel", "model", "shape", "documents"))
            if key in seen:
                continue
            seen.add(key)
            times = Times(select(ours, **{name: row.get(name) for name in ("kernel", "model", "shape", "documents")}))
            cells.append([row["kernel"], str(row.get("model", "")), row["shape"], str(row.get("documents", "")),
                          times.text(), f"{row['tflops']:.0f}", f"{row['tbps']:.2f}", f"{row['of_floor']:.2f}"])
        for row in select(self.rows, bench="ceilings")[:1]:
            self.text += ["", f"Ceilings in the same run: copy {row['copy_tbps']} TB/s, bf16 product "
                              f"{row['matrix_tflops']} TFLOP/s. Floor: bytes that must move or products, at these rates."]
        self.table("Our kernels", ["kernel", "model", "shape", "documents", "ms", "TFLOP/s", "TB/s", "of floor"], cells)
        for row in select(ours, kernel="causal_conv1d_grad", model="27B")[:1]:
            self.check("causal_conv1d_grad within 2 of its byte floor", f"{row['of_floor']:.2f}", row["of_floor"] <= 2)
        loss = select(ours, kernel="linear_cross_entropy_grad", model="27B")
        products = select(ours, kernel="loss_products", model="27B")
        if loss and products:
            ratio = Times(loss).median / Times(products).median
            self.check("loss within 1.1 of its three products", f"{ratio:.3f}", ratio <= 1.1)

    def groups(self):
        rows = [row for row in select(self.rows, bench="group") if "median_ms" in row]
        self.table("Generated kernels", ["kernel", "calls a step", "MB", "ms", "TB/s", "of a copy"],
                   [[row["symbol"], str(row["calls"]), f"{row['bytes'] / 1e6:.1f}", Times([row]).text(),
                     f"{row['tbps']:.2f}", f"{row['of_copy']:.2f}"] for row in rows])
        large = [row for row in rows if row["bytes"] >= GROUP_BYTES]
        if large:
            slow = [f"{row['symbol']} {row['of_copy']:.2f}" for row in large if row["of_copy"] < GROUP_GOAL]
            self.check(f"generated kernels at {GROUP_GOAL} of a copy, {len(large)} of {GROUP_BYTES / 1e6:.0f} MB and more",
                       "below: " + ", ".join(slow) if slow else "all", not slow)

    def steps(self):
        ours = select(self.rows, bench="step", side="ours")
        if not ours:
            return
        layers = sorted({row["layers"] for row in ours})
        groups = {"ours": ours}
        for row in select(self.rows, bench="step", side="peer"):
            groups.setdefault(configuration(row), []).append(row)
        times = {name: {depth: Times(found) for depth in layers if (found := select(rows, layers=depth, **(
            {} if name != "ours" else {"side": "ours"})))} for name, rows in groups.items()}
        self.step_table(groups, times, layers)
        if len(layers) > 1:
            self.blocks(times, layers[0], layers[-1])
            self.launches(ours, layers[0], layers[-1])
        self.memory(ours, groups, layers[-1])
        first = [row["first_step_s"] for row in select(ours, layers=layers[0], round=0)]
        if first:
            self.check(f"first step of the {layers[0]}-layer model within 10 s of start", f"{first[0]:.1f} s",
                       first[0] <= 10)

    def operations(self, peer):
        same = {name: peer[name] for name in ("kernels", "batch", "activations", "layers")}
        counted = select(self.rows, bench="operations", **same)
        return counted[0]["gpu_operations"] if counted else ""

    def step_table(self, groups, times, layers):
        cells = []
        for name, by_depth in times.items():
            for depth, found in by_depth.items():
                rows = select(groups[name], layers=depth)
                ours = name == "ours"
                memory = max(row.get("device_bytes", 0) if ours else row["peak_bytes"] for row in rows)
                kernels = rows[0]["gpu_kernels"] if ours else self.operations(rows[0])
                real = rows[0]["real_tokens"] if not ours else rows[0]["tokens"] / len(rows[0]["step_ms"])
                mine = times["ours"].get(depth)
                ratio = "{:.2f} ({:.2f}-{:.2f})".format(*spread(mine, found)) if mine and not ours else ""
                utilisation = f"{rows[-1]['mfu']:.3f} / {rows[-1]['hfu']:.3f}" if "mfu" in rows[-1] else ""
                cells.append([name, str(depth), found.text(), f"{real / found.median * 1e3:.0f}", utilisation,
                              str(kernels), f"{memory / 1e9:.1f}", ratio])
        self.table("Training steps", ["side", "layers", "ms a step", "tokens/s", "MFU / HFU", "GPU operations", "GB", "peer / ours"],
                   cells)

    def blocks(self, times, shallow, deep):
        def block(name, pick):
            return (pick(times[name][deep]) - pick(times[name][shallow])) * BLOCK_LAYERS / (deep - shallow)

        complete = [name for name in times if shallow in times[name] and deep in times[name]]
        if "ours" not in complete:
            return
        ours = block("ours", lambda found: found.median)
        cells = []
        for name in complete:
            peer = block(name, lambda found: found.median)
            extremes = sorted((d - s) * BLOCK_LAYERS / (deep - shallow) for d in times[name][deep].medians
                              for s in times[name][shallow].medians)
            cells.append([name, f"{peer:.2f} ({extremes[0]:.2f}-{extremes[-1]:.2f})", f"{peer / ours:.3f}"])
            if name in STEP_GOALS:
                self.check(f"block against {name}, at least {STEP_GOALS[name]}", f"{peer / ours:.3f}",
                           peer / ours >= STEP_GOALS[name])
        self.table(f"A block of {BLOCK_LAYERS} layers: slope from {shallow} to {deep} layers, optimizer included",
                   ["side", "ms", "to ours"], cells)

    def launches(self, ours, shallow, deep):
        counts = {depth: select(ours, layers=depth)[0] for depth in (shallow, deep)}
        a_layer = (counts[deep]["gpu_kernels"] - counts[shallow]["gpu_kernels"]) / (deep - shallow)
        self.check("GPU kernels a layer and step, at most 45", f"{a_layer:.2f}", a_layer <= 45)
        calls = counts[deep]["driver_calls"]
        self.check("driver calls a step, at most 10", str(calls), calls <= 10)

    def memory(self, ours, groups, deep):
        for row in select(ours, round=0):
            contexts = row["before_bytes"] + row["library_bytes"]
            error = (row["device_bytes"] - contexts - row["forecast_bytes"]) / row["forecast_bytes"]
            self.check(f"memory of {row['layers']} layers: forecast {row['forecast_bytes'] / 1e9:.3f} GB, context "
                       f"{row['before_bytes'] / 1e9:.3f} GB, libraries {row['library_bytes'] / 1e9:.3f} GB, on the card "
                       f"{row['device_bytes'] / 1e9:.3f} GB, within 1 %", f"{error:+.2%}", abs(error) <= 0.01)
        mine = [row["device_bytes"] for row in select(ours, layers=deep, round=0)]
        theirs = [row["peak_bytes"] for row in select(groups.get(STRONGEST_PEER, []), layers=deep)]
        if mine and theirs:
            self.check(f"memory at {deep} layers, no more than {STRONGEST_PEER}",
                       f"{mine[0] / 1e9:.1f} GB to {max(theirs) / 1e9:.1f} GB", mine[0] <= max(theirs))


def report(rows):
    """Adds the checks to the rows; returns the comparison as markdown."""
    made = Report(rows)
    made.versions("", "")
    made.kernels()
    made.groups()
    made.steps()
    made.goals()
    made.failures()
    rows += made.checks
    return "\n".join(made.text) + "\n"
