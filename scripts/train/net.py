"""net.py - the transformer and the text encoder for training: batched, with the names of diffusers and transformers.

The inference classes take one prompt at a time; here a batch shares a picture size and a padded caption length, so there is
no mask anywhere and the arithmetic per item is that of ZImageTransformer2DModel.  scripts/bench/parity_sketch.py
holds what was exported to diffusers' own.  Linear layers may carry a LoRA, applied as a change of the weight.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from config import TEXT, TRANSFORMER


class Linear(nn.Linear):
    """nn.Linear that adds scale * B @ A to its weight when a LoRA is attached.

    The scale is a tensor, so that compiled code takes another one without being compiled again.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_parameter("lora_a", None)
        self.register_parameter("lora_b", None)

    def attach(self, rank):
        """A fresh LoRA: A random, B zero, so the layer still does what it did."""
        a = torch.randn(rank, self.in_features, device=self.weight.device) / math.sqrt(self.in_features)
        self.lora_a = nn.Parameter(a)
        self.lora_b = nn.Parameter(torch.zeros(self.out_features, rank, device=self.weight.device))
        self.register_buffer("lora_scale", torch.ones((), device=self.weight.device), persistent=False)

    def matrix(self):
        if self.lora_a is None:
            return self.weight
        return self.weight + self.lora_scale * (self.lora_b @ self.lora_a)

    def forward(self, x):
        return F.linear(x, self.matrix().to(x.dtype), None if self.bias is None else self.bias.to(x.dtype))


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight).to(x.dtype)


