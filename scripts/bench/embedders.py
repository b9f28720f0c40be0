#!/usr/bin/env python3
"""Text embedders in Kiln and in sentence-transformers, in processor time of one thread.

    VENV/bin/python scripts/bench/embedders.py --kiln build/kiln --out DIR [DIR of an embedder ...]

Without a directory it makes checkpoints of random weights in the shapes of all-MiniLM-L6-v2 and
bge-small (DIR/minilm, DIR/bge-small): times do not depend on the weights.  The texts are those of
`kiln bench embed`.  Needs what scripts/golden_embed_models.py needs.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

THINGS = ["red fox", "old harbour", "glass city", "blue star", "quiet forest", "steam train", "paper boat"]
LIGHTS = ["at night", "in morning fog", "under neon light", "at sunset", "in the snow"]
LOOKS = ["oil painting", "photograph, sharp focus", "watercolor", "cinematic, highly detailed"]


def text(n):
    return f"a {THINGS[n % 7]} {LIGHTS[n // 7 % 5]}, {LOOKS[n // 35 % 4]}, number {n}"


def make(folder, layers):
    """A checkpoint of width 384 with a word table of BERT's size and small random weights."""
    import golden_embed_models as models
    import torch
    from golden_embed import corpus
    from tokenizers import normalizers

    models.OUT = folder.parent
    models.WIDTH, models.HEADS, models.INNER, models.LAYERS, models.POSITIONS = 384, 12, 1536, layers, 512
    words = [text(n) for n in range(200)] * 20
    tokenizer = models.wordpiece(normalizers.BertNormalizer(), sentences=words + corpus())
    plain = models.state
    models.state = lambda *a: {k: v * 0.1 if v.ndim == 2 and v.dtype == torch.float32 else v for k, v in plain(*a).items()}
    models.save_bert(folder.name, tokenizer, rows=30522)
    models.state = plain
    models.modules(folder, models.old_names(True), models.old_pooling(mean_tokens=True), length=256)


def peer(folder, calls):
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    model = SentenceTransformer(str(folder), device="cpu")
    times = []
    for n in range(-calls // 10, calls):
        begin = time.thread_time()
        model.encode([text(n + calls)], show_progress_bar=False)
        times.append(1e3 * (time.thread_time() - begin))
    times = sorted(times[calls // 10 :])
    begin = time.thread_time()
    for _ in range(5):
        model.encode([text(n) for n in range(32)], batch_size=32, show_progress_bar=False)
    return times[calls // 2], 1e3 * (time.thread_time() - begin) / 160


def tokens(folder):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    return sum(len(tokenizer.encode(text(n)).ids) for n in range(200)) / 200


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kiln", default="build/kiln")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("folders", type=Path, nargs="*")
    args = parser.parse_args()
    if not args.folders:
        args.folders = [args.out / "minilm", args.out / "bge-small"]
        for folder, layers in zip(args.folders, (6, 12)):
            if not (folder / "model.safetensors").exists():
                make(folder, layers)
    for folder in args.folders:
        command = [args.kiln, "bench", "embed", "--embedder", str(folder), "--jobs", str(args.calls), "--json"]
        ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        one, together = peer(folder, args.calls)
        print(
            f"{folder.name}, {tokens(folder):.1f} tokens a text: Kiln {ours['median_ms']:.2f} ms "
            f"(p99 {ours['p99_ms']:.2f}), {ours['together_ms']:.2f} of 32 together; "
            f"sentence-transformers {one:.2f} ms, {together:.2f} of 32 together"
        )


main()
