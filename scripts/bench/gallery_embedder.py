#!/usr/bin/env python3
"""Makes a static text embedder for benches of the gallery: the shape of potion-base-8M, random rows.

    VENV/bin/python scripts/bench/gallery_embedder.py DIR [--dims 256] [--seed 1]

Its WordPiece vocabulary is trained on the prompts of gallery_make.py, so texts have as many tokens
as real ones do with a real table.  Times and memory do not depend on the values; meaning does, so
what such a table finds says nothing.  Rows of frequent tokens are short, as those of potion are.
Needs numpy, safetensors and tokenizers.
"""
import argparse
import itertools
import json
from pathlib import Path

import numpy as np
from gallery_make import rows
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

PROMPTS = 40000
TOKENS = 30000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--dims", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    prompts = [row.split("\t")[1] for row in itertools.islice(rows(PROMPTS, args.seed), PROMPTS)]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(prompts, trainers.WordPieceTrainer(
        vocab_size=TOKENS, special_tokens=special, show_progress=False))
    counts = np.ones(tokenizer.get_vocab_size())
    for encoding in tokenizer.encode_batch(prompts[:10000], add_special_tokens=False):
        np.add.at(counts, encoding.ids, 1)
    table = np.random.default_rng(args.seed).standard_normal((len(counts), args.dims))
    table *= (1e-3 / (1e-3 + counts / counts.sum()))[:, None]  # smooth inverse frequency
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.out / "tokenizer.json"))
    save_file({"embeddings": table.astype(np.float32)}, str(args.out / "model.safetensors"))
    config = {"max_length": 512, "normalize": True, "embedding_dtype": "float32"}
    (args.out / "config.json").write_text(json.dumps(config, indent=4))


main()
