#!/usr/bin/env python3
"""Writes the golden files of this folder: what transformers computes for tiny models and one ragged pack.

usage: make_golden.py [--configs DIR] [--out DIR] [--only NAME]      (packages: tools/requirements-golden.txt)

README.md beside this file says what each file holds. Nothing is written for a model on which transformers and the
float64 reference (reference.py) disagree by more than float32 rounding explains.
"""

import argparse
import copy
import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5Config, Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM, Qwen3_5VisionModel

import compact
import reference

PACKS = 16  # further packs of these lengths, for tensors of a few elements
SMALL = 4096  # elements; see update_errors
FLOAT32_EPSILON = 2.0**-23


@dataclass
class Hyper:
    """The optimiser's settings; they travel as scalars in adamw_f32.safetensors."""

    steps: int = 10
    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.5  # large, so that a tensor decayed by mistake, or not at all, shows
    max_norm: float = 1.0


@dataclass
class Case:
    """One golden model: its configs, its bf16-representable weights and its pack of documents."""

    name: str
    raw: dict
    text: Qwen3_5TextConfig
    weights: dict
    documents: list
    seed: int
    # A compact case has no checkpoint: compact.draw makes its weights, and its results are sketches.
    compact: bool = False
    lengths: list = field(default_factory=list)

    @property
    def key_rows(self):
        return self.text.linear_num_key_heads * self.text.linear_key_head_dim

    def stored(self, tensor):
        """The form of a large result in a file."""
        return compact.sketch(tensor) if self.compact else tensor

    @property
    def multimodal(self):
        return self.raw["model_type"] == "qwen3_5"

    @property
    def supervised(self):
        return sum(int((labels != -100).sum()) for _, labels in self.documents)

    def on_disk(self, name):
        """The name in the checkpoint of a parameter named as in a text-only model."""
        return name.replace("model.", "model.language_model.", 1) if self.multimodal else name


def draw(name, shape, generator):
    """Random weights that leave no convention untested: no norm is near its neutral value, decays span 100x."""
    normal = torch.randn(shape, generator=generator)
    uniform = torch.rand(shape, generator=generator)
    if name.endswith("linear_attn.A_log"):
        weight = torch.log(0.01 * 100**uniform)
    elif name.endswith("linear_attn.dt_bias"):
        weight = normal
    elif name.endswith("linear_attn.norm.weight"):
        weight = 1 + 0.25 * normal
    elif len(shape) == 1:
        weight = 0.25 * normal
    elif name.endswith("conv1d.weight"):
        weight = 0.5 * normal
    else:
        weight = shape[-1] ** -0.5 * normal
    if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
        weight = 0.5 * weight
    return weight


def align_queries_with_keys(config, weights):
    """Makes the query rows of each linear layer resemble its key rows.

    The first output of a document is (q . k) beta v, and the gated norm divides its length out again: a q . k near zero
    multiplies every rounding error before it. Trained models keep away from that point, random ones do not.
    """
    rows = config.linear_num_key_heads * config.linear_key_head_dim
    for name, weight in weights.items():
        if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
            weight[:rows] = 0.3 * weight[:rows] + 0.95 * weight[rows : 2 * rows]


def draw_documents(vocabulary, lengths, generator):
    """Documents (tokens, labels); labels are shifted, and a span of each of the long documents is not supervised."""
    documents = []
    for length in lengths:
        tokens = torch.randint(0, vocabulary, (length,), generator=generator)
        labels = torch.cat([tokens[1:], torch.tensor([-100])])
        documents.append((tokens, labels))
    documents[0][1][:10] = -100
    documents[2][1][20:31] = -100
    return documents


