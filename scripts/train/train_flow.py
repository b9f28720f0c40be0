"""train_flow.py - transformer and text encoder together, by flow matching.

    python train_flow.py --stage flow   --vae DIR --out DIR --minutes 18
    python train_flow.py --stage flow   --vae DIR --out DIR --start DIR/flow --minutes 10    (goes on)
    python train_flow.py --stage guided --vae DIR --out DIR --start DIR/flow --minutes 9
    python train_flow.py --stage guided ... --start DIR/guided --teacher DIR/flow --minutes 9       (goes on)
    python train_flow.py --stage guided ... --start DIR/guided --teacher self --minutes 9
    python train_flow.py --stage reword --vae DIR --out DIR --start DIR/grown --teacher MODEL --minutes 9

flow: target x0 - noise; small pictures first, every size from 35 % of the time on.  guided: the target is
(x0 - noise) + g (T(caption) - T("")) with T the frozen result of the first stage, which bakes
guidance into one forward.  With --teacher self T is the running mean of the very model that learns, which has the guidance
already: g / (1 + g) of its difference is what is missing (train_lora.py has the fixed point).  reword: the target is what MODEL, an
older model folder, says of the same noisy picture and the scene said plainly, so what is learned is other people's sentences alone;
its target has no noise of its own, and the transformer learns at a part of the text encoder's rate (--calm), or not at all but for its
text side (--calm 0): then what it draws with, and so every LoRA on its layers, stays as it was.
Matrices inside blocks learn by Muon, the rest by AdamW; an exponential mean of the weights is what is kept:
every minute, on SIGTERM and at the end.

    torchrun --nproc-per-node 2 -- train_flow.py ...      on several GPUs: each draws its own pictures, weights are averaged now and then

The time starts when the data is there and the compiler has worked: two minutes on a bare machine, most of
it the compiler's (set TORCHINDUCTOR_CACHE_DIR to a folder that outlives the run to pay it once).
"""
import argparse
import copy
import os
import random
import signal
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

from data import LARGE, LARGE_FEW, SMALL, SMALL_FEW, Pool
from flow import (Model, decode, difference, encoder_of, follow, load_model, load_vae, load_weights, noised, sample,
                  save_weights, sheet, tokens)
from muon import Muon
from replay import Replay, adamw, forget, set_rate
from speech import PLAIN, spoken
from world import sample_scene

LR = {"flow": (4e-3, 1.5e-3), "guided": (1.6e-3, 6e-4), "reword": (3e-3, 1.5e-3)}      # Muon, AdamW
BLANK = 0.15                              # of the reword stage's pictures are noise alone: there the words decide everything
KEEP = 0.9995                             # of the running mean, a step
TURN = 40                                 # steps between looks at the clock, and averages over GPUs
SAVE_S = 60


def rate(stage, gone, resumed):
    if stage == "flow":                       # flat 20 %, then linear to 30 %; resumed: from 80 % on
        if resumed:
            return 0.8 - 0.6 * gone
        return 1.0 if gone < 0.2 else 1.0 - 0.7 * (gone - 0.2) / 0.8
    return 1.0 - 0.985 * gone


TEXT_SIDE = ("text.", "transformer.cap_", "transformer.context_refiner.")      # before text and picture meet


def split_params(model, of_text):
    """Matrices inside blocks, and the rest, of what reads the text or of what draws."""
    matrices, rest = [], []
    for name, p in model.named_parameters():
        if name.startswith(TEXT_SIDE) != of_text:
            continue
        if name.startswith(f"text.layers.{len(model.text.layers) - 1}.") or name == "text.norm.weight":
            continue                          # hidden_states[-2] never reaches them
        inner = p.ndim == 2 and any(k in name for k in ("attention.to_", "feed_forward", "_proj"))
        (matrices if inner else rest).append(p)
    return matrices, rest


