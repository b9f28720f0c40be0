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

from config import MODEL
from render import draw, pack
from speech import PLAIN, spoken
from styles import calling
from tokenizer import wrap
from world import sample_scene

SMALL = [((256, 256), 40), ((192, 320), 8), ((320, 192), 8), ((224, 288), 8), ((288, 224), 8),
         ((240, 272), 6), ((208, 368), 6), ((368, 208), 6), ((256, 320), 5), ((320, 256), 5)]
LARGE = [((512, 512), 30), ((384, 384), 12), ((384, 512), 7), ((512, 384), 7), ((320, 448), 6),
         ((448, 320), 6), ((288, 512), 5), ((512, 288), 5), ((256, 448), 6), ((448, 256), 6),
         ((640, 640), 5), ((480, 640), 3), ((640, 480), 3), ((512, 896), 2), ((896, 512), 2), ((768, 768), 1),
         ((576, 768), 1), ((768, 576), 1), ((640, 1136), 0.5), ((1136, 640), 0.5)]
# For the reword stage: a graph is recorded for each size, which takes a second or two.  Words are the same at all sizes, but large
# pictures, of which the model has seen few, forgive a text side that moves least: they need their share.
SMALL_FEW = [((256, 256), 40), ((192, 320), 8), ((320, 192), 8), ((240, 272), 8)]
LARGE_FEW = [((512, 512), 24), ((384, 512), 6), ((512, 288), 6), ((640, 640), 8), ((576, 768), 5), ((768, 576), 5),
             ((512, 896), 9), ((896, 512), 9), ((768, 768), 3)]
FRESH = 0.2                    # of the batches that are picked make room for a new one
EMPTY = 0.11                   # of the short captions
STYLED = 0.06                  # of the reword stage's captions call a style, which means nothing there
SHORT, LONG = 0.6, 0.04        # batches whose captions pad to 32 tokens; to 96, of the first size alone; 64 is the rest
HOW_MANY = [26, 36, 38]        # of 1, 2, 3 things: three are the hard case


def batch_size(h, w, tokens):
    return max(4, tokens // (h * w // 256 + 32))


def tokenizer_of(folder):
    return Tokenizer.from_file(os.path.join(folder, "tokenizer", "tokenizer.json"))


def encode_texts(tokenizer, texts, length=None):
    """ids [n, L] padded with 0, to a multiple of 32 if no length is given; lengths [n]."""
    rows = [tokenizer.encode(wrap(t)).ids[:length or 96] for t in texts]
    length = length or -max(map(len, rows)) // 32 * -32
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, :len(row)] = torch.tensor(row)
    return ids, torch.tensor([len(r) for r in rows])


def _maker(index, seed, jobs, out, suffixes, plain, share):
    torch.set_num_threads(1)
    rng = random.Random(seed * 1000 + index)
    tokenizer, theirs = tokenizer_of(MODEL), tokenizer_of(plain) if plain else None
    while True:
        size, count, bucket = jobs.get()
        h, w = size
        scenes, texts, plains = [], [], []
        while len(scenes) < count:
            scene = sample_scene(rng, w / h, count=rng.choices([1, 2, 3], HOW_MANY)[0])
            text, same = spoken(scene, rng, w / h, share)
            if suffixes:
                text += rng.choice(suffixes)
            elif bucket == 32 and rng.random() < EMPTY:
                text = same = ""
            elif plain and rng.random() < STYLED:
                text = calling(rng, text)
            if not min(bucket - 32, 32) < len(tokenizer.encode(wrap(text)).ids) <= bucket:
                continue
            scenes.append(scene)
            texts.append(text)
            plains.append(same)
        batch = [size, pack(scenes, "cpu"), *encode_texts(tokenizer, texts, bucket)]
        out.put(batch + list(encode_texts(theirs, plains, 64)) if plain else batch)


class Pool:
    """Batches of latents by size.  encode(pictures) -> latents; style as in render.draw.

    plain names the model folder whose tokenizer encodes the plain text of every scene; batches hold it too, then; share: of its
    plain sentences, as in speech.spoken."""

    def __init__(self, sizes, encode, seed, per_size, style="base", suffixes=None, plain=None, *, share=PLAIN, device, workers, tokens):
        context = mp.get_context("spawn")
        self.jobs, self.out = context.Queue(), context.Queue(64)
        self.sizes, self.encode, self.style, self.device, self.tokens = sizes, encode, style, device, tokens
        self.rng = random.Random(seed)
        self.cap = {size: max(3, round(per_size * weight / sizes[0][1])) for size, weight in sizes}
        self.batches = {size: [] for size, _ in sizes}
        self.workers = [context.Process(target=_maker, args=(i, seed, self.jobs, self.out, suffixes, plain, share), daemon=True)
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
        bucket = 32 if self.rng.random() < SHORT else 64
        if size == self.sizes[0][0] and self.rng.random() < LONG:
            bucket = 96
        self.jobs.put((size, batch_size(*size, self.tokens), bucket))

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
        size, packed, *texts = self._made()
        with self.quiet:
            packed = {k: v.to(self.device, non_blocking=True) for k, v in packed.items()}
            parts = []
            step = max(1, 6_000_000 // (size[0] * size[1]))
            for at in range(0, len(texts[1]), step):
                piece = {k: v[at:at + step] for k, v in packed.items()}
                parts.append(self.encode(draw(piece, *size, self.style)))
            entry = (torch.cat(parts), *(x.to(self.device) for x in texts))
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
        """(latents, ids, lengths), and ids and lengths of the plain texts if wanted, of a random size; now and then asks for a fresh batch of that size."""
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