def build_case(path, seed, is_compact):
    raw = json.loads(path.read_text())
    if raw["model_type"] == "qwen3_5":
        text = Qwen3_5Config.from_dict(copy.deepcopy(raw)).text_config
    else:
        text = Qwen3_5TextConfig.from_dict(copy.deepcopy(raw))
    generator = torch.Generator().manual_seed(seed)
    shapes = {name: p.shape for name, p in Qwen3_5ForCausalLM(text).named_parameters()}
    # The last document crosses one chunk of 64, or two.
    case = Case(path.stem, raw, text, {}, [], seed, is_compact, [37, 5, 130 if is_compact else 70])
    if is_compact:
        case.weights = {name: compact.draw(name, shape, seed, case.key_rows) for name, shape in shapes.items()}
    else:
        weights = {name: draw(name, shape, generator) for name, shape in shapes.items()}
        align_queries_with_keys(text, weights)
        case.weights = {name: weight.bfloat16().float() for name, weight in weights.items()}
    case.documents = draw_documents(text.vocab_size, case.lengths, generator)
    return case


def build_model(case, dtype, attention):
    config = copy.deepcopy(case.text)
    config._attn_implementation = attention
    model = Qwen3_5ForCausalLM(config)
    missing, unexpected = model.load_state_dict(case.weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    return model.to(dtype).train()


def forward(model, tokens):
    return model(input_ids=tokens[None], use_cache=False).logits[0].float()


def negative_log_likelihood(logits, labels):
    return F.cross_entropy(logits, labels, ignore_index=-100, reduction="none")


def evaluate(case, model):
    """Logits, per-token nll, loss and gradients, one document at a time; gradients are summed in float32."""
    gradients = {name: torch.zeros(p.shape) for name, p in model.named_parameters()}
    logits, nll = [], []
    for tokens, labels in case.documents:
        model.zero_grad()
        out = forward(model, tokens)
        each = negative_log_likelihood(out, labels)
        (each.sum() / case.supervised).backward()
        for name, p in model.named_parameters():
            gradients[name] += p.grad.float()
        logits.append(out.detach())
        nll.append(each.detach())
    nll = torch.cat(nll)
    return {"logits": torch.cat(logits), "nll": nll, "loss": nll.sum() / case.supervised, "gradients": gradients}


def train(case, hyper, dtype=torch.float32, attention="eager"):
    """The same batch hyper.steps times with torch's AdamW and clipping on float32 weights, of which the model computes
    with a copy in `dtype`; nll [steps, tokens], loss and norm are those before each update."""
    masters = {name: torch.nn.Parameter(weight.clone()) for name, weight in case.weights.items()}
    matrices = [p for p in masters.values() if reference.decays(p)]
    vectors = [p for p in masters.values() if not reference.decays(p)]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": hyper.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=hyper.learning_rate, betas=(hyper.beta1, hyper.beta2), eps=hyper.epsilon, foreach=False,
    )
    model = build_model(case, dtype, attention)
    nll, losses, norms = [], [], []
    for _ in range(hyper.steps):
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(masters[name])
        got = evaluate(case, model)
        for name, p in masters.items():
            p.grad = got["gradients"][name]
        norms.append(torch.nn.utils.clip_grad_norm_(masters.values(), hyper.max_norm))
        optimizer.step()
        nll.append(got["nll"])
        losses.append(got["loss"])
    weights = {name: p.detach().clone() for name, p in masters.items()}
    return weights, torch.stack(nll), torch.stack(losses), torch.stack(norms)


def relative_error(got, want):
    """Frobenius norm of the difference over that of the wanted tensor."""
    want = want.double()
    return ((got.double() - want).norm() / want.norm()).float()


def parameter_errors(case, got, want, prefix):
    """prefix + name on disk -> relative error; A_log and dt_bias, of a few elements each, are joined over all layers.

    One of these alone may be a sum over tokens that cancels almost wholly, and then its relative error means nothing.
    """
    groups = {}
    for name in case.weights:
        joined = next((kind for kind in ("A_log", "dt_bias") if name.endswith(kind)), case.on_disk(name))
        groups.setdefault(joined, []).append(name)
    join = lambda tensors, names: torch.cat([tensors[name].flatten() for name in names])
    return {prefix + key: relative_error(join(got, names), join(want, names)) for key, names in groups.items()}


