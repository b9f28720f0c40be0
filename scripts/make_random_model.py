#!/usr/bin/env python3
"""Makes a small model directory of exactly Z-Image's classes, with random weights.

    scripts/make_random_model.py --out DIR [--seed N]

It stands in for a trained model where there is none: the demo and the tests of the whole path run
on it, and it draws colourful clouds, whatever the prompt says.  Needs Python 3 alone (no numpy, no
torch), takes a second or two, and the same seed gives the same bytes.  diffusers loads it too.

The weights are random with one design, or the pictures would be gray noise.  A token of the
transformer has WIDTH values.  The first PATCH of them carry the noisy latent and are written by the
embedding alone: the second norm of every sublayer is zero there.  The final layer takes them with a
minus sign, so the sampler's steps shrink the noise.  All blocks write into the other values, which
depend on place and prompt through attention, and the final layer adds those as the picture.
"""

import argparse
import array
import json
import math
import random
import struct
from pathlib import Path

WIDTH, HEADS, LAYERS, REFINERS, PATCH = 128, 2, 4, 1, 64
FFN, TIME = int(WIDTH / 3 * 8), min(WIDTH, 256)
TEXT, TEXT_LAYERS, TEXT_HEADS, TEXT_KV, TEXT_HEAD, TEXT_FFN, VOCAB = 64, 3, 4, 2, 16, 160, 640
CHANNELS, GROUPS = [16, 32, 32, 48], 16
DECAY = 3.0  # how fast the sampler forgets the noise

WORDS = """
a an the of in on at and with above below left right red green blue yellow orange purple pink
black white gray brown cyan circle square triangle star heart ring cross moon sun sky night sea
ocean forest mountain river city street house castle bridge tree flower cat dog fox bird fish
horse dragon robot portrait landscape painting photo watercolor oil digital art anime style light
shadow detailed small large two three
""".split()


