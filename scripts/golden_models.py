"""Tiny random models of Z-Image's classes, saved in the ways real ones are found.

Every parameter is random, the ones that an implementation could forget most of all: norm weights,
biases and pad tokens.  Values are rounded to the dtype of the file before anything runs, so that
the reference, which computes in fp32, sees exactly what a reader of the file sees.
"""

import json
import math
import shutil
from pathlib import Path

import diffusers
import golden_qwen
import golden_twinflow
import torch
from diffusers import (
    AutoencoderKL,
    FlowMatchEulerDiscreteScheduler,
    ZImagePipeline,
)
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers
from transformers import Qwen2Tokenizer, Qwen3Config, Qwen3Model

# As the tokenizer.json of Qwen 2 and 3 has it.
QWEN_PATTERN = golden_qwen.PATTERN
CHAT_TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content"
    " + '<|im_end|>' + '\\n' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = ["<think>", "</think>"]

CORPUS = """
a red circle above a blue square on a plain white background, the small green star left of the ring
two yellow triangles and a purple heart, neon style, watercolour painting of the night sky with a moon
an oil painting of a quiet harbour at sunrise, boats, soft light, highly detailed, don't it's we're
一只红色的狐狸坐在雪地里 水墨画 夜晚的城市灯光 请画一幅蓝色的山水画
for (int i = 0; i < n; i++) { sum += x[i] * 0.5; }  // 1024x1024, 3.14159
Der große Bär über dem Fluß, ein Café im Schnee; el niño pequeño bajo la luna
"""


def draw(module, generator, dtype):
    """Fills every parameter so that activations stay near 1 and no part is left at its default."""

    def normal(p):
        return torch.randn(p.shape, generator=generator)

    for name, p in module.named_parameters():
        if "pad_token" in name or "embed_tokens" in name:
            value = normal(p)
        elif "t_embedder" in name and p.ndim == 2:
            # The largest matrices, whose size no config changes: few distinct values pack well.
            value = (2 * normal(p)).round() / (2 * math.sqrt(p.shape[1]))
        elif p.ndim >= 2:
            value = normal(p) / math.sqrt(p[0].numel())
        elif name.endswith("bias"):
            value = 0.1 * normal(p)
        else:
            value = 1 + 0.2 * normal(p)
        p.data = value.to(dtype).float()
    return module.eval().requires_grad_(False)


def train_tokenizer(size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(CORPUS.strip().splitlines() * 3, trainer)
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ADDED])
    return tokenizer