def update_errors(case, got, want):
    """As parameter_errors, with all tensors of fewer than SMALL elements joined.

    Adam gives an element whose gradient is less than its error a whole step in either direction. Such elements make the
    error, and a small tensor has too few of them for the ratio of two implementations to mean something.
    """
    join = lambda tensors, names: torch.cat([tensors[name].flatten() for name in names])
    groups = {"small": [name for name, weight in case.weights.items() if weight.numel() < SMALL]}
    groups |= {case.on_disk(name): [name] for name, weight in case.weights.items() if weight.numel() >= SMALL}
    return {"error.update." + key: relative_error(join(got, names), join(want, names)) for key, names in groups.items()}


def gradient_bound(case):
    """Largest relative float32 error of logits and gradients; README.md derives it."""
    return 64 * len(case.text.layer_types) * FLOAT32_EPSILON


def check(found, bound, what):
    worst = max(found, key=found.get)
    print(f"  {what}: largest relative error {found[worst]:.2e} ({worst}), bound {bound:.2e}")
    if not found[worst] <= bound:
        raise SystemExit(f"error: {what}: {worst} differs by {found[worst]:.2e}, more than {bound:.2e}")


def save(path, tensors):
    # A single key: safetensors writes several in an order that changes from run to run.
    made_with = f"torch {torch.__version__}, transformers {transformers.__version__}"
    tensors = {name: t.detach().contiguous().clone() for name, t in sorted(tensors.items())}
    save_file(tensors, path, metadata={"made_with": made_with})


def save_text_checkpoint(case, folder):
    build_model(case, torch.float32, "eager").save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)


def save_multimodal_checkpoint(case, folder, generator):
    """As Qwen 3.5 is published: two shards and an index, bf16 but for A_log and the gated norm, vision and MTP inside."""
    folder.mkdir(parents=True, exist_ok=True)
    published_float32 = ("linear_attn.A_log", "linear_attn.norm.weight")
    tensors = {}
    for name, weight in case.weights.items():
        tensors[case.on_disk(name)] = weight if name.endswith(published_float32) else weight.bfloat16()
    vision = Qwen3_5VisionModel(Qwen3_5Config.from_dict(copy.deepcopy(case.raw)).vision_config)
    extra = {"model.visual." + name: p.shape for name, p in vision.named_parameters()}
    hidden = case.text.hidden_size
    extra |= {"mtp.norm.weight": (hidden,), "mtp.fc.weight": (2, 2 * hidden)}
    tensors |= {name: torch.randn(shape, generator=generator).bfloat16() for name, shape in extra.items()}

    sizes = {name: t.numel() * t.element_size() for name, t in tensors.items()}
    total, weight_map, seen = sum(sizes.values()), {}, 0
    for name in sorted(tensors):
        weight_map[name] = f"model-0000{1 + (2 * seen >= total)}-of-00002.safetensors"
        seen += sizes[name]
    for shard in sorted(set(weight_map.values())):
        part = {name: tensors[name].contiguous() for name in sorted(tensors) if weight_map[name] == shard}
        save_file(part, folder / shard, metadata={"format": "pt"})
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    (folder / "config.json").write_text(json.dumps(case.raw, indent=2) + "\n")


def check_checkpoint(case, folder):
    """What from_pretrained reads back is what was evaluated."""
    model, info = Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"], info
    for name, p in model.named_parameters():
        assert torch.equal(p, case.weights[name]), name


