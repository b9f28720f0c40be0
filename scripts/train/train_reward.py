"""train_reward.py - the guided model learns from what a judge says of its own pictures.

    python train_reward.py --start DIR/guided --vae DIR --judge DIR/other-judge.pt --out DIR --minutes 9
    torchrun --nproc-per-node 2 train_reward.py ...    on several GPUs: each draws its own prompts, gradients are averaged
    ... --check DIR/judge.pt                           another judge, that never rewards, says now and then how it goes

Online reinforcement on the forward process, after Zheng et al., "DiffusionNFT: Online Diffusion Reinforcement with
Forward Process" (2025).  A round draws EACH pictures of every prompt with the sampler of the product (8 steps, a quarter
of the rounds 4) by a copy of the model that lags behind, and rewards each; what counts is by how much a picture beats
the others of its prompt, a in 0..1.  The model is then trained by plain flow matching on these very pictures z, with the target

    old(x, sigma) + a * ((z - noise) - old(x, sigma))

so towards the pictures that beat their like, and nowhere where all are alike.  That paper also pushes away from the bad
ones; here that runs away: what is pushed away is never pulled back, and within 300 rounds nothing was left of the
pictures (README.md, "What did not help").
The judge that rewards must be another than the one that measures, or the model learns the judge's weaknesses.
"""
import argparse
import copy
import os
import random
import signal
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from tokenizers import Tokenizer

from captions import caption
from config import MODEL, STEPS
from data import LARGE, SMALL, batch_size, encode_texts
from flow import Model, decode, draw_sigmas, load_vae, load_weights, save_weights, shifted
from judge import evaluate, load_judge
from reward import look_at, pack_asked
from tokenizer import wrap
from train_flow import average, split_params
from train_judge import blemish
from world import sample_scene

RATE = 1e-4                    # at --rate 1
EACH = 12                      # pictures of a prompt
TURNS = 3                      # times of the flow at which a round looks at each picture
KEPT = 0.5                     # share of a round's pictures that are learned from: the best
HOW_MANY = [15, 35, 50]        # prompts of 1, 2 and 3 things
WARM = 6                       # rounds before the clock starts: the compiler works in them
SAVE_S = 60


def asker(index, seed, jobs, out):
    """A process that makes prompts: ids [P, L], lengths [P] and what they ask."""
    torch.set_num_threads(1)
    rng = random.Random(seed * 1000 + index)
    tokenizer = Tokenizer.from_file(os.path.join(MODEL, "tokenizer", "tokenizer.json"))
    while True:
        size, count, short, number = jobs.get()
        texts, asked = [], []
        while len(texts) < count:
            scene = sample_scene(rng, size[1] / size[0], count=rng.choices([1, 2, 3], HOW_MANY)[0])
            text, want = caption(rng, scene)
            if short and len(tokenizer.encode(wrap(text)).ids) > 32:
                continue
            texts.append(text)
            asked.append(want)
        out.put((number, size, *encode_texts(tokenizer, texts), pack_asked(asked)))


