"""grow.py - a longer vocabulary and more text layers for a model that is trained already.

    python grow.py --start MODEL --out W          writes W/grown-*.pt for train_flow.py --start W/grown

MODEL is the older model folder with its own tokenizer; the new tokenizer is the one of config.MODEL (tokenizer.py made it).  A token
that is new starts as the mean of the pieces that the older tokenizer makes of it, and a word of lexicon.py as the plain word
for it, so that " teal" starts as " cyan".  A layer that is new adds nothing at first: its output matrices are zero.
"""
import argparse
import json
import os

import torch

import lexicon
from config import MODEL, TEXT
from data import tokenizer_of
from flow import Model, read_weights, save_weights


def meanings():
    """{word: plain word} of the lexicon."""
    out = {}
    for rows in (lexicon.SHAPE, lexicon.COLOUR, lexicon.SIZE):
        for name in rows:
            for word in lexicon.listed(rows, name):
                out.setdefault(word, name)
    return out


def embeddings(old, older, newer):
    """Rows for every token of the newer tokenizer."""
    plain, rows = meanings(), []
    for token in range(newer.get_vocab_size()):
        special = newer.id_to_token(token)
        if older.token_to_id(special) is not None:
            rows.append(old[older.token_to_id(special)])
            continue
        text = newer.decode([token], skip_special_tokens=False)
        word = text.strip().lower().lstrip("-")
        text = text.lower().replace(word, plain[word]) if word in plain else text
        pieces = older.encode(text, add_special_tokens=False).ids
        rows.append(old[pieces].mean(0) if pieces else old.mean(0))
    return torch.stack(rows)


def grow(state, older, newer, old_layers):
    """The weights of the larger model."""
    model = Model()
    new = model.state_dict()
    last = TEXT["num_hidden_layers"] - 1
    for name, value in new.items():
        if name == "text.embed_tokens.weight":
            value.copy_(embeddings(state[name], older, newer))
        elif name.startswith("text.layers."):
            layer, rest = name.removeprefix("text.layers.").split(".", 1)
            source = old_layers - 1 if int(layer) == last else min(int(layer), old_layers - 2)
            value.copy_(state[f"text.layers.{source}.{rest}"])
            if old_layers - 1 <= int(layer) < last and rest in ("self_attn.o_proj.weight", "mlp.down_proj.weight"):
                value.zero_()
        else:
            value.copy_(state[name])
    model.load_state_dict(new)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--start", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    with open(os.path.join(args.start, "text_encoder", "config.json")) as f:
        old_layers = json.load(f)["num_hidden_layers"]
    model = grow(read_weights(args.start), tokenizer_of(args.start), tokenizer_of(MODEL), old_layers)
    save_weights(model, os.path.join(args.out, "grown"))


if __name__ == "__main__":
    main()
