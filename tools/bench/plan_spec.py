"""Which plan a benchmark runs: its name in a folder of plans, and the flags of qwenc that make it."""

import json
from dataclasses import dataclass
from pathlib import Path

# What plans hold beside bf16 weights: AdamW states in bf16 with stochastic rounding, or float32 states and masters.
STATE_FLAGS = {"bf16": ["--moment-type=bf16", "--masters=none"], "f32": []}
RECOMPUTE = ("none", "cheap", "full")


def configs_folder():
    """models/configs of the repository, or of a bundle."""
    parents = Path(__file__).resolve().parents
    return next((folder for up in (1, 2) if (folder := parents[up] / "models" / "configs").is_dir()),
                parents[2] / "models" / "configs")


def cut_config(path, layers):
    """The config's text with `layers` layers, or as it is (0); returns it and its number of layers."""
    config = json.loads(path.read_text())
    text = config.get("text_config", config)
    if layers:
        if layers > text["num_hidden_layers"]:
            raise ValueError(f"{path.stem} has {text['num_hidden_layers']} layers, asked for {layers}")
        text["num_hidden_layers"] = layers
        if "layer_types" in text:
            text["layer_types"] = text["layer_types"][:layers]
    return json.dumps(config), text["num_hidden_layers"]


@dataclass(frozen=True)
class PlanSpec:
    """One training step of a config cut to `layers` layers, on `ranks` ranks; what is not said is the comparison's."""

    config: str
    layers: int
    tokens: int = 8192
    ranks: int = 1
    states: str = "bf16"
    gradients: str = "f32"
    recompute: str = "cheap"

    def name(self):
        """<config>-<layers>l-<tokens>, as `qwen-bench step --plan-dir` looks for it, and what is not the comparison's."""
        parts = [self.config, f"{self.layers}l", str(self.tokens)]
        parts += [f"{self.ranks}r"] if self.ranks > 1 else []
        parts += [f"{self.states}-states"] if self.states != "bf16" else []
        parts += [f"{self.gradients}-gradients"] if self.gradients != "f32" else []
        parts += [self.recompute] if self.recompute != "cheap" else []
        return "-".join(parts) + ".fb"

    def flags(self):
        """Flags for qwenc, without the target."""
        flags = [f"--recompute={self.recompute}", *STATE_FLAGS[self.states]]
        flags += [f"--world-size={self.ranks}"] if self.ranks > 1 else []
        flags += [f"--grad-dtype={self.gradients}"] if self.gradients != "f32" else []
        return flags