class Weights:
    """Tensors of one safetensors file, bf16."""

    def __init__(self, rng):
        self.rng = rng
        self.tensors = {}

    def put(self, name, shape, values):
        floats = array.array("f", values).tobytes()
        assert len(floats) == 4 * math.prod(shape), name
        data = bytearray(len(floats) // 2)
        data[0::2], data[1::2] = floats[2::4], floats[3::4]  # the upper half of a float is its bf16
        self.tensors[name] = (shape, bytes(data))

    def normal(self, count, scale):
        gauss = self.rng.gauss
        return [gauss(0.0, scale) for _ in range(count)]

    def fill(self, name, shape, value):
        self.put(name, shape, [value] * math.prod(shape))

    def linear(self, name, rows, cols, gain=1.0, bias=None):
        self.put(name + ".weight", [rows, cols], self.normal(rows * cols, gain / math.sqrt(cols)))
        if bias is not None:
            self.put(name + ".bias", [rows], self.normal(rows, bias))

    def kernels(self, count, kernel, scale):
        """Convolution kernels that blur more than they sharpen: smooth stays smooth."""
        blur = [1.0] if kernel == 1 else [0.06, 0.12, 0.06, 0.12, 0.28, 0.12, 0.06, 0.12, 0.06]
        gauss, values = self.rng.gauss, []
        for _ in range(count):
            main = gauss(0.0, scale)
            values += [main * b + gauss(0.0, 0.03 * scale) for b in blur]
        return values

    def conv(self, name, rows, cols, kernel, gain=1.0):
        values = self.kernels(rows * cols, kernel, gain / math.sqrt(cols))
        self.put(name + ".weight", [rows, cols, kernel, kernel], values)
        self.put(name + ".bias", [rows], self.normal(rows, 0.1))

    def group_norm(self, name, width):
        self.fill(name + ".weight", [width], 1.0)
        self.put(name + ".bias", [width], self.normal(width, 0.2))

    def write(self, path):
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for name, (shape, data) in sorted(self.tensors.items()):
            header[name] = {
                "dtype": "BF16",
                "shape": shape,
                "data_offsets": [offset, offset + len(data)],
            }
            offset += len(data)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for _, (_, data) in sorted(self.tensors.items()):
                file.write(data)


# --- transformer ---------------------------------------------------------------------------------


def blind(values, cols, factor):
    """A matrix, row after row, whose first PATCH columns (the noisy latent) count less."""
    return [v * factor if i % cols < PATCH else v for i, v in enumerate(values)]


def block(w, name, modulated):
    for part in ("to_q", "to_k", "to_v"):
        values = w.normal(WIDTH * WIDTH, 1 / math.sqrt(WIDTH))
        w.put(f"{name}.attention.{part}.weight", [WIDTH, WIDTH], blind(values, WIDTH, 0.3))
    w.linear(f"{name}.attention.to_out.0", WIDTH, WIDTH)
    for part in ("norm_q", "norm_k"):  # above 1: attention that chooses
        w.fill(f"{name}.attention.{part}.weight", [WIDTH // HEADS], 2.0)
    for part in ("w1", "w3"):
        values = w.normal(FFN * WIDTH, 1.5 / math.sqrt(WIDTH))
        w.put(f"{name}.feed_forward.{part}.weight", [FFN, WIDTH], blind(values, WIDTH, 0.2))
    w.linear(f"{name}.feed_forward.w2", WIDTH, FFN)
    for part in ("attention_norm1", "ffn_norm1"):
        w.fill(f"{name}.{part}.weight", [WIDTH], 1.0)
    for part in ("attention_norm2", "ffn_norm2"):
        w.put(
            f"{name}.{part}.weight",
            [WIDTH],
            [0.0] * PATCH * modulated + [1.0] * (WIDTH - PATCH * modulated),
        )
    if modulated:
        w.linear(f"{name}.adaLN_modulation.0", 4 * WIDTH, TIME, gain=0.1, bias=0.0)
        gate = [
            1.0 if i // WIDTH % 2 else 0.0 for i in range(4 * WIDTH)
        ]  # scale, gate, scale, gate
        w.put(f"{name}.adaLN_modulation.0.bias", [4 * WIDTH], gate)


def embedder(w):
    rows = [[1.0 if i == j else 0.0 for j in range(PATCH)] for i in range(PATCH)]
    rows += [w.normal(PATCH, 0.02) for _ in range(WIDTH - PATCH)]
    w.put("all_x_embedder.2-1.weight", [WIDTH, PATCH], [v for row in rows for v in row])
    w.put("all_x_embedder.2-1.bias", [WIDTH], [0.0] * PATCH + w.normal(WIDTH - PATCH, 1.0))


def final_layer(w):
    """Minus the noise, plus the picture; the four pixels of a patch get nearly the same picture."""
    colours = [w.normal(WIDTH - PATCH, 4.0 / math.sqrt(WIDTH - PATCH)) for _ in range(16)]
    values = []
    for i in range(PATCH):
        values += [-DECAY if i == j else 0.0 for j in range(PATCH)]
        values += [c + w.rng.gauss(0.0, 0.06) for c in colours[i % 16]]
    w.put("all_final_layer.2-1.linear.weight", [PATCH, WIDTH], values)
    w.fill("all_final_layer.2-1.linear.bias", [PATCH], 0.0)
    w.linear("all_final_layer.2-1.adaLN_modulation.1", WIDTH, TIME, gain=0.02, bias=0.0)


def transformer(w):
    embedder(w)
    final_layer(w)
    for name in ("x_pad_token", "cap_pad_token"):
        w.put(name, [1, WIDTH], w.normal(WIDTH, 0.5))
    w.linear("t_embedder.mlp.0", 1024, 256, bias=0.1)
    w.linear("t_embedder.mlp.2", TIME, 1024, bias=0.1)
    w.fill("cap_embedder.0.weight", [TEXT], 1.0)
    w.linear("cap_embedder.1", WIDTH, TEXT, gain=1.5, bias=0.1)
    for i in range(REFINERS):
        block(w, f"noise_refiner.{i}", True)
        block(w, f"context_refiner.{i}", False)
    for i in range(LAYERS):
        block(w, f"layers.{i}", True)
    return {
        "_class_name": "ZImageTransformer2DModel",
        "all_patch_size": [2],
        "all_f_patch_size": [1],
        "in_channels": 16,
        "dim": WIDTH,
        "n_layers": LAYERS,
        "n_refiner_layers": REFINERS,
        "n_heads": HEADS,
        "n_kv_heads": HEADS,
        "norm_eps": 1e-5,
        "qk_norm": True,
        "cap_feat_dim": TEXT,
        "siglip_feat_dim": None,
        "rope_theta": 256.0,
        "t_scale": 1000.0,
        "axes_dims": [16, 24, 24],
        "axes_lens": [1024, 512, 512],
    }


# --- text encoder --------------------------------------------------------------------------------


def text_encoder(w):
    w.put("embed_tokens.weight", [VOCAB, TEXT], w.normal(VOCAB * TEXT, 1.0))
    for i in range(TEXT_LAYERS):
        name = f"layers.{i}."
        for part, rows in (("q", TEXT_HEADS), ("k", TEXT_KV), ("v", TEXT_KV)):
            w.linear(f"{name}self_attn.{part}_proj", rows * TEXT_HEAD, TEXT)
        w.linear(name + "self_attn.o_proj", TEXT, TEXT_HEADS * TEXT_HEAD)
        for part in ("q_norm", "k_norm"):
            w.fill(f"{name}self_attn.{part}.weight", [TEXT_HEAD], 1.0)
        for part in ("gate_proj", "up_proj"):
            w.linear(f"{name}mlp.{part}", TEXT_FFN, TEXT)
        w.linear(name + "mlp.down_proj", TEXT, TEXT_FFN)
        for part in ("input_layernorm", "post_attention_layernorm"):
            w.fill(f"{name}{part}.weight", [TEXT], 1.0)
    w.fill("norm.weight", [TEXT], 1.0)
    return {
        "architectures": ["Qwen3Model"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "head_dim": TEXT_HEAD,
        "hidden_act": "silu",
        "hidden_size": TEXT,
        "intermediate_size": TEXT_FFN,
        "max_position_embeddings": 1024,
        "num_attention_heads": TEXT_HEADS,
        "num_hidden_layers": TEXT_LAYERS,
        "num_key_value_heads": TEXT_KV,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
        "vocab_size": VOCAB,
    }


# --- VAE -----------------------------------------------------------------------------------------


def resnet(w, name, cols, rows):
    w.group_norm(name + ".norm1", cols)
    w.conv(name + ".conv1", rows, cols, 3)
    w.group_norm(name + ".norm2", rows)
    w.conv(name + ".conv2", rows, rows, 3, gain=0.7)
    if cols != rows:
        w.conv(name + ".conv_shortcut", rows, cols, 1)


def middle(w, name, width):
    for i in range(2):
        resnet(w, f"{name}.mid_block.resnets.{i}", width, width)
    w.group_norm(f"{name}.mid_block.attentions.0.group_norm", width)
    for part in ("to_q", "to_k", "to_v", "to_out.0"):
        w.linear(f"{name}.mid_block.attentions.0.{part}", width, width, gain=0.7, bias=0.0)


def vae(w):
    w.conv("encoder.conv_in", CHANNELS[0], 3, 3)
    before = CHANNELS[0]
    for i, width in enumerate(CHANNELS):
        resnet(w, f"encoder.down_blocks.{i}.resnets.0", before, width)
        if i < len(CHANNELS) - 1:
            w.conv(f"encoder.down_blocks.{i}.downsamplers.0.conv", width, width, 3)
        before = width
    middle(w, "encoder", before)
    w.group_norm("encoder.conv_norm_out", before)
    w.conv("encoder.conv_out", 32, before, 3)
    w.conv("decoder.conv_in", before, 16, 3)
    middle(w, "decoder", before)
    for i, width in enumerate(reversed(CHANNELS)):
        for j in range(2):
            resnet(w, f"decoder.up_blocks.{i}.resnets.{j}", before if j == 0 else width, width)
        if i < len(CHANNELS) - 1:
            w.conv(f"decoder.up_blocks.{i}.upsamplers.0.conv", width, width, 3)
        before = width
    w.group_norm("decoder.conv_norm_out", before)
    # What comes in is above zero on average: rows that sum to zero keep the mean colour gray.
    rows = [w.kernels(before, 3, 1.1 / math.sqrt(before)) for _ in range(3)]
    w.put(
        "decoder.conv_out.weight",
        [3, before, 3, 3],
        [v - sum(row) / len(row) for row in rows for v in row],
    )
    w.fill("decoder.conv_out.bias", [3], 0.0)
    return {
        "_class_name": "AutoencoderKL",
        "act_fn": "silu",
        "block_out_channels": CHANNELS,
        "down_block_types": ["DownEncoderBlock2D"] * 4,
        "force_upcast": False,
        "in_channels": 3,
        "latent_channels": 16,
        "latents_mean": None,
        "latents_std": None,
        "layers_per_block": 1,
        "mid_block_add_attention": True,
        "norm_num_groups": GROUPS,
        "out_channels": 3,
        "sample_size": 256,
        "scaling_factor": 0.3611,
        "shift_factor": 0.1159,
        "up_block_types": ["UpDecoderBlock2D"] * 4,
        "use_post_quant_conv": False,
        "use_quant_conv": False,
    }


# --- tokenizer -----------------------------------------------------------------------------------

PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>'"
    " + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def tokenizer(folder):
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    other = [b for b in range(256) if b not in printable]
    vocab = {chr(b): i for i, b in enumerate(printable)}
    vocab.update({chr(0x100 + i): len(printable) + i for i in range(len(other))})
    merges = []
    for word in ["user", "assistant"] + ["\u0120" + word for word in WORDS]:  # \u0120 is the space
        for end in range(2, len(word) + 1):
            if word[:end] not in vocab and len(vocab) < VOCAB - 8:
                merges.append(f"{word[:end - 1]} {word[end - 1]}")
                vocab[word[:end]] = len(vocab)
    added = [
        {
            "id": len(vocab) + i,
            "content": t,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, t in enumerate(("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    ]
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    split = {
        "type": "Split",
        "pattern": {"Regex": PATTERN},
        "behavior": "Isolated",
        "invert": False,
    }
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocab,
        "merges": merges,
    }
    write_json(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": added,
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
            "post_processor": level,
            "decoder": level,
            "model": model,
        },
    )
    write_json(
        folder / "tokenizer_config.json",
        {
            "added_tokens_decoder": {
                str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in added
            },
            "chat_template": TEMPLATE,
            "eos_token": "<|im_end|>",
            "model_max_length": 1024,
            "pad_token": "<|endoftext|>",
            "tokenizer_class": "Qwen2Tokenizer",
        },
    )
    return len(vocab)


# --- the directory -------------------------------------------------------------------------------


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    parts = (
        ("transformer", "diffusion_pytorch_model", transformer),
        ("text_encoder", "model", text_encoder),
        ("vae", "diffusion_pytorch_model", vae),
    )
    for folder in ("scheduler", "tokenizer", *(p[0] for p in parts)):
        (args.out / folder).mkdir(parents=True, exist_ok=True)
    for folder, name, fill in parts:
        weights = Weights(random.Random(f"{args.seed} {folder}"))
        config = fill(weights)
        if folder == "text_encoder":
            config["pad_token_id"] = tokenizer(args.out / "tokenizer")
        weights.write(args.out / folder / f"{name}.safetensors")
        write_json(args.out / folder / "config.json", config)
    write_json(
        args.out / "scheduler/scheduler_config.json",
        {
            "_class_name": "FlowMatchEulerDiscreteScheduler",
            "num_train_timesteps": 1000,
            "shift": 3.0,
            "use_dynamic_shifting": False,
        },
    )
    # The index comes last: a directory that has it is whole.
    write_json(
        args.out / "model_index.json",
        {
            "_class_name": "ZImagePipeline",
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "Qwen3Model"],
            "tokenizer": ["transformers", "Qwen2Tokenizer"],
            "transformer": ["diffusers", "ZImageTransformer2DModel"],
            "vae": ["diffusers", "AutoencoderKL"],
        },
    )


if __name__ == "__main__":
    main()