def evaluate(model, vae, path, stage, device):
    rng = random.Random(5)
    texts = [spoken(sample_scene(rng), rng, 1.0)[0] for _ in range(32)]
    with torch.autocast(device, torch.bfloat16):
        z = sample(model, texts, 256, 256, device=device)
        large = sample(model, texts[:8], 512, 512, device=device)
    pictures = decode(vae, z)
    sheet(pictures, f"{path}/{stage}.png")
    sheet(decode(vae, large), f"{path}/{stage}-512.png", 4)


@torch.no_grad()
def average(params, gone):
    """Means of the weights over all processes (local SGD), and the latest of their clocks, so that all stop at one step."""
    if not dist.is_initialized():
        return gone
    flat, clock = torch.cat([p.flatten() for p in params]).cpu(), torch.tensor([gone])
    dist.all_reduce(flat)
    dist.all_reduce(clock, dist.ReduceOp.MAX)
    flat = (flat / dist.get_world_size()).to(params[0].device)
    for p, mean in zip(params, flat.split([p.numel() for p in params])):
        p.copy_(mean.view_as(p))
    return clock.item()


class Learner:
    """The optimisers of one part of the model; calm is its share of the rate."""

    def __init__(self, model, of_text, calm):
        matrices, self.rest = split_params(model, of_text)
        self.params, self.calm = [*matrices, *self.rest], calm
        self.muon, self.adam = Muon(matrices), adamw(self.rest, 0.0, (0.9, 0.98), 0.01)

    def set_rates(self, muon, adam):
        self.muon.set_rate(self.calm * muon)
        set_rate(self.adam, self.calm * adam)

    def step(self):
        self.muon.step()
        self.adam.step()

    def forget(self):
        self.muon.forget()
        forget(self.adam)


