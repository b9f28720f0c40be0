#!/usr/bin/env python3
"""Makes tests/golden/embed/NAME: small checkpoints of text embedders with random weights, in the
layouts of published ones, and what sentence-transformers or model2vec compute with them
(vectors.safetensors, texts.json).

    VENV/bin/python scripts/golden_embed_models.py

Needs what golden_embed.py needs, and sentence-transformers, transformers, torch and model2vec.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import torch
from golden_embed import OUT, WORDS, unigram, wordpiece
from model2vec import StaticModel
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, StaticEmbedding, Transformer
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WIDTH, HEADS, INNER, LAYERS, POSITIONS = 48, 4, 80, 2, 64
TEXTS = [
    "a crimson disc",
    "a red star",
    "red",
    "The quick brown fox jumps over the lazy dog.",
    "beautiful highly detailed portrait of a girl, cinematic lighting, 8k, sharp focus",
    "ein roter Fuchs schläft unter der Brücke im Nebel",
    "une forêt naïve, crème brûlée déjà vu à l'œuvre",
    "красный круг над синим квадратом ночью",
    "赤い丸 と 青い四角 夜空の下で",
    "红色圆圈在蓝色方块上面",
    "  spaces   everywhere\tand\nlines  ",
    "state-of-the-art 1024x768 (masterpiece:1.2), don't! #1 @home",
    "embedding unaffordable tokenization volumetric mountains",
    "[SEP] in the text [CLS] and [MASK]",
    " ".join(WORDS[:60]),
    " ".join(WORDS[10:200]),
]


def state(model, kind=torch.float32, prefix=""):
    """Random weights of a size that gives vectors of all directions."""
    found = {}
    generator = torch.Generator().manual_seed(31)
    for name, value in model.state_dict().items():
        if value.dtype.is_floating_point:
            scale = 0.3 if value.ndim == 2 else 0.1
            value = torch.randn(value.shape, generator=generator) * scale
            if name.endswith("LayerNorm.weight"):
                value += 1
            value = value.to(kind)
        found[prefix + name] = value.contiguous()
    return found


def config(vocab, **more):
    return BertConfig(
        vocab_size=vocab,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=POSITIONS,
        type_vocab_size=2,
        **more,
    )


def save_bert(name, tokenizer, kind=torch.float32, prefix="", special=None, rows=None, **more):
    """config.json, model.safetensors, tokenizer.json and tokenizer_config.json."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = config(rows or tokenizer.get_vocab_size(), **more)
    model = BertModel(settings)
    weights = state(model, kind, prefix)
    if prefix:
        weights[prefix + "embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    root = {k: v for k, v in settings.to_dict().items() if v is not None}
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"} | root, indent=1))
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    fast = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": POSITIONS}
    names = special or {"cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "unk": "[UNK]", "mask": "[MASK]"}
    fast |= {f"{key}_token": token for key, token in names.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps(fast, indent=1))
    return folder


def modules(folder, listed, pooling=None, length=None):
    written = []
    for index, (kind, path) in enumerate(listed):
        written.append({"idx": index, "name": str(index), "path": path, "type": kind})
        if path:
            (folder / path).mkdir(exist_ok=True)
    (folder / "modules.json").write_text(json.dumps(written, indent=1))
    if pooling:
        (folder / "1_Pooling/config.json").write_text(json.dumps(pooling, indent=1))
    if length:
        own = {"max_seq_length": length, "do_lower_case": False}
        (folder / "sentence_bert_config.json").write_text(json.dumps(own))


def old_names(normalize):
    listed = [("sentence_transformers.models.Transformer", ""), ("sentence_transformers.models.Pooling", "1_Pooling")]
    return listed + ([("sentence_transformers.models.Normalize", "2_Normalize")] if normalize else [])


def old_pooling(**on):
    keys = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    return {"word_embedding_dimension": WIDTH} | {f"pooling_mode_{k}": on.get(k, False) for k in keys}


def reference(folder, prompts=("", "")):
    """Unit rows of all texts, as passages and as queries, computed in fp32."""
    model = SentenceTransformer(str(folder), device="cpu").float()
    rows = {}
    for use, prompt in zip(("passage", "query"), prompts):
        given = [prompt + text for text in TEXTS]
        rows[use] = torch.nn.functional.normalize(torch.tensor(model.encode(given)).double(), dim=1).float()
    return rows


def small_unigram():
    """Without a character map, which would be half a megabyte."""
    chain = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    return unigram(None, chain, size=700)


def berts():
    uncased = wordpiece(normalizers.BertNormalizer(), size=700)
    folder = save_bert("minilm", uncased)
    transformer = Transformer(str(folder), max_seq_length=32)
    pooling = Pooling(WIDTH, pooling_mode="mean")
    shutil.rmtree(OUT / "minilm_new", ignore_errors=True)
    SentenceTransformer(modules=[transformer, pooling, Normalize()], device="cpu").save(
        str(OUT / "minilm_new"), create_model_card=False
    )
    yield "minilm_new", OUT / "minilm_new", ("", "")
    modules(folder, old_names(True), old_pooling(mean_tokens=True), length=24)
    yield "minilm", folder, ("", "")
    folder = save_bert("bge", uncased, torch.float16, prefix="bert.")
    modules(folder, old_names(True), old_pooling(cls_token=True), length=64)
    prompts = {"prompts": {"query": "Represent this sentence: ", "document": ""}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    yield "bge", folder, ("", "Represent this sentence: ")
    names = {"cls": "<s>", "sep": "</s>", "pad": "<pad>", "unk": "<unk>", "mask": "<mask>", "bos": "<s>", "eos": "</s>"}
    folder = save_bert("multilingual-e5-tiny", small_unigram(), torch.bfloat16, special=names, pad_token_id=0)
    modules(folder, old_names(False), old_pooling(mean_tokens=True))
    yield "multilingual-e5-tiny", folder, ("passage: ", "query: ")
    folder = save_bert("plain", uncased, hidden_act="gelu_new", layer_norm_eps=1e-6)
    yield "plain", folder, ("", "")


def random_rows(count, seed, kind=np.float32):
    return np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(kind)


def save_static(name, vectors, tokenizer, **more):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    StaticModel(vectors, tokenizer, normalize=True, **more).save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    return folder


def static_reference(folder):
    model = StaticModel.from_pretrained(folder)
    model.embedding = model.embedding.astype(np.float32)  # else numpy rounds the mean to fp16
    rows = torch.nn.functional.normalize(torch.tensor(model.encode(TEXTS, max_length=model.max_length)).double(), dim=1)
    return {"passage": rows.float(), "query": rows.float()}


def statics():
    uncased = wordpiece(normalizers.BertNormalizer(), size=700)
    count = uncased.get_vocab_size()
    yield "potion", static_reference(save_static("potion", random_rows(count, 1), uncased, max_length=20))
    mapping = np.random.default_rng(2).integers(0, 100, count).astype(np.int64)
    weights = np.random.default_rng(3).random(count).astype(np.float32)
    folder = save_static("potion_mapped", random_rows(100, 4, np.float16), uncased, token_mapping=mapping, weights=weights)
    yield "potion_mapped", static_reference(folder)
    pieces = small_unigram()
    rows = (random_rows(pieces.get_vocab_size(), 5) * 30).clip(-127, 127).astype(np.int8)
    yield "potion_int8", static_reference(save_static("potion_int8", rows, pieces, max_length=None))
    folder = OUT / "static"
    shutil.rmtree(folder, ignore_errors=True)
    table = StaticEmbedding(Tokenizer.from_str(uncased.to_str()), embedding_weights=random_rows(count, 6))
    SentenceTransformer(modules=[table], device="cpu").save(str(folder), create_model_card=False)
    inner = folder / "0_StaticEmbedding"
    if not inner.exists():  # as older releases saved it
        inner.mkdir()
        for name in ("model.safetensors", "tokenizer.json"):
            (folder / name).rename(inner / name)
        listed = json.loads((folder / "modules.json").read_text())
        listed[0]["path"] = inner.name
        (folder / "modules.json").write_text(json.dumps(listed))
    yield "static", reference(folder)


def main():
    tensors = {}
    for name, rows in statics():
        tensors |= {f"{name}/{use}": value.contiguous() for use, value in rows.items()}
    for name, folder, prompts in berts():
        rows = reference(folder, prompts)
        tensors |= {f"{name}/{use}": value.contiguous() for use, value in rows.items()}
    save_file(tensors, OUT / "vectors.safetensors")
    (OUT / "texts.json").write_text(json.dumps(TEXTS, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main()