def save_tokenizer(tokenizer, folder, as_vocab_and_merges):
    """tokenizer.json, or the older three files; both with the settings of Qwen's."""
    folder.mkdir(parents=True)
    raw = json.loads(tokenizer.to_str())
    config = {
        "added_tokens_decoder": {
            str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in raw["added_tokens"]
        },
        "bos_token": None,
        "chat_template": CHAT_TEMPLATE,
        "eos_token": "<|im_end|>",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1, ensure_ascii=False))
    if as_vocab_and_merges:
        (folder / "vocab.json").write_text(json.dumps(raw["model"]["vocab"], ensure_ascii=False))
        merges = [m if isinstance(m, str) else " ".join(m) for m in raw["model"]["merges"]]
        (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    else:
        tokenizer.save(str(folder / "tokenizer.json"))


def to_comfy(tensors):
    """The key names and the fused qkv of the single-file repack."""
    renamed = {}
    for name, value in tensors.items():
        if ".attention.to_k." in name or ".attention.to_v." in name:
            continue
        if ".attention.to_q." in name:
            value = torch.cat([tensors[name.replace("to_q", p)] for p in ("to_q", "to_k", "to_v")])
            name = name.replace("to_q", "qkv")
        for old, new in (
            (".attention.to_out.0.", ".attention.out."),
            (".norm_q.", ".q_norm."),
            (".norm_k.", ".k_norm."),
            ("all_x_embedder.2-1.", "x_embedder."),
            ("all_final_layer.2-1.", "final_layer."),
        ):
            name = name.replace(old, new)
        renamed["model.diffusion_model." + name] = value.contiguous()
    dim = tensors["x_pad_token"].shape[-1]
    renamed["model.diffusion_model.norm_final.weight"] = torch.ones(dim, dtype=value.dtype)
    return renamed


def build(spec, folder, generator):
    """Saves the model in folder as Kiln will read it; returns the pipeline that is its reference.

    spec: transformer, text, vae (arguments of the classes), shift, dtype, and the flags comfy,
    prefix (text encoder keys begin with "model."), shards, vocab_and_merges, target (the transformer
    has a second time embedder), as_saved (the folder is what save_pretrained writes, tokenizer
    included, and nothing in it is changed)."""
    dtype = getattr(torch, spec["dtype"])
    tokenizer = train_tokenizer(600)
    tokenizer_files = folder.with_name(folder.name + ".tokenizer")
    save_tokenizer(tokenizer, tokenizer_files, spec.get("vocab_and_merges", False))
    arguments = dict(spec["text"])
    theta = {"rope_type": "default", "rope_theta": arguments.pop("rope_theta")}
    text = Qwen3Model(
        Qwen3Config(
            vocab_size=640,
            rope_parameters=theta,
            pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
            max_position_embeddings=1024,
            tie_word_embeddings=True,
            **arguments
        )
    )
    kind = golden_twinflow if spec.get("target") else diffusers
    modules = {
        "transformer": draw(
            kind.ZImageTransformer2DModel(
                cap_feat_dim=spec["text"]["hidden_size"], **spec["transformer"]
            ),
            generator,
            dtype,
        ),
        "text_encoder": draw(text, generator, dtype),
        "vae": draw(
            AutoencoderKL(
                latent_channels=16,
                sample_size=64,
                down_block_types=["DownEncoderBlock2D"] * 4,
                up_block_types=["UpDecoderBlock2D"] * 4,
                **spec["vae"]
            ),
            generator,
            dtype,
        ),
    }
    pipeline = ZImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(
            num_train_timesteps=1000, shift=spec["shift"], use_dynamic_shifting=False
        ),
        tokenizer=Qwen2Tokenizer.from_pretrained(tokenizer_files),
        **modules
    )
    if spec.get("as_saved"):
        shutil.rmtree(tokenizer_files)
        pipeline.to(dtype).save_pretrained(folder, max_shard_size=spec["shards"])
        pipeline = ZImagePipeline.from_pretrained(folder, dtype=torch.float32)
        pipeline.set_progress_bar_config(disable=True)
        return pipeline
    folder.mkdir(parents=True)
    tokenizer_files.rename(folder / "tokenizer")
    plain = folder.with_name(folder.name + ".plain")
    pipeline.save_pretrained(plain)
    for name in modules:
        shard = spec.get("shards") if name == "transformer" else None
        modules[name].to(dtype).save_pretrained(
            folder / name, **({"max_shard_size": shard} if shard else {})
        )
    shutil.copytree(plain / "scheduler", folder / "scheduler")
    shutil.copy(plain / "model_index.json", folder)
    if spec.get("comfy"):
        rename(folder / "transformer/diffusion_pytorch_model.safetensors", to_comfy)
    if spec.get("old_text_config"):
        path = folder / "text_encoder/config.json"
        config = json.loads(path.read_text())
        config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
        path.write_text(
            json.dumps({**config, "rope_scaling": None, "torch_dtype": spec["dtype"]}, indent=2)
        )
    if spec.get("prefix"):
        rename(
            folder / "text_encoder/model.safetensors",
            lambda tensors: {"model." + name: value for name, value in tensors.items()},
        )
    own = {"transformer": modules["transformer"].float()} if spec.get("target") else {}
    pipeline = ZImagePipeline.from_pretrained(plain, dtype=torch.float32, **own)
    shutil.rmtree(plain)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def rename(path: Path, change):
    save_file(change(load_file(path)), path, metadata={"format": "pt"})