def save_inputs(case, path):
    tokens = torch.cat([tokens for tokens, _ in case.documents]).int()
    labels = torch.cat([labels for _, labels in case.documents]).int()
    positions = torch.cat([torch.arange(length) for length in case.lengths]).int()
    boundaries = torch.tensor([0] + case.lengths).cumsum(0).int()
    tensors = {"tokens": tokens, "labels": labels, "positions": positions, "cu_seqlens": boundaries}
    if case.compact:
        tensors |= {"seed": torch.tensor(case.seed).int(), "key_rows": torch.tensor(case.key_rows).int()}
    save(path, tensors)


def save_float32(case, folder, truth):
    eager = evaluate(case, build_model(case, torch.float32, "eager"))
    sdpa = evaluate(case, build_model(case, torch.float32, "sdpa"))
    bound = gradient_bound(case)
    forward_errors = {f"error.{key}": relative_error(eager[key], truth[key]) for key in ("logits", "nll", "loss")}
    check(forward_errors, bound, "float32 forward")
    gradient_errors = parameter_errors(case, eager["gradients"], truth["gradients"], "error.gradient.")
    check(gradient_errors, bound, "float32 gradients")
    sdpa_errors = parameter_errors(case, sdpa["gradients"], truth["gradients"], "error.gradient.")
    check(sdpa_errors, bound, "float32 gradients, sdpa")
    tensors = {"logits": case.stored(eager["logits"]), "nll": eager["nll"], "loss": eager["loss"]}
    save(folder / "expected_f32.safetensors", tensors | forward_errors)
    gradients = {"gradient." + case.on_disk(name): case.stored(g) for name, g in eager["gradients"].items()}
    save(folder / "gradients_f32.safetensors", gradients | gradient_errors)


def save_bfloat16(case, folder, truth):
    """transformers' own bf16 error: the root mean square over its two attention implementations."""
    squares = {}
    for attention in ("eager", "sdpa"):
        got = evaluate(case, build_model(case, torch.bfloat16, attention))
        found = {f"error.{key}": relative_error(got[key], truth[key]) for key in ("logits", "nll", "loss")}
        found |= parameter_errors(case, got["gradients"], truth["gradients"], "error.gradient.")
        flat = lambda gradients: torch.cat([gradients[name].double().flatten() for name in case.weights])
        found["error.gradient"] = relative_error(flat(got["gradients"]), flat(truth["gradients"]))
        for name, error in found.items():
            squares.setdefault(name, []).append(error.square())
    rms = {name: torch.stack(values).mean().sqrt() for name, values in squares.items()}
    print(f"  bf16: logits {rms['error.logits']:.2e}, all gradients {rms['error.gradient']:.2e}")
    save(folder / "expected_bf16.safetensors", rms)


def save_bfloat16_packs(case, folder, generator):
    """transformers' own bf16 error of A_log and dt_bias, joined over layers and over many packs.

    A dozen elements whose errors have one cause are one draw: on a single pack one implementation's error is often twice
    the other's, either way.
    """
    draw_pack = lambda: draw_documents(case.text.vocab_size, case.lengths, generator)
    packs = [replace(case, documents=draw_pack()) for _ in range(PACKS)]
    names = [name for name in case.weights if name.endswith(("A_log", "dt_bias"))]
    run = lambda dtype, attention: [evaluate(pack, build_model(case, dtype, attention))["gradients"] for pack in packs]
    stack = lambda runs: {name: torch.stack([gradients[name] for gradients in runs]) for name in names}
    truth = stack(run(torch.float32, "eager"))
    tensors = {"gradient." + case.on_disk(name): g for name, g in truth.items()}
    tensors["tokens"] = torch.stack([torch.cat([tokens for tokens, _ in pack.documents]) for pack in packs]).int()
    found = [stack(run(torch.bfloat16, attention)) for attention in ("eager", "sdpa")]
    for kind in ("A_log", "dt_bias"):
        join = lambda gradients: torch.cat([g.flatten() for name, g in gradients.items() if name.endswith(kind)])
        errors = torch.stack([relative_error(join(got), join(truth)) for got in found])
        tensors[f"error.gradient.{kind}"] = errors.square().mean().sqrt()
        print(f"  bf16, {PACKS} packs: {kind} {tensors[f'error.gradient.{kind}']:.2e}")
    save(folder / "packs_bf16.safetensors", tensors)


