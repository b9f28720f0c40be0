"""data.py - endless training data: processes make scenes and captions, the GPU draws them.

Worker processes make packed scenes and a caption of each.  A Pool keeps encoded batches of every size; a thread swaps old ones
for fresh ones as training goes on, so that no picture is seen for long and no step waits for one.
"""
import contextlib
import os
import queue
import random
import threading

import torch
import torch.multiprocessing as mp
from tokenizers import Tokenizer

from captions import spoken
from config import MODEL
from render import draw, pack
from tokenizer import wrap
from world import sample_scene

SMALL = [((256, 256), 40), ((192, 320), 8), ((320, 192), 8), ((224, 288), 8), ((288, 224), 8),
         ((240, 272), 6), ((208, 368), 6), ((368, 208), 6), ((256, 320), 5), ((320, 256), 5)]
LARGE = [((512, 512), 30), ((384, 384), 12), ((384, 512), 7), ((512, 384), 7), ((320, 448), 6),
         ((448, 320), 6), ((288, 512), 5), ((512, 288), 5), ((256, 448), 6), ((448, 256), 6),
         ((640, 640), 5), ((512, 896), 2), ((896, 512), 2), ((640, 1136), 0.5), ((1136, 640), 0.5)]
FRESH = 0.15                   # of the batches that are picked make room for a new one
HOW_MANY = [26, 36, 38]        # of 1, 2, 3 things: three are the hard case


def batch_size(h, w, tokens):
    return max(4, tokens // (h * w // 256 + 32))


def encode_texts(tokenizer, texts):
    """ids [n, L] padded to a multiple of 32 with 0, lengths [n]."""
    rows = [tokenizer.encode(wrap(t)).ids[:96] for t in texts]
    length = -max(map(len, rows)) // 32 * -32
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, :len(row)] = torch.tensor(row)
    return ids, torch.tensor([len(r) for r in rows])


def _maker(index, seed, jobs, out, suffixes):
    torch.set_num_threads(1)
    rng = random.Random(seed * 1000 + index)
    tokenizer = Tokenizer.from_file(os.path.join(MODEL, "tokenizer", "tokenizer.json"))
    while True:
        size, count, bucket = jobs.get()
        h, w = size
        scenes, texts = [], []
        while len(scenes) < count:
            scene = sample_scene(rng, w / h, count=rng.choices([1, 2, 3], HOW_MANY)[0])
            text = spoken(scene, rng, w / h)[0]
            if suffixes:
                text += rng.choice(suffixes)
            short = len(tokenizer.encode(wrap(text)).ids) <= 32
            if bucket == 32 and not short:
                continue
            scenes.append(scene)
            texts.append("" if rng.random() < 0.08 and not suffixes else text)
        out.put((size, pack(scenes, "cpu"), *encode_texts(tokenizer, texts)))


class Pool:
    """Batches of latents by size.  encode(pictures) -> latents; style as in render.draw."""

    def __init__(self, sizes, encode, seed, per_size, style="base", suffixes=None, *, device, workers, tokens):
        context = mp.get_context("spawn")
        self.jobs, self.out = context.Queue(), context.Queue(64)
        self.sizes, self.encode, self.style, self.device, self.tokens = sizes, encode, style, device, tokens
        self.rng = random.Random(seed)
        self.cap = {size: max(3, round(per_size * weight / sizes[0][1])) for size, weight in sizes}
        self.batches = {size: [] for size, _ in sizes}
        self.workers = [context.Process(target=_maker, args=(i, seed, self.jobs, self.out, suffixes), daemon=True)
                        for i in range(workers)]
        for worker in self.workers:
            worker.start()
        for size, _ in sizes:
            for _ in range(self.cap[size]):
                self._order(size)
        self.quiet, self.main = threading.Lock(), torch.cuda.current_stream() if device == "cuda" else None
        for _ in range(sum(self.cap.values())):
            self._take()
        self.wanted, self.failed = queue.Queue(4), None
        self.thread = threading.Thread(target=self._refill, daemon=True)
        self.thread.start()

    def _order(self, size):
        # 3 of 4 batches hold captions that pad to 32 tokens; the rest take what comes (32 or 64)
        self.jobs.put((size, batch_size(*size, self.tokens), 32 if self.rng.random() < 0.75 else 64))

    def _made(self):
        """The next batch of scenes; waits five minutes at most."""
        for _ in range(60):
            with contextlib.suppress(queue.Empty):
                return self.out.get(timeout=5)
            for worker in self.workers:
                if not worker.is_alive():
                    raise RuntimeError(f"{worker.name}, which makes scenes, ended with {worker.exitcode}")
        raise RuntimeError("no scenes for five minutes")

    def _take(self):
        size, packed, ids, lengths = self._made()
        with self.quiet:
            packed = {k: v.to(self.device, non_blocking=True) for k, v in packed.items()}
            parts = []
            step = max(1, 6_000_000 // (size[0] * size[1]))
            for at in range(0, len(lengths), step):
                piece = {k: v[at:at + step] for k, v in packed.items()}
                parts.append(self.encode(draw(piece, *size, self.style)))
            entry = (torch.cat(parts), ids.to(self.device), lengths.to(self.device))
            if self.main:                      # the trainer's stream reads what this thread's stream has made
                torch.cuda.current_stream().synchronize()
                for x in entry:
                    x.record_stream(self.main)
            if not entry[0].isfinite().all():
                raise RuntimeError(f"latents of {size[1]}x{size[0]} are not finite")
            kept = self.batches[size]
            if len(kept) < self.cap[size]:
                kept.append(entry)
            else:
                kept[self.rng.randrange(len(kept))] = entry

    def _refill(self):
        if self.main:
            torch.cuda.set_device(self.main.device)
        with torch.cuda.stream(torch.cuda.Stream() if self.main else None):
            try:
                while (size := self.wanted.get()) is not None:
                    self._order(size)
                    self._take()
            except Exception as error:         # pick() tells it
                self.failed = error

    def pick(self, sizes=None):
        """(latents, ids, lengths) of a random size; now and then asks for a fresh batch of that size."""
        if self.failed:
            raise RuntimeError("no new pictures are made") from self.failed
        table = sizes or self.sizes
        size = self.rng.choices([s for s, _ in table], [w for _, w in table])[0]
        if self.rng.random() < FRESH and not self.wanted.full():
            self.wanted.put(size)
        return self.rng.choice(self.batches[size])

    def shapes(self):
        """One batch of every set of shapes."""
        return {tuple(x.shape for x in batch): batch for kept in self.batches.values() for batch in kept}.values()

    def close(self):
        with contextlib.suppress(queue.Full):
            while not self.wanted.empty():
                self.wanted.get_nowait()
            self.wanted.put_nowait(None)
        self.thread.join(30)
        for worker in self.workers:
            worker.terminate()
