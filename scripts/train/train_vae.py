"""train_vae.py - the autoencoder, alone on the GPU.

    python train_vae.py --out DIR --minutes 6
    python train_vae.py --out DIR --minutes 5 --start DIR     goes on with the decoder alone; latents stay as they are

L1 + 2 MSE + gradient L1 + a light KL on crops of drawn scenes in all styles, a third of them
with colours permuted.  The last quarter freezes the encoder and trains the decoder on noised latents.
"""
import argparse
import os
import random
import time

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL

from config import VAE
from flow import load_vae
from render import STYLES, draw, pack
from world import sample_scene


def pictures(rng, n, h, w, style):
    with torch.no_grad():
        packed = pack([sample_scene(rng, w / h) for _ in range(n)], "cuda")
        return (draw(packed, h, w, style) * 255).round().byte()


class Bank:
    """Drawn pictures by size, refreshed a chunk at a time."""

    def __init__(self, seed, chunk=96):
        self.rng, self.chunk, self.items = random.Random(seed), chunk, {}
        self.styles = ["base"] * 6 + STYLES[1:] + ["pixel", "hatched", "sticker"]     # fine lines want more
        for size in (256, 512):
            self.items[size] = [self._draw(size) for _ in range(72 if size == 256 else 36)]

    def _draw(self, size):
        return pictures(self.rng, self.chunk if size == 256 else self.chunk // 3, size, size, self.rng.choice(self.styles))

    def crops(self, n, side):
        source = 512 if self.rng.random() < 0.3 else 256
        kept = self.items[source]
        if self.rng.random() < 0.15:
            kept[self.rng.randrange(len(kept))] = self._draw(source)
        parts = []
        while n > 0:
            chunk = self.rng.choice(kept)
            take = min(n, 16, len(chunk))
            index = torch.randperm(len(chunk), device="cuda")[:take]
            y, x = (self.rng.randrange(0, source - side + 1) for _ in range(2))
            parts.append(chunk[index][:, :, y:y + side, x:x + side])
            n -= take
        batch = torch.cat(parts).float() / 127.5 - 1
        third = len(batch) // 3
        batch[:third] = batch[:third][:, torch.randperm(3)]
        return batch.contiguous(memory_format=torch.channels_last)


def loss_of(y, x):
    pixel = F.l1_loss(y, x) + 2 * F.mse_loss(y, x)
    dy = F.l1_loss(y[..., 1:, :] - y[..., :-1, :], x[..., 1:, :] - x[..., :-1, :])
    dx = F.l1_loss(y[..., 1:] - y[..., :-1], x[..., 1:] - x[..., :-1])
    return pixel + 0.5 * (dx + dy)


@torch.no_grad()
def psnr(vae, style, size, n=64):
    x = pictures(random.Random(99), n, size, size, style).float() / 127.5 - 1
    values = []
    for part in x.split(16):
        y = vae.decode(vae.encode(part).latent_dist.mean).sample.clamp(-1, 1)
        values.append(10 * torch.log10(4 / ((y - part) ** 2).mean((1, 2, 3))))
    return torch.cat(values).mean().item()


@torch.no_grad()
def measure_scale(vae):
    rng = random.Random(3)
    means = [vae.encode(pictures(rng, 32, 256, 256, "base").float() / 127.5 - 1).latent_dist.mean for _ in range(32)]
    z = torch.cat(means)
    return 1 / z.std().item(), z.mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--start", help="folder with a vae/ whose encoder stays as it is")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    vae = load_vae(args.start).train() if args.start else AutoencoderKL(**VAE).cuda()
    vae.to(memory_format=torch.channels_last)
    bank = Bank(1)
    start, budget, step = time.time(), args.minutes * 60, 0
    top = 6e-4 if args.start else 1.5e-3
    learning = vae.decoder if args.start else vae
    optimiser = torch.optim.AdamW(learning.parameters(), top, betas=(0.9, 0.99), weight_decay=1e-3, fused=True)
    encode, decode = vae.encoder, vae.decoder
    if not args.start:                        # compiling takes two minutes: not worth it for a short stage
        encode, decode = torch.compile(lambda x: vae.encoder(x)), torch.compile(lambda z: vae.decoder(z))
    frozen = False
    while (gone := (time.time() - start) / budget) < 1:
        rate = top * min(1, step / 100) * (0.005 + 0.995 * 0.5 * (1 + torch.cos(torch.tensor(gone * 3.14159)).item()))
        for group in optimiser.param_groups:
            group["lr"] = rate
        if (gone > 0.75 or args.start) and not frozen:
            frozen = True
            vae.encoder.requires_grad_(False)
        late = gone > 0.7 or args.start
        side, n = random.choices([(128, 64), (192, 28), (256, 16)], [20, 30, 50] if late else [70, 20, 10])[0]
        x = bank.crops(n, side)
        with torch.autocast("cuda", torch.bfloat16):
            mean, logvar = encode(x).float().chunk(2, 1)
            logvar = logvar.clamp(-30, 20)
            z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar) * (0.3 if frozen else 1)
            y = decode(z)
        kl = 0.5 * (mean ** 2 + logvar.exp() - 1 - logvar).mean()
        loss = loss_of(y.float(), x) + (0 if frozen else 3e-4 * kl)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        optimiser.step()
        step += 1
        if step % 500 == 0:
            print(f"vae step {step} {time.time() - start:.0f} s loss {loss.item():.4f} kl {kl.item():.2f} "
                  f"psnr256 {psnr(vae, 'base', 256, 32):.1f}", flush=True)
    if not args.start:
        scale, shift = measure_scale(vae)
        vae.register_to_config(scaling_factor=round(scale, 5), shift_factor=round(shift, 5))
    vae.save_pretrained(os.path.join(args.out, "vae"))
    for style in STYLES:
        print(f"psnr {style}: 256 {psnr(vae, style, 256):.1f} dB, 512 {psnr(vae, style, 512, 32):.1f} dB", flush=True)
    print(f"vae: {step} steps, scale {vae.config.scaling_factor}, shift {vae.config.shift_factor}", flush=True)


if __name__ == "__main__":
    main()