def save_adamw(case, folder, hyper):
    weights, nll, losses, norms = train(case, hyper)
    true_weights, true_losses, true_norms = reference.adamw(case.text, case.weights, case.documents, hyper)
    difference = lambda weights: {name: w.double() - case.weights[name].double() for name, w in weights.items()}
    updates = difference(weights)
    errors = parameter_errors(case, updates, difference(true_weights), "error.update.")
    print("  loss", [f"{x:.3f}" for x in losses.tolist()], "norm", [f"{x:.2f}" for x in norms.tolist()])
    check(errors, 2 * gradient_bound(case) ** 0.5, "float32 updates")
    others = {"error.loss": relative_error(losses, true_losses), "error.norm": relative_error(norms, true_norms)}
    if case.compact:
        tensors = {"update." + case.on_disk(name): case.stored(u).float() for name, u in updates.items()}
    else:
        tensors = {"weight." + case.on_disk(name): w for name, w in weights.items()}
    tensors |= {"loss": losses, "gradient_norm": norms} | errors | others
    tensors |= {f"hyper.{key}": torch.tensor(float(value)) for key, value in vars(hyper).items()}
    save(folder / "adamw_f32.safetensors", tensors)

    squares = {}
    for attention in ("eager", "sdpa"):
        got_weights, got_nll, _, _ = train(case, hyper, torch.bfloat16, attention)
        found = {"error.nll": relative_error(got_nll, nll)}
        found |= update_errors(case, difference(got_weights), updates)
        for name, error in found.items():
            squares.setdefault(name, []).append(error.square())
    rms = {name: torch.stack(values).mean().sqrt() for name, values in squares.items()}
    matrices = [error.item() for name, error in rms.items() if name.endswith("proj.weight")]
    print(f"  bf16: nll of all steps {rms['error.nll']:.2e}, updates {min(matrices):.2e} to {max(matrices):.2e}")
    save(folder / "adamw_bf16.safetensors", {"nll": nll} | rms)


def make(path, out, seed, is_compact):
    case = build_case(path, seed, is_compact)
    print(f"{case.name}: {sum(w.numel() for w in case.weights.values())} parameters")
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    checkpoint = folder / "checkpoint"
    if case.compact:
        folder.mkdir(parents=True)
    elif case.multimodal:
        save_multimodal_checkpoint(case, checkpoint, torch.Generator().manual_seed(seed + 1))
    else:
        save_text_checkpoint(case, checkpoint)
    if not case.compact:
        check_checkpoint(case, checkpoint)
    save_inputs(case, folder / "inputs.safetensors")
    loss, gradients, logits = reference.loss_and_gradients(case.text, case.weights, case.documents)
    nll = negative_log_likelihood(logits, torch.cat([labels for _, labels in case.documents]))
    truth = {"logits": logits, "nll": nll, "loss": loss, "gradients": gradients}
    save_float32(case, folder, truth)
    save_bfloat16(case, folder, truth)
    save_bfloat16_packs(case, folder, torch.Generator().manual_seed(seed + 2))
    save_adamw(case, folder, Hyper())


def main():
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configs", type=Path, default=here.parent.parent / "models" / "configs")
    parser.add_argument("--out", type=Path, default=here)
    parser.add_argument("--only", help="name of one model")
    options = parser.parse_args()
    torch.set_num_threads(1)  # one order of sums, so that a second run writes the same bytes
    names = ["tiny-tied-1to1", "tiny-untied-1to3", "tiny-hopper-tied", "tiny-hopper-untied"]
    for seed, name in enumerate(names, start=20260214):
        if options.only in (None, name):
            make(options.configs / f"{name}.json", options.out, seed, "hopper" in name)


if __name__ == "__main__":
    main()