def rotate_pairs(x, cos, sin):
    """Interleaved pairs (2i, 2i+1) turned by the angles; x [B, S, H, D], cos/sin [S, D/2]."""
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[None, :, None], sin[None, :, None]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (Linear(dim, dim, bias=False) for _ in range(3))
        self.to_out = nn.ModuleList([Linear(dim, dim, bias=False)])
        self.norm_q, self.norm_k = RMSNorm(dim // heads, 1e-5), RMSNorm(dim // heads, 1e-5)

    def forward(self, x, cos, sin):
        qkv = torch.cat([self.to_q.matrix(), self.to_k.matrix(), self.to_v.matrix()]).to(x.dtype)
        q, k, v = F.linear(x, qkv).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k = rotate_pairs(self.norm_q(q), cos, sin), rotate_pairs(self.norm_k(k), cos, sin)
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return self.to_out[0](o.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        hidden = int(dim / 3 * 8)
        self.w1, self.w3 = Linear(dim, hidden, bias=False), Linear(dim, hidden, bias=False)
        self.w2 = Linear(hidden, dim, bias=False)

    def forward(self, x):
        w13 = torch.cat([self.w1.matrix(), self.w3.matrix()]).to(x.dtype)
        a, b = F.linear(x, w13).chunk(2, -1)
        return self.w2(F.silu(a) * b)


class Block(nn.Module):
    def __init__(self, dim, heads, modulated):
        super().__init__()
        self.attention, self.feed_forward = Attention(dim, heads), FeedForward(dim)
        self.attention_norm1, self.attention_norm2 = RMSNorm(dim, 1e-5), RMSNorm(dim, 1e-5)
        self.ffn_norm1, self.ffn_norm2 = RMSNorm(dim, 1e-5), RMSNorm(dim, 1e-5)
        if modulated:
            self.adaLN_modulation = nn.Sequential(Linear(min(dim, 256), 4 * dim))
            nn.init.zeros_(self.adaLN_modulation[0].weight)
            nn.init.zeros_(self.adaLN_modulation[0].bias)
            with torch.no_grad():            # gates start open a little
                self.adaLN_modulation[0].bias.view(4, dim)[1::2] = 0.3
        self.modulated = modulated

    def forward(self, x, cos, sin, t=None):
        if not self.modulated:
            x = x + self.attention_norm2(self.attention(self.attention_norm1(x), cos, sin))
            return x + self.ffn_norm2(self.feed_forward(self.ffn_norm1(x)))
        scale_a, gate_a, scale_m, gate_m = self.adaLN_modulation(t)[:, None].chunk(4, -1)
        y = self.attention(self.attention_norm1(x) * (1 + scale_a), cos, sin)
        x = x + gate_a.tanh() * self.attention_norm2(y)
        y = self.feed_forward(self.ffn_norm1(x) * (1 + scale_m))
        return x + gate_m.tanh() * self.ffn_norm2(y)


class FinalLayer(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        self.linear = Linear(dim, out)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), Linear(min(dim, 256), dim))
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        nn.init.zeros_(self.adaLN_modulation[1].weight)
        nn.init.zeros_(self.adaLN_modulation[1].bias)

    def forward(self, x, t):
        scale = 1 + self.adaLN_modulation(t)[:, None]
        return self.linear(F.layer_norm(x.float(), x.shape[-1:], eps=1e-6).to(x.dtype) * scale)


class TimeEmbedder(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.mlp = nn.Sequential(Linear(256, 1024), nn.SiLU(), Linear(1024, out))

    def forward(self, t, dtype):
        freqs = torch.exp(-math.log(10000) * torch.arange(128, device=t.device) / 128)
        args = t[:, None] * freqs
        return self.mlp(torch.cat([args.cos(), args.sin()], -1).to(dtype))


class Transformer(nn.Module):
    """ZImageTransformer2DModel for batches of one size and one padded caption length."""

    def __init__(self, c=TRANSFORMER):
        super().__init__()
        self.c, dim, heads = c, c["dim"], c["n_heads"]
        patch = 4 * c["in_channels"]
        self.all_x_embedder = nn.ModuleDict({"2-1": Linear(patch, dim)})
        self.all_final_layer = nn.ModuleDict({"2-1": FinalLayer(dim, patch)})
        self.noise_refiner = nn.ModuleList(Block(dim, heads, True) for _ in range(c["n_refiner_layers"]))
        self.context_refiner = nn.ModuleList(Block(dim, heads, False) for _ in range(c["n_refiner_layers"]))
        self.t_embedder = TimeEmbedder(min(dim, 256))
        self.cap_embedder = nn.Sequential(RMSNorm(c["cap_feat_dim"], 1e-5), Linear(c["cap_feat_dim"], dim))
        self.x_pad_token = nn.Parameter(torch.randn(1, dim) * 0.02)
        self.cap_pad_token = nn.Parameter(torch.randn(1, dim) * 0.02)
        self.layers = nn.ModuleList(Block(dim, heads, True) for _ in range(c["n_layers"]))

    def angles(self, ids):
        """cos, sin [S, D/2] of positions ids [S, 3]."""
        parts = []
        for axis, width in enumerate(self.c["axes_dims"]):
            freqs = 1.0 / self.c["rope_theta"] ** (torch.arange(0, width, 2, device=ids.device).double() / width)
            parts.append(ids[:, axis, None].double() * freqs)
        a = torch.cat(parts, -1).float()
        return a.cos(), a.sin()

    def forward(self, x, t, cap, cap_len):
        """x [B, 16, h, w]; t [B] = 1 - sigma; cap [B, L, D] with L a multiple of 32; cap_len [B]."""
        b, c, h, w = x.shape
        hp, wp, lcap, dev = h // 2, w // 2, cap.shape[1], x.device
        dtype = cap.dtype
        tokens = x.view(b, c, hp, 2, wp, 2).permute(0, 2, 4, 3, 5, 1).reshape(b, hp * wp, 4 * c)
        n = hp * wp
        pad = -n % 32
        k = torch.arange(lcap, device=dev)
        zero = torch.zeros_like(k)
        cap_ids = torch.stack([k + 1, zero, zero], -1)
        rows, cols = torch.meshgrid(torch.arange(hp, device=dev), torch.arange(wp, device=dev), indexing="ij")
        img_ids = torch.stack([torch.full((n,), lcap + 1, device=dev), rows.flatten(), cols.flatten()], -1)
        img_ids = F.pad(img_ids, (0, 0, 0, pad))
        te = self.t_embedder(t * self.c["t_scale"], dtype)
        img = self.all_x_embedder["2-1"](tokens.to(dtype))
        if pad:
            img = torch.cat([img, self.x_pad_token.to(dtype).expand(b, pad, -1)], 1)
        ic, isn = self.angles(img_ids)
        for block in self.noise_refiner:
            img = block(img, ic, isn, te)
        ctx = self.cap_embedder(cap)
        ctx = torch.where((k[None, :] < cap_len[:, None])[..., None], ctx, self.cap_pad_token.to(dtype))
        cc, cs = self.angles(cap_ids)
        for block in self.context_refiner:
            ctx = block(ctx, cc, cs)
        u = torch.cat([img, ctx], 1)
        uc, us = torch.cat([ic, cc]), torch.cat([isn, cs])
        for block in self.layers:
            u = block(u, uc, us, te)
        out = self.all_final_layer["2-1"](u[:, :n], te)
        return out.float().view(b, hp, wp, 2, 2, c).permute(0, 5, 1, 3, 2, 4).reshape(b, c, h, w)


def rotate_half(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class TextLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, hd = c["hidden_size"], c["head_dim"]
        self.q, self.kv = c["num_attention_heads"], c["num_key_value_heads"]
        self.self_attn = nn.Module()
        self.self_attn.q_proj = Linear(d, self.q * hd, bias=False)
        self.self_attn.k_proj = Linear(d, self.kv * hd, bias=False)
        self.self_attn.v_proj = Linear(d, self.kv * hd, bias=False)
        self.self_attn.o_proj = Linear(self.q * hd, d, bias=False)
        self.self_attn.q_norm = RMSNorm(hd, c["rms_norm_eps"])
        self.self_attn.k_norm = RMSNorm(hd, c["rms_norm_eps"])
        self.mlp = nn.Module()
        self.mlp.gate_proj = Linear(d, c["intermediate_size"], bias=False)
        self.mlp.up_proj = Linear(d, c["intermediate_size"], bias=False)
        self.mlp.down_proj = Linear(c["intermediate_size"], d, bias=False)
        self.input_layernorm = RMSNorm(d, c["rms_norm_eps"])
        self.post_attention_layernorm = RMSNorm(d, c["rms_norm_eps"])

    def forward(self, x, cos, sin):
        a, y = self.self_attn, self.input_layernorm(x)
        q = rotate_half(a.q_norm(a.q_proj(y).unflatten(-1, (self.q, -1))).transpose(1, 2), cos, sin)
        k = rotate_half(a.k_norm(a.k_proj(y).unflatten(-1, (self.kv, -1))).transpose(1, 2), cos, sin)
        v = a.v_proj(y).unflatten(-1, (self.kv, -1)).transpose(1, 2)
        k, v = (z.repeat_interleave(self.q // self.kv, 1) for z in (k, v))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + a.o_proj(o.transpose(1, 2).flatten(2))
        m, y = self.mlp, self.post_attention_layernorm(x)
        return x + m.down_proj(F.silu(m.gate_proj(y)) * m.up_proj(y))


class TextEncoder(nn.Module):
    """Qwen3Model up to hidden_states[-2]; the last layer and the final norm exist but are never run."""

    def __init__(self, c=TEXT):
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        nn.init.normal_(self.embed_tokens.weight, std=0.5)
        self.layers = nn.ModuleList(TextLayer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])

    def forward(self, ids, dtype):
        half = self.c["head_dim"] // 2
        freqs = 1.0 / self.c["rope_theta"] ** (torch.arange(half, device=ids.device).float() / half)
        angles = torch.arange(ids.shape[1], device=ids.device).float()[:, None] * freqs
        cos, sin = angles.cos(), angles.sin()
        x = self.embed_tokens(ids).to(dtype)
        for layer in self.layers[:-1]:
            x = layer(x, cos, sin)
        return x
