#!/usr/bin/env python3
"""Golden vectors for the head over caption features (pipeline/embed/captions/head.h).

    VENV/bin/python scripts/golden_caption_head.py

Writes tests/golden/embed/caption_head.safetensors: a small random head in the format of a shipped
one; features of a query and of three captions; what the head makes of them, and
the scores of late interaction: of the query, and of each caption among the others as a query.  All
in float64, by the definition.  Needs numpy and safetensors.
"""
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

OUT = Path(__file__).resolve().parent.parent / "tests/golden/embed/caption_head.safetensors"
DIMS, ROW, COUNTS = 24, 8, [5, 9, 1]


def main():
    rng = np.random.default_rng(31)
    head = {"map": rng.normal(size=(ROW, DIMS)), "vague_map": rng.normal(size=(ROW, DIMS)),
            "weight": rng.normal(size=(3, DIMS)) / 3,
            "shift": np.array([0.25, -1.5, 0.5])}
    head = {name: value.astype(np.float32) for name, value in head.items()}

    def rows(features, use):
        x = features.astype(np.float64)
        mapped = x @ head["vague_map" if use == 2 else "map"].T.astype(np.float64)
        mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
        at = x / np.sqrt((x ** 2).mean(1, keepdims=True) + 1e-5) @ head["weight"][use].astype(np.float64)
        return mapped * np.log1p(np.exp(at + head["shift"][use]))[:, None]

    def score(query, caption):
        lengths = np.linalg.norm(query, axis=1)
        units = caption / np.linalg.norm(caption, axis=1, keepdims=True)
        return ((query @ units.T).max(1)).sum() / lengths.sum()

    query = (3 * rng.normal(size=(4, DIMS))).astype(np.float32)
    captions = [(rng.normal(size=(n, DIMS)) + 1).astype(np.float32) for n in COUNTS]
    stored = [rows(c, 0) for c in captions]
    tensors = dict(head, query=query, query_rows=rows(query, 1),
                   vague=query, vague_rows=rows(query, 2))
    for i, (features, each) in enumerate(zip(captions, stored)):
        tensors |= {f"caption{i}": features, f"caption{i}_rows": each}
    tensors["query_scores"] = np.array([score(tensors["query_rows"], c) for c in stored])
    tensors["caption_scores"] = np.array([[score(a, b) for b in stored] for a in stored])
    save_file({name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()}, OUT,
              {"format": "kiln-caption-head-2", "model": "abc"})


main()
