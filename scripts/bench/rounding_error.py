#!/usr/bin/env python3
"""Where the error of a forward in bf16 comes from, place by place.

    rounding_error.py --model DIR | --config scripts/bench/z-image-turbo  [--device cuda:0]
                      [--size 512] [--seeds 1]

Computes the transformer in fp32, one operation at a time, on weights that are bf16 numbers: those
of a model, or random ones for a config.  Each line of the table rounds to bf16 at the places that
it names, and prints the error against no rounding, |a - b| / |b|: of a forward at the first sigma,
mean over the seeds.  First two results are checked: without rounding against diffusers in fp32,
which shows that it is the same model, and with all roundings against diffusers in bf16.  Exits with
1 if the first check fails.
Needs torch, diffusers (0.42.1 was used) and transformers.
"""
import argparse
import sys

import torch
import torch.nn.functional as F

import peer_model

PROMPT = "two red stars above a blue circle at sunset, and three orange flowers in the grass"
SAME = 2e-5  # relative, of fp32 whose sums have another order
PATCH, ROWS = 2, 32  # of a token; a sequence is padded to multiples of so many
TIME = ("time", "modulation", "1 + scale", "gates", "last scale")
INSIDES = ("quotients", "norms", "gate x norm")  # of the norms of a block
OTHERS = ("products", "attention", "feed-forward", "q and k", "embeddings", "last norm",
          "last product")
ALL = ("stream",) + TIME + INSIDES + OTHERS


# --- the model ------------------------------------------------------------------------------------

class Transformer:
    """One picture's forward; what is in `rounds` is rounded to bf16 wherever it is computed."""

    def __init__(self, module):
        self.config = module.config
        self.weights = {name: p.data.float() for name, p in module.named_parameters()}
        self.rounds = frozenset()

    def at(self, place, x):
        return x.bfloat16().float() if place in self.rounds else x

    def linear(self, name, x):
        return F.linear(x, self.weights[name + ".weight"], self.weights.get(name + ".bias"))

    def norm(self, name, x, place, quotient=None):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.config.norm_eps)
        return self.at(place, self.at(quotient or place, x) * self.weights[name + ".weight"])

    def time(self, t):
        half = 128
        turns = t * self.config.t_scale * torch.exp(
            -torch.arange(half, dtype=torch.float32) * torch.log(torch.tensor(10000.0)) / half)
        waves = self.at("time", torch.cat([turns.cos(), turns.sin()])).to(self.device())
        hidden = F.silu(self.at("time", self.linear("t_embedder.mlp.0", waves)))
        return self.at("time", self.linear("t_embedder.mlp.2", self.at("time", hidden)))

    def device(self):
        return self.weights["x_pad_token"].device

    def turns(self, positions):
        """What queries and keys at [rows, 3] positions are turned by, as complex numbers."""
        angles = []
        for axis, width in enumerate(self.config.axes_dims):
            each = self.config.rope_theta ** (-torch.arange(0, width, 2).double() / width)
            angles.append(torch.outer(positions[:, axis].double(), each).float())
        angles = torch.cat(angles, dim=1)
        return torch.polar(torch.ones_like(angles), angles).to(self.device())[:, None]

    def attention(self, name, x, turns):
        heads = self.config.n_heads
        q, k, v = (self.at("products", self.linear(f"{name}.to_{part}", x)).unflatten(-1, (heads, -1))
                   for part in "qkv")
        q, k = (self.norm(f"{name}.norm_{part}", value, "q and k")
                for part, value in (("q", q), ("k", k)))
        q, k = (self.at("q and k", torch.view_as_real(
            torch.view_as_complex(value.unflatten(-1, (-1, 2))) * turns).flatten(-2))
            for value in (q, k))
        out = F.scaled_dot_product_attention(*(value.transpose(0, 1) for value in (q, k, v)))
        out = self.at("attention", out.transpose(0, 1).flatten(1))
        return self.at("products", self.linear(f"{name}.to_out.0", out))

    def feed_forward(self, name, x):
        gate, up = (self.at("products", self.linear(f"{name}.{part}", x)) for part in ("w1", "w3"))
        hidden = self.at("feed-forward", self.at("feed-forward", F.silu(gate)) * up)
        return self.at("products", self.linear(f"{name}.w2", hidden))

    def block(self, name, x, turns, time=None):
        scales, gates = (None, None), (None, None)
        if time is not None:
            m = self.at("modulation", self.linear(f"{name}.adaLN_modulation.0", time)).chunk(4)
            scales = [self.at("1 + scale", 1 + m[i]) for i in (0, 2)]
            gates = [self.at("gates", m[i].tanh()) for i in (1, 3)]
        parts = (("attention", lambda y: self.attention(f"{name}.attention", y, turns)),
                 ("ffn", lambda y: self.feed_forward(f"{name}.feed_forward", y)))
        for (part, run), scale, gate in zip(parts, scales, gates):
            y = self.norm(f"{name}.{part}_norm1", x, "norms", "quotients")
            y = run(y if scale is None else self.at("norms", y * scale))
            y = self.norm(f"{name}.{part}_norm2", y, "norms", "quotients")
            x = self.at("stream", x + (y if gate is None else self.at("gate x norm", gate * y)))
        return x

    def embedded(self, x, pad):
        """Rows up to a multiple of 32, of which the further ones are the model's own."""
        further = -len(x) % ROWS
        return torch.cat([x, self.weights[pad].expand(further, -1)])

    def __call__(self, latent, caption, t):
        """latent [channels, height, width], caption [tokens, features]; returns latent's shape."""
        c, h, w = latent.shape
        rows, columns = h // PATCH, w // PATCH
        tokens = latent.view(c, rows, PATCH, columns, PATCH).permute(1, 3, 2, 4, 0).flatten(2)
        tokens = self.at("embeddings", tokens.reshape(rows * columns, -1))
        x = self.at("embeddings", self.linear("all_x_embedder.2-1", tokens))
        x = self.embedded(x, "x_pad_token")
        y = self.norm("cap_embedder.0", caption, "embeddings")
        y = self.embedded(self.at("embeddings", self.linear("cap_embedder.1", y)), "cap_pad_token")
        at_y = torch.zeros(len(y), 3)
        at_y[:, 0] = 1 + torch.arange(len(y))
        at_x = torch.zeros(len(x), 3)
        at_x[:rows * columns] = torch.cartesian_prod(
            torch.tensor([1.0 + len(y)]), torch.arange(rows).float(), torch.arange(columns).float())
        turns_x, turns_y, time = self.turns(at_x), self.turns(at_y), self.time(t)
        for i in range(self.config.n_refiner_layers):
            x = self.block(f"noise_refiner.{i}", x, turns_x, time)
            y = self.block(f"context_refiner.{i}", y, turns_y)
        x, turns = torch.cat([x, y]), torch.cat([turns_x, turns_y])
        for i in range(self.config.n_layers):
            x = self.block(f"layers.{i}", x, turns, time)
        x = self.at("last norm", F.layer_norm(x[:rows * columns], x.shape[1:], eps=1e-6))
        scale = self.linear("all_final_layer.2-1.adaLN_modulation.1", self.at("time", F.silu(time)))
        x = self.at("last norm", x * self.at("last scale", 1 + self.at("last scale", scale)))
        x = self.at("last product", self.linear("all_final_layer.2-1.linear", x))
        return x.view(rows, columns, PATCH, PATCH, c).permute(4, 0, 2, 1, 3).reshape(c, h, w)