class Trainer:
    """The model that learns, its running mean, and the teacher of the later stages."""

    def __init__(self, args):
        self.device, self.stage, self.guidance = args.device, args.stage, args.guidance
        self.model = Model().to(args.device)
        if args.start:
            load_weights(self.model, args.start)
        self.mean = copy.deepcopy(self.model).requires_grad_(False)
        self.teacher = self._teacher(args)
        if self.teacher is not None:
            self.teacher.compile_blocks()
        self.model.compile_blocks()
        self.learners = [Learner(self.model, True, 1.0)]
        if args.calm:
            self.learners.append(Learner(self.model, False, args.calm))
        self.params = [p for learner in self.learners for p in learner.params]
        self.rest = [p for learner in self.learners for p in learner.rest]
        self.model.requires_grad_(False)
        for p in self.params:
            p.requires_grad_(True)
        self.weights, self.means = list(self.model.parameters()), list(self.mean.parameters())
        self.empty = tokens([""], args.device)

    def _teacher(self, args):
        if args.stage == "flow":
            return None
        if args.stage == "reword":
            return load_model(args.teacher).to(args.device).requires_grad_(False)
        if args.teacher == "self":
            self.guidance = args.guidance / (1 + args.guidance)
            return self.mean
        teacher = copy.deepcopy(self.mean)
        load_weights(teacher, args.teacher or args.start)
        return teacher

    @torch.no_grad()
    def wanted(self, x, sigma, z, noise, ids, lengths, plain):
        """What the model should say: x0 - noise and the guidance that it should have, or what its teacher says of the plain text."""
        if self.stage == "flow":
            return z - noise
        if self.stage == "reword":
            return self.teacher(x, sigma, *plain)
        text = self.teacher.text(ids, torch.bfloat16)
        return z - noise + self.guidance * difference(self.teacher, x, sigma, text, lengths, self.empty)

    def step(self, z, ids, lengths, *plain):
        for p in self.params:
            p.grad = None
        z = z.float()
        x, sigma, noise = noised(z, BLANK if self.stage == "reword" else 0.0)
        with torch.autocast(self.device, torch.bfloat16):
            target = self.wanted(x, sigma, z, noise, ids, lengths, plain)
            out = self.model(x, sigma, ids, lengths)
        loss = F.mse_loss(out, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.rest, 1.0)
        for learner in self.learners:
            learner.step()
        return loss.detach()

    def set_rates(self, muon, adam):
        for learner in self.learners:
            learner.set_rates(muon, adam)

    def forget(self):
        for learner in self.learners:
            learner.forget()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", choices=["flow", "guided", "reword"], required=True)
    parser.add_argument("--vae", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--start")
    parser.add_argument("--teacher", help="weights of T in the guided stage, or self; --start's if not given; a model folder in the "
                        "reword stage")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--guidance", type=float, default=0.8)
    parser.add_argument("--rate", type=float, default=1.0, help="times the learning rates")
    parser.add_argument("--calm", type=float, default=1.0, help="the share of the rates of all that is not the text side")
    parser.add_argument("--large", type=float, default=0.5, help="share of steps with large pictures")
    parser.add_argument("--plain", type=float, default=PLAIN, help="share of sentences that are captions.py's own")
    parser.add_argument("--tokens", type=int, default=16384, help="a step")
    parser.add_argument("--per-size", type=int, default=192, help="batches kept of the first size")
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    args = parser.parse_args()
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if ranks > 1:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("gloo")
    if args.stage == "guided" and not args.start:
        parser.error("the guided stage goes on from --start")
    if args.stage == "reword" and not (args.start and args.teacher):
        parser.error("the reword stage goes on from --start and has the model folder --teacher")
    torch.manual_seed(args.seed)              # alike on every rank, as long as weights are made
    chance = random.Random(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    vae, trainer = load_vae(args.vae, args.device), Trainer(args)
    torch.manual_seed(args.seed * 100 + rank)
    seed = args.seed + 100 * rank + {"guided": 10, "reword": 20}.get(args.stage, 5 if args.start else 0)
    small, large = (SMALL_FEW, LARGE_FEW) if args.stage == "reword" else (SMALL, LARGE)
    pool = Pool(small + large, encoder_of(vae), seed, args.per_size, plain=args.teacher if args.stage == "reword" else None,
                share=args.plain, device=args.device, workers=args.workers, tokens=args.tokens)
    print(f"pool ready: {sum(len(v) for v in pool.batches.values())} batches", flush=True)
    learn = Replay(trainer.step, pool.quiet)
    muon_lr, adam_lr = (args.rate * peak for peak in LR[args.stage])
    began = time.time()
    learn.prepare(pool.shapes())
    trainer.forget()
    print(f"recorded in {time.time() - began:.0f} s", flush=True)
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    start = saved = time.time()
    step, seen, shown, gone = 0, 0, 0.0, 0.0
    while gone < 1:
        factor = rate(args.stage, gone, bool(args.start)) * min(1, (step + 1) / 400)
        trainer.set_rates(muon_lr * factor, adam_lr * factor)
        many = chance.random() < (args.large if args.start or gone > 0.35 else 0.0)
        batch = pool.pick(large if many else small)
        loss = learn(*batch)
        follow(trainer.means, trainer.weights, step, KEEP)
        step, seen = step + 1, seen + len(batch[0])
        if step % TURN:
            continue
        value = loss.item()                   # waits for the GPU
        if value != value:
            raise SystemExit(f"{args.stage} step {step}: the loss is not a number; the last checkpoint is kept")
        shown = 0.9 * shown + 0.1 * value if shown else value
        gone = average(trainer.params, 1e3 if stopped else (time.time() - start) / (args.minutes * 60))
        if rank == 0 and step % 2000 == 0:
            print(f"{args.stage} step {step} {time.time() - start:.0f} s, {seen} pictures, loss {shown:.4f}", flush=True)
        if rank == 0 and time.time() - saved > SAVE_S:
            save_weights(trainer.mean, os.path.join(args.out, args.stage))
            saved = time.time()
    if rank == 0:
        save_weights(trainer.mean, os.path.join(args.out, args.stage))
        print(f"{args.stage}: {step} steps, {seen} pictures, {time.time() - start:.0f} s, loss {shown:.4f}", flush=True)
    pool.close()
    if rank == 0 and not stopped:
        evaluate(trainer.mean, vae, args.out, args.stage, args.device)


if __name__ == "__main__":
    main()