class Prompts:
    """Endless prompts from processes, a few rounds ahead; sizes come from `shared`, alike on every rank."""

    def __init__(self, shared, seed, tokens, workers=4):
        context = mp.get_context("spawn")
        self.shared, self.tokens, self.jobs, self.out = shared, tokens, context.Queue(), context.Queue()
        self.workers = [context.Process(target=asker, args=(i, seed, self.jobs, self.out), daemon=True) for i in range(workers)]
        for worker in self.workers:
            worker.start()
        self.ordered, self.given, self.early = 0, 0, {}
        for _ in range(3 * workers):
            self._order()

    def _order(self):
        table = SMALL if self.shared.random() < 0.6 else LARGE[:-4]
        size = self.shared.choices([s for s, _ in table], [w for _, w in table])[0]
        count = max(2, batch_size(*size, self.tokens) // EACH)
        self.jobs.put((size, count, self.shared.random() < 0.75, self.ordered))
        self.ordered += 1

    def take(self, device):
        self._order()
        while self.given not in self.early:
            number, *rest = self.out.get(timeout=300)
            self.early[number] = rest
        size, ids, lengths, asked = self.early.pop(self.given)
        self.given += 1

        def each(x):
            return x.repeat_interleave(EACH, 0).to(device)
        return size, each(ids), each(lengths), {k: each(v) for k, v in asked.items()}

    def close(self):
        for worker in self.workers:
            worker.terminate()


@torch.no_grad()
def draw(model, ids, lengths, size, steps):
    """Latents as the product's sampler makes them."""
    h, w = size
    device = ids.device
    sigmas = torch.cat([shifted(1 - torch.arange(steps, device=device) / steps), torch.zeros(1, device=device)])
    x = torch.randn(len(ids), 16, h // 8, w // 8, device=device)
    for k in range(steps):
        v = model(x, sigmas[k].expand(len(ids)), ids, lengths)
        x = x - (sigmas[k + 1] - sigmas[k]) * v.float()
    return x


def reward(judge, pictures, asked):
    """[B] in 0..1: mostly whether all is right, seen once as it is and once blemished."""
    value = 0
    for view in (pictures, blemish(pictures)):
        right, share, chance = look_at(judge, view, asked)
        value = value + (0.6 * right + 0.25 * share + 0.15 * chance) / 2
    return value


def advantage(value):
    """By how much each picture beats those of its prompt, 0..1."""
    over = value.view(-1, EACH)
    over = over - over.mean(1, keepdim=True)
    return (over / over.std().clamp(min=0.05)).clamp(0, 1).flatten()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", required=True)
    parser.add_argument("--vae", required=True)
    parser.add_argument("--judge", required=True, help="the judge that rewards")
    parser.add_argument("--check", help="a judge that only measures")
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--rate", type=float, default=1.0, help="times the learning rates")
    parser.add_argument("--flat", action="store_true", help="the learning rate stays, to go on from here later")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, default=65536)
    args = parser.parse_args()
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = args.device
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if ranks > 1:
        dist.init_process_group("nccl")
    shared = random.Random(args.seed)         # alike on every rank
    random.seed(args.seed * 100 + rank)
    prompts = Prompts(shared, args.seed * 100 + rank, args.tokens)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    vae, judge = load_vae(args.vae, device), load_judge(args.judge, device)
    check = load_judge(args.check, device) if args.check else None
    model = Model().to(device)
    load_weights(model, args.start)
    old, mean = (copy.deepcopy(model).requires_grad_(False) for _ in range(2))
    if device == "cuda":
        vae.decoder.to(memory_format=torch.channels_last)
        judge.to(memory_format=torch.channels_last)
        model.compile_blocks()
        old.compile_blocks()
    torch.manual_seed(args.seed * 100 + rank)
    matrices, rest = split_params(model)
    params = [*matrices, *rest]
    adam = torch.optim.AdamW(params, RATE * args.rate, betas=(0.9, 0.99), weight_decay=0.0, fused=device == "cuda")
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    start = saved = time.time()
    budget, turn, gone, best = args.minutes * 60, 0, 0.0, 0.0
    shown = {}

    def keep_best(when):
        """Saves the mean model unless the judge that only measures has seen a better one."""
        nonlocal best
        right = evaluate(mean, vae, check, 384, 256, 256, STEPS, when)[1] if check else 0
        if right >= best:
            best = right
            save_weights(mean, os.path.join(args.out, "reward"))

    while gone < 1:
        steps = 4 if shared.random() < 0.25 else STEPS
        size, ids, lengths, asked = prompts.take(device)
        with torch.autocast(device, torch.bfloat16):
            z = draw(old, ids, lengths, size, steps)
            pictures = (decode(vae, z).float() * 255).round() / 255
            value = reward(judge, pictures, asked)
        gain = advantage(value)
        kept = gain.topk(max(1, int(len(gain) * KEPT))).indices
        z, gain, ids, lengths = z[kept], gain[kept].view(-1, 1, 1, 1), ids[kept], lengths[kept]
        factor = min(1, (turn + 1) / 50) * (1 if args.flat else min(1, 0.02 + (1 - gone) / 0.3))
        for group in adam.param_groups:
            group["lr"] = RATE * args.rate * factor
        for p in params:
            p.grad = None
        for _ in range(TURNS):
            noise, sigma = torch.randn_like(z), draw_sigmas(len(z), z.device, *size)
            s = sigma.view(-1, 1, 1, 1)
            x = (1 - s) * z + s * noise
            with torch.autocast(device, torch.bfloat16):
                with torch.no_grad():
                    before = old(x, sigma, ids, lengths).float()
                out = model(x, sigma, ids, lengths)
            loss = F.mse_loss(out.float(), before + gain * (z - noise - before)) / TURNS
            loss.backward()
        clock = average(params, 1e3 if stopped else (time.time() - start) / budget, device)
        norm = torch.nn.utils.clip_grad_norm_(params, 1.0)
        adam.step()
        keep = min(0.98, (turn + 1) / (turn + 10))
        with torch.no_grad():                  # the copy that draws follows ever more slowly
            torch._foreach_lerp_(list(mean.parameters()), list(model.parameters()), 1 - keep)
            torch._foreach_lerp_(list(old.parameters()), list(model.parameters()), 1 - min(0.5, 0.001 * turn))
        turn += 1
        if turn == WARM:
            print(f"warm after {time.time() - start:.0f} s", flush=True)
            start = saved = time.time()
        elif turn % 5 == 0 and (turn > WARM or stopped):
            gone = clock.item()
        entry = shown.setdefault((steps, min(size) > 320), [0.0, 0])
        entry[0] += value.mean().item()
        entry[1] += 1
        if turn % 50 == 0 and rank == 0:
            rows = " ".join(f"{'large' if big else 'small'}/{k} {v / n:.3f}" for (k, big), (v, n) in sorted(shown.items()))
            print(f"round {turn} {time.time() - start:.0f} s, norm {norm.item():.2g}, reward {rows}", flush=True)
            shown = {}
        if turn % 5 == 0 and rank == 0 and time.time() - saved > SAVE_S:
            keep_best(f"{time.time() - start:.0f} s")
            saved = time.time()
    prompts.close()
    if dist.is_initialized():
        dist.destroy_process_group()
    if rank:
        return
    keep_best("end")
    print(f"reward: {turn} rounds, {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