# --- the study ------------------------------------------------------------------------------------

def off(a, b):
    return ((a.float() - b.float()).norm() / b.float().norm()).item()


def peer(module, latent, caption, t):
    dtype = next(module.parameters()).dtype
    time = torch.tensor([t], device=latent.device)
    result = module([latent[:, None].to(dtype)], time, [caption.to(dtype)], return_dict=False)
    return result[0][0][:, 0]


def lines():
    """What is rounded, in the order of the table."""
    yield "everywhere", ALL
    for place in ALL:
        yield place, (place,)
    for name, places in (("what is of time", TIME), ("the norms of blocks", INSIDES)):
        yield name, places
    for name, places in (("the stream", ("stream",)), ("what is of time", TIME),
                         ("the stream and the norms of blocks", ("stream",) + INSIDES),
                         ("these and what is of time", ("stream",) + INSIDES + TIME)):
        yield "all but " + name, tuple(p for p in ALL if p not in places)


@torch.no_grad()
def study(args):
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    make = peer_model.loaded if args.model else peer_model.random_pipeline
    pipe = make(args.model or args.config, args.device, torch.bfloat16)
    caption = pipe.encode_prompt(PROMPT, device=args.device, do_classifier_free_guidance=False)[0][0]
    module, side = pipe.transformer, args.size // pipe.vae_scale_factor
    noise = [torch.randn(module.config.in_channels, side, side,
                         generator=torch.Generator().manual_seed(seed)).to(args.device)
             for seed in range(1, args.seeds + 1)]
    own = Transformer(module)
    rough = [peer(module, x, caption, 0.0) for x in noise]
    for p in module.parameters():
        p.data = p.data.float()
    fine = [peer(module, x, caption, 0.0) for x in noise]
    exact = [own(x, caption.float(), 0.0) for x in noise]

    def mean(results, wanted):
        return sum(map(off, results, wanted)) / args.seeds

    same = mean(exact, fine)
    print(f"without roundings, off diffusers in fp32: {same:.1e}")
    print(f"diffusers in bf16, off its fp32:          {mean(rough, fine):.2e}")
    print("\n| rounded | off |\n| --- | --- |")
    for name, places in lines():
        own.rounds = frozenset(places)
        print(f"| {name} | {mean([own(x, caption.float(), 0.0) for x in noise], exact):.1e} |",
              flush=True)
    return same < SAME


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", help="a directory with weights, as diffusers has them")
    which.add_argument("--config", help="the same without: random weights")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    if not study(args):
        sys.exit(f"rounding_error: this transformer is not diffusers': more than {SAME:.0e} off")


if __name__ == "__main__":
    main()
