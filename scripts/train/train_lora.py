"""train_lora.py - style LoRAs on the frozen guided model.

    python train_lora.py --style neon --start DIR/guided --vae DIR --out DIR --minutes 4
    python train_lora.py --style neon,pixel,clay ...        one after another, compiled once; several such processes share
                                                            a GPU, or have one each by CUDA_VISIBLE_DEVICES

    python train_lora.py --style neon --resume ...          goes on from DIR/lora-NAME.safetensors, if it is there

writes DIR/lora-NAME.safetensors (see lora.py) every 20 seconds and DIR/lora-NAME.png at the end.  The time starts
when the data is there and the steps are recorded: two minutes for the first style, 20 s for the others.

The model has guidance g (--guidance) baked in: what it says is v(c) + g (v(c) - v("")), so its own difference
T(c) - T("") is 1 + g times that of plain flow matching.  A LoRA trained on x0 - noise alone would take
that away again.  The target is therefore

    x0 - noise + g / (1 + g) * (T(c) - T(""))

with T the model with the running mean of this very LoRA: the fixed point of that is v(c) + g (v(c) - v(""))
for the v of the style.  The factor must stay below 1, or the difference feeds on itself.  Some captions are
empty, so that T("") learns the style too and the difference keeps to what is drawn; half of the others do not
name the style, so that the LoRA alone brings it.  A fifth of the steps are at six tenths of the strength and ask for the
same pictures: at half strength the style is still plain, which two styles at half strength each need.
"""
import argparse
import copy
import os
import random
import signal
import time

import torch
import torch.nn.functional as F

import lora
from captions import caption
from data import LARGE, SMALL, Pool
from flow import decode, difference, encoder_of, follow, load_model, load_vae, noised, sample, sheet, tokens
from replay import Replay, adamw, forget, set_rate
from styles import CARDS, suffixes
from world import sample_scene

WEAK = 0.6
KEEP = 0.998                   # of the running mean, a step
SAVE_S = 20


class Trainer:
    """One model with its LoRA (student), one with the LoRA's running mean (teacher, and what is kept)."""

    def __init__(self, args):
        self.args = args
        self.student = load_model(args.start).to(args.device)
        self.student.requires_grad_(False)
        lora.attach(self.student.transformer, args.rank)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.params = lora.parameters(self.student.transformer)
        self.means = lora.parameters(self.teacher.transformer)
        self.empty = tokens([""], args.device)
        self.adam = adamw(self.params, 0.0, (0.9, 0.99), 0.0)
        self.replay = Replay(self.update)
        self.student.compile_blocks()
        self.teacher.compile_blocks()

    def restart(self, path):
        """The pairs of a new LoRA, or of the file that --resume goes on from."""
        lora.restart(self.student.transformer)
        self.resumed = self.args.resume and os.path.exists(path)
        if self.resumed:
            lora.resume(self.student.transformer, path)
        with torch.no_grad():
            torch._foreach_copy_(self.means, self.params)
        forget(self.adam)
        self.step = 0

    def unsay(self, ids, lengths):
        """An eighth of the captions empty, in batches where the empty one has the same padded length."""
        if ids.shape != (len(ids), self.empty[0].shape[1]):
            return ids, lengths
        empty = torch.rand(len(ids), device=ids.device) < 0.125
        return (torch.where(empty[:, None], self.empty[0], ids), torch.where(empty, self.empty[1], lengths))

    def loss(self, z, ids, lengths):
        g = self.args.guidance
        ids, lengths = self.unsay(ids, lengths)
        z = z.float()
        x, sigma, noise = noised(z)
        with torch.autocast(self.args.device, torch.bfloat16):
            with torch.no_grad():                  # the text encoder has no LoRA: one for all
                text = self.teacher.text(ids, torch.bfloat16)
            guidance = difference(self.teacher, x, sigma, text, lengths, self.empty)
            out = self.student.transformer(x, 1 - sigma, text, lengths)
        return F.mse_loss(out, z - noise + g / (1 + g) * guidance)

    def update(self, z, ids, lengths):
        for p in self.params:
            p.grad = None
        loss = self.loss(z, ids, lengths)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.adam.step()
        return loss.detach()

    def learn(self, batch, rate):
        set_rate(self.adam, rate)
        lora.set_scale(self.student.transformer, WEAK if random.random() < self.args.weak else 1.0)
        loss = self.replay(*batch)
        follow(self.means, self.params, self.step, KEEP)
        self.step += 1
        return loss


