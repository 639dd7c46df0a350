"""The qwen3_5 text model written out once more, in float64 and from its definition: the judge of the golden files.

It shares no code with transformers and takes no shortcut of it: the gated delta rule is the token-by-token
recurrence, attention is a plain masked softmax, and nothing is ever rounded to another type. make_golden.py refuses to
write files when transformers disagrees with it by more than float32 rounding explains.
"""

import torch
import torch.nn.functional as F


def rms(x, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def norm(x, weight, eps):
    """Zero-centred RMSNorm: the checkpoint stores the scale's distance from one."""
    return rms(x, eps) * (1 + weight)


def mlp(x, p):
    gate = F.silu(x @ p["mlp.gate_proj.weight"].T)
    return (gate * (x @ p["mlp.up_proj.weight"].T)) @ p["mlp.down_proj.weight"].T


def rotary(x, config):
    """Rotates the first dimensions of x [tokens, heads, dim] by its position; the rest passes through."""
    rope = config.rope_parameters
    dims = int(config.head_dim * rope["partial_rotary_factor"])
    half = dims // 2
    frequency = rope["rope_theta"] ** (-torch.arange(half, dtype=x.dtype) * 2 / dims)
    angle = (torch.arange(x.shape[0], dtype=x.dtype)[:, None] * frequency)[:, None, :]
    a, b, rest = x[..., :half], x[..., half:dims], x[..., dims:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def attention(x, p, config):
    tokens, dim, eps = x.shape[0], config.head_dim, config.rms_norm_eps
    # Each head's rows hold its query first and its gate after it.
    query_gate = (x @ p["self_attn.q_proj.weight"].T).view(tokens, -1, 2 * dim)
    query, gate = query_gate[..., :dim], query_gate[..., dim:]
    key = (x @ p["self_attn.k_proj.weight"].T).view(tokens, -1, dim)
    value = (x @ p["self_attn.v_proj.weight"].T).view(tokens, -1, dim)
    query = rotary(norm(query, p["self_attn.q_norm.weight"], eps), config)
    key = rotary(norm(key, p["self_attn.k_norm.weight"], eps), config)
    causal = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    group = query.shape[1] // key.shape[1]
    heads = []
    for head in range(query.shape[1]):
        score = query[:, head] @ key[:, head // group].T * dim**-0.5
        weight = score.masked_fill(~causal, float("-inf")).softmax(-1)
        heads.append(weight @ value[:, head // group])
    mixed = torch.stack(heads, 1) * gate.sigmoid()
    return mixed.reshape(tokens, -1) @ p["self_attn.o_proj.weight"].T


def causal_conv(x, weight):
    """Depthwise over [tokens, channels]; tap i of [channels, 1, width] reads the token width - 1 - i back."""
    width = weight.shape[-1]
    padded = F.pad(x, (0, 0, width - 1, 0))
    return sum(padded[i : i + x.shape[0]] * weight[:, 0, i] for i in range(width))


def delta_rule(query, key, value, decay, beta):
    """[tokens, value heads, dim] each, decay and beta [tokens, value heads]; the state starts at zero."""
    unit = lambda v: v * torch.rsqrt(v.square().sum(-1, keepdim=True) + 1e-6)
    query, key = unit(query) * query.shape[-1] ** -0.5, unit(key)
    state = torch.zeros(value.shape[1], key.shape[-1], value.shape[-1], dtype=value.dtype)
    out = []
    for t in range(value.shape[0]):
        state = state * decay[t].exp()[:, None, None]
        predicted = torch.einsum("hkv,hk->hv", state, key[t])
        delta = beta[t][:, None] * (value[t] - predicted)
        state = state + key[t][:, :, None] * delta[:, None, :]
        out.append(torch.einsum("hkv,hk->hv", state, query[t]))
    return torch.stack(out)


def gated_delta_net(x, p, config):
    tokens = x.shape[0]
    key_heads, value_heads = config.linear_num_key_heads, config.linear_num_value_heads
    key_dim, value_dim = config.linear_key_head_dim, config.linear_value_head_dim
    mixed = F.silu(causal_conv(x @ p["linear_attn.in_proj_qkv.weight"].T, p["linear_attn.conv1d.weight"]))
    query, key, value = mixed.split([key_heads * key_dim, key_heads * key_dim, value_heads * value_dim], -1)
    spread = lambda v: v.view(tokens, key_heads, key_dim).repeat_interleave(value_heads // key_heads, 1)
    value = value.view(tokens, value_heads, value_dim)
    z = (x @ p["linear_attn.in_proj_z.weight"].T).view(tokens, value_heads, value_dim)
    beta = (x @ p["linear_attn.in_proj_b.weight"].T).sigmoid()
    step = x @ p["linear_attn.in_proj_a.weight"].T + p["linear_attn.dt_bias"]
    decay = -p["linear_attn.A_log"].exp() * F.softplus(step)
    out = delta_rule(spread(query), spread(key), value, decay, beta)
    # This norm's weight is the scale itself, unlike every other norm of the model.
    out = rms(out, config.rms_norm_eps) * p["linear_attn.norm.weight"] * F.silu(z)
    return out.reshape(tokens, -1) @ p["linear_attn.out_proj.weight"].T


def logits(config, weights, tokens):
    """Logits [tokens, vocabulary] of one document; weights are named as in a text-only checkpoint."""
    eps = config.rms_norm_eps
    x = weights["model.embed_tokens.weight"][tokens]
    for index, kind in enumerate(config.layer_types):
        prefix = f"model.layers.{index}."
        p = {name[len(prefix) :]: w for name, w in weights.items() if name.startswith(prefix)}
        mixer = attention if kind == "full_attention" else gated_delta_net
        x = x + mixer(norm(x, p["input_layernorm.weight"], eps), p, config)
        x = x + mlp(norm(x, p["post_attention_layernorm.weight"], eps), p)
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return norm(x, weights["model.norm.weight"], eps) @ head.T


def loss_and_gradients(config, weights, documents):
    """Token-normalised loss over all documents, and its gradient by parameter name."""
    leaves = {name: w.detach().double().requires_grad_() for name, w in weights.items()}
    supervised = sum(int((labels != -100).sum()) for _, labels in documents)
    outputs = [logits(config, leaves, tokens) for tokens, _ in documents]
    loss = sum(
        F.cross_entropy(out, labels, ignore_index=-100, reduction="sum")
        for out, (_, labels) in zip(outputs, documents)
    ) / supervised
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    return loss.detach(), dict(zip(leaves, gradients)), torch.cat(outputs).detach()


def decays(weight):
    """Matrices, the embedding and the convolutions decay; norms, A_log and dt_bias, all vectors, do not."""
    return weight.ndim > 1


def adamw(config, weights, documents, hyper):
    """Runs hyper.steps AdamW steps on one batch; returns the weights, and the loss and gradient norm of each step."""
    weights = {name: w.detach().double().clone() for name, w in weights.items()}
    first = {name: torch.zeros_like(w) for name, w in weights.items()}
    second = {name: torch.zeros_like(w) for name, w in weights.items()}
    losses, norms = [], []
    for step in range(1, hyper.steps + 1):
        loss, gradients, _ = loss_and_gradients(config, weights, documents)
        total = torch.stack([g.square().sum() for g in gradients.values()]).sum().sqrt()
        clip = min(1.0, hyper.max_norm / (float(total) + 1e-6))
        for name, w in weights.items():
            g = gradients[name] * clip
            first[name].lerp_(g, 1 - hyper.beta1)
            second[name].lerp_(g * g, 1 - hyper.beta2)
            mean = first[name] / (1 - hyper.beta1**step)
            root = (second[name] / (1 - hyper.beta2**step)).sqrt() + hyper.epsilon
            if decays(w):
                w *= 1 - hyper.learning_rate * hyper.weight_decay
            w -= hyper.learning_rate * mean / root
        losses.append(loss)
        norms.append(total)
    return weights, torch.stack(losses), torch.stack(norms)
