"""train_flow.py - transformer and text encoder together, by flow matching.

    python train_flow.py --stage flow   --vae DIR --out DIR --minutes 18
    python train_flow.py --stage flow   --vae DIR --out DIR --start DIR/flow --minutes 10    (goes on)
    python train_flow.py --stage guided --vae DIR --out DIR --start DIR/flow --minutes 9
    python train_flow.py --stage guided ... --start DIR/guided --teacher DIR/flow --minutes 9       (goes on)
    torchrun --nproc-per-node 4 train_flow.py ...      on several GPUs: each draws its own pictures, gradients are averaged

flow: target x0 - noise; small pictures first, every size from 35 % of the time on.  guided: the target is
(x0 - noise) + g (T(caption) - T("")) with T the frozen result of the first stage, which bakes
guidance into one forward.  Matrices inside blocks learn by Muon, the rest by AdamW; an
exponential mean of the weights is what is kept: every minute, on SIGTERM and at the end.

The time starts when the data is there and the compiler has worked: two to three minutes on a bare machine, most of
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
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from captions import spoken
from data import LARGE, SMALL, Pool
from flow import Model, decode, draw_sigmas, encoder_of, load_vae, load_weights, sample, save_weights, sheet, tokens
from muon import Muon
from world import sample_scene

LR = {"flow": (4e-3, 1.5e-3), "guided": (1.6e-3, 6e-4)}      # Muon, AdamW
WARM = 40                                 # steps before the clock starts: the compiler works in them
SAVE_S = 60


def rate(stage, gone, resumed):
    if stage == "flow":                       # flat 20 %, then linear to 30 %; resumed: from 80 % on
        if resumed:
            return 0.8 - 0.6 * gone
        return 1.0 if gone < 0.2 else 1.0 - 0.7 * (gone - 0.2) / 0.8
    return 1.0 - 0.985 * gone


def split_params(model):
    matrices, rest = [], []
    for name, p in model.named_parameters():
        if name.startswith(f"text.layers.{len(model.text.layers) - 1}.") or name == "text.norm.weight":
            continue                          # hidden_states[-2] never reaches them
        inner = p.ndim == 2 and any(k in name for k in ("attention.to_", "feed_forward", "_proj"))
        (matrices if inner else rest).append(p)
    return matrices, rest


def average(params, gone, device="cuda"):
    """Means of the gradients, and of the time gone, over all processes; returns the latter, so that all stop at one step."""
    gone = torch.tensor([gone], device=device)
    if not dist.is_initialized():
        return gone
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params] + [gone]
    flat = _flatten_dense_tensors(grads)
    dist.all_reduce(flat, dist.ReduceOp.AVG)
    means = _unflatten_dense_tensors(flat, grads)
    for p, mean in zip(params, means):
        p.grad = mean
    return means[-1]


def evaluate(model, vae, path, stage):
    rng = random.Random(5)
    texts = [spoken(sample_scene(rng), rng)[0] for _ in range(32)]
    with torch.autocast("cuda", torch.bfloat16):
        z = sample(model, texts, 256, 256)
        large = sample(model, texts[:8], 512, 512)
    pictures = decode(vae, z)
    sheet(pictures, f"{path}/{stage}.png")
    sheet(decode(vae, large), f"{path}/{stage}-512.png", 4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", choices=["flow", "guided"], required=True)
    parser.add_argument("--vae", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--start")
    parser.add_argument("--teacher", help="weights of T in the guided stage; --start's if not given")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--guidance", type=float, default=2.0)
    args = parser.parse_args()
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    if ranks > 1:
        dist.init_process_group("nccl")
    torch.manual_seed(args.seed)
    shared = random.Random(args.seed)         # alike on every rank
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    vae = load_vae(args.vae)
    model = Model().cuda()
    teacher = None
    if args.start:
        load_weights(model, args.start)
    if args.stage == "guided":
        teacher = copy.deepcopy(model).requires_grad_(False)
        if args.teacher:
            load_weights(teacher, args.teacher)
        teacher.compile_blocks()
    ema = copy.deepcopy(model).requires_grad_(False)
    model.compile_blocks()
    torch.manual_seed(args.seed * 100 + rank)
    sizes = SMALL + LARGE
    pool = Pool(sizes, encoder_of(vae), args.seed + 100 * rank + (10 if teacher else 5 if args.start else 0),
                workers=max(2, os.cpu_count() // ranks - 2))
    print(f"pool ready: {sum(len(v) for v in pool.batches.values())} batches", flush=True)
    matrices, rest = split_params(model)
    muon_lr, adam_lr = LR[args.stage]
    muon = Muon(matrices, muon_lr)
    adam = torch.optim.AdamW(rest, adam_lr, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    empty_ids, empty_len = tokens([""], "cuda")
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    start = saved = time.time()
    budget, step, seen, shown, gone = args.minutes * 60, 0, 0, 0.0, 0.0
    while gone < 1:
        factor = rate(args.stage, gone, bool(args.start)) * min(1, (step + 1) / 200)
        for group in adam.param_groups:
            group["lr"] = adam_lr * factor
        large = shared.random() < (0.5 if args.start or gone > 0.35 or step < WARM else 0.0)
        z, ids, lengths = pool.pick(LARGE if large else SMALL)
        z = z.float()
        noise, sigma = torch.randn_like(z), draw_sigmas(len(z), z.device, *(8 * side for side in z.shape[2:]))
        s = sigma.view(-1, 1, 1, 1)
        x, target = (1 - s) * z + s * noise, z - noise
        with torch.autocast("cuda", torch.bfloat16):
            if teacher is not None:
                with torch.no_grad():
                    pos = teacher(x, sigma, ids, lengths)
                    neg = teacher(x, sigma, empty_ids.expand(len(z), -1), empty_len.expand(len(z)))
                    target = target + args.guidance * (pos - neg)
            out = model(x, sigma, ids, lengths)
        loss = F.mse_loss(out.float(), target)
        for p in (*matrices, *rest):
            p.grad = None
        loss.backward()
        clock = average([*matrices, *rest], 1e3 if stopped else (time.time() - start) / budget)
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        muon.step(muon_lr * factor)
        adam.step()
        keep = min(0.999, (step + 1) / (step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 1 - keep)
        step, seen = step + 1, seen + len(z)
        if step == WARM:
            print(f"warm after {time.time() - start:.0f} s", flush=True)
            start = saved = time.time()
        elif step % 10 == 0 and (step > WARM or stopped):
            gone = clock.item()
        shown = 0.98 * shown + 0.02 * loss.item() if step % 10 == 0 and shown else shown or loss.item()
        if step % 1000 == 0 and rank == 0:
            print(f"{args.stage} step {step} {time.time() - start:.0f} s, {seen} pictures, loss {shown:.4f}", flush=True)
        if step % 10 == 0 and rank == 0 and time.time() - saved > SAVE_S:
            save_weights(ema, os.path.join(args.out, args.stage))
            saved = time.time()
    pool.close()
    if dist.is_initialized():
        dist.destroy_process_group()
    if rank:
        return
    save_weights(ema, os.path.join(args.out, args.stage))
    evaluate(ema, vae, args.out, args.stage)
    print(f"{args.stage}: {step} steps, {seen} pictures, {time.time() - start:.0f} s, loss {shown:.4f}", flush=True)


if __name__ == "__main__":
    main()