def fit(trainer, pool, style, path):
    """Steps until the time is over; keeps a whole file in path all along."""
    args, shown, good = trainer.args, None, [p.detach().clone() for p in trainer.means]
    peak = args.lr * (0.6 if trainer.resumed else 1)
    set_rate(trainer.adam, 0.0)
    trainer.replay.prepare(pool.shapes())
    forget(trainer.adam)
    start, gone = time.time(), 0.0
    kept = start
    while gone < 1 and not args.stopped:
        large = random.random() < args.large
        batch = pool.pick(LARGE if large else SMALL)
        loss = trainer.learn(batch, peak * min(1, (trainer.step + 1) / 100) * (1 - 0.98 * gone))
        gone = (time.time() - start) / (args.minutes * 60)
        if trainer.step % 50:
            continue
        value = loss.item()
        if value != value or value > 100:          # back to the last good mean, with fresh moments
            print(f"{style} step {trainer.step}: loss {value}, going back", flush=True)
            with torch.no_grad():
                torch._foreach_copy_(trainer.params, good)
                torch._foreach_copy_(trainer.means, good)
            forget(trainer.adam)
            continue
        if trainer.step % 500 == 0:
            good = [p.detach().clone() for p in trainer.means]
        shown = value if shown is None else 0.9 * shown + 0.1 * value
        if time.time() - kept > SAVE_S:
            lora.save(trainer.teacher.transformer, path)
            kept = time.time()
        if trainer.step % 500 == 0:
            print(f"{style} step {trainer.step} {time.time() - start:.0f} s, loss {shown:.4f}", flush=True)
    return shown


def show(trainer, vae, style, path):
    """Sixteen pictures, the second half with the trigger words."""
    rng, device = random.Random(5), trainer.args.device
    texts = [caption(rng, sample_scene(rng))[0] for _ in range(16)]
    texts[8:] = [f"{text}, {CARDS[style].triggers[0]}" for text in texts[8:]]
    with torch.autocast(device, torch.bfloat16):
        z = sample(trainer.teacher, texts, 256, 256, device=device)
    sheet(decode(vae, z), path)


def train(trainer, vae, style):
    args = trainer.args
    path = os.path.join(args.out, f"lora-{style}")
    began = time.time()
    trainer.restart(path + ".safetensors")
    table = SMALL + LARGE if args.large else SMALL
    pool = Pool(table, encoder_of(vae), args.seed, args.per_size, style, suffixes(style), device=args.device,
                workers=args.workers, tokens=args.tokens)
    trainer.replay.quiet = pool.quiet
    print(f"{style}: pool ready after {time.time() - began:.0f} s", flush=True)
    try:
        shown = fit(trainer, pool, style, path + ".safetensors")
    finally:
        if trainer.step and all(p.isfinite().all() for p in trainer.means):
            lora.save(trainer.teacher.transformer, path + ".safetensors")
        pool.close()
    print(f"{style}: {trainer.step} steps, {time.time() - began:.0f} s in all, loss {shown}", flush=True)
    if not args.stopped:
        show(trainer, vae, style, path + ".png")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--style", required=True, help="a name or several, with commas")
    parser.add_argument("--start", required=True, help="weights of the guided stage, or a model folder")
    parser.add_argument("--vae", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, required=True, help="for each style; on a CPU with the compiler's")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--guidance", type=float, default=0.8, help="that the guided stage baked in")
    parser.add_argument("--large", type=float, default=0.3, help="share of steps with large pictures")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--weak", type=float, default=0.2, help="share of steps at lower strength")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--tokens", type=int, default=9216, help="a step")
    parser.add_argument("--per-size", type=int, default=64, help="batches kept of the first size")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seed", type=int, default=40)
    args = parser.parse_args()
    names = args.style.split(",")
    if unknown := [name for name in names if name not in CARDS]:
        parser.error(f"unknown style {unknown[0]}; there are {', '.join(CARDS)}")
    args.stopped = []
    signal.signal(signal.SIGTERM, lambda *_: args.stopped.append(True))
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    os.makedirs(args.out, exist_ok=True)
    vae, trainer = load_vae(args.vae, args.device), Trainer(args)
    for style in names:
        train(trainer, vae, style)
        if args.stopped:
            raise SystemExit("stopped; what was learned is kept")


if __name__ == "__main__":
    main()
