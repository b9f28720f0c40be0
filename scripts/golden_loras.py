"""The same random LoRA in every key layout that Kiln reads (pipeline/lora/file/lora.h lists them).

q, k and v of a block share their A, so that a fused qkv adapter can carry the same deltas; alpha is
a power of two times the rank, so that moving it into A changes no bit.
"""

import json
import math

import torch
from peft import LoraConfig
from safetensors.torch import save_file

RANK = 4
ALPHA = 8.0
QKV = ("to_q", "to_k", "to_v")
# All files of these names hold the deltas of diffusers.safetensors.
SAME_DELTAS = [
    "diffusers_alpha",
    "aitoolkit",
    "aitoolkit_alpha",
    "kohya",
    "kohya_fused",
    "comfy",
    "dotted",
    "default",
    "peft",
]
# diffusers leaves fused lora_A/lora_B keys out with a warning, and refuses PEFT's own prefix.
UNREAD_BY_DIFFUSERS = ["comfy", "peft"]
OTHERS = [
    "attention.to_out.0",
    "feed_forward.w1",
    "feed_forward.w2",
    "feed_forward.w3",
    "adaLN_modulation.0",
]


def draw(transformer, blocks, names, generator):
    """{module: (A, B)} with delta = B A."""

    def normal(*shape, scale):
        return scale * torch.randn(shape, generator=generator)

    modules = dict(transformer.named_modules())
    pairs = {}
    for block in blocks:
        shared = None
        for name in names:
            module = modules.get(f"{block}.{name}")
            if module is None:
                continue  # a context refiner has no modulation
            a = normal(RANK, module.in_features, scale=1 / math.sqrt(module.in_features))
            if name.split(".")[-1] in QKV:
                shared = a = shared if shared is not None else a
            pairs[f"{block}.{name}"] = (a, normal(module.out_features, RANK, scale=0.4))
    return pairs


def fuse(pairs):
    """q, k, v as one qkv with the rows of B stacked; to_out.0 as out."""
    fused = {}
    for name, (a, b) in pairs.items():
        if name.endswith(".to_q"):
            base = name.removesuffix("to_q")
            fused[base + "qkv"] = (a, torch.cat([pairs[base + p][1] for p in QKV]))
        elif not name.endswith((".to_k", ".to_v")):
            fused[name.replace("attention.to_out.0", "attention.out")] = (a, b)
    return fused


def layout(pairs, prefix, down, up, alpha=None, flatten=False):
    """Tensors named prefix + module + down / up / .alpha; alpha is taken out of A again."""
    tensors = {}
    for i, (name, (a, b)) in enumerate(sorted(pairs.items())):
        key = prefix + (name.replace(".", "_") if flatten else name)
        tensors[key + down] = (a if alpha is None else a * (RANK / ALPHA)).clone()
        tensors[key + up] = b.clone()
        if alpha is not None:
            # Trainers write alpha in whatever dtype they trained in.
            tensors[key + ".alpha"] = torch.tensor(ALPHA, dtype=alpha[i % len(alpha)])
    return tensors


def dotted(pairs):
    """.lora.down/.up, to.q for to_q, with redundant fused copies.

    The copies hold other numbers here: they must be dropped."""
    ends = (".lora.down.weight", ".lora.up.weight")
    tensors = layout(
        {k.replace(".to_", ".to.").replace("to.out", "to_out"): v for k, v in pairs.items()},
        "diffusion_model.",
        *ends,
    )
    copies = {k: v for k, v in fuse(pairs).items() if k.endswith((".qkv", ".out"))}
    for key, value in layout(copies, "diffusion_model.", *ends).items():
        tensors[key] = value + 1
    return tensors


def adapter_metadata(pairs):
    """What diffusers' save_lora_weights keeps of the PEFT config: there, alpha is in no tensor."""
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=sorted(pairs)).to_dict()
    return {
        f"transformer.{key}": sorted(value) if isinstance(value, set) else value
        for key, value in config.items()
    }


def write_all(pipeline, folder, generator):
    transformer = pipeline.transformer
    folder.mkdir(parents=True, exist_ok=True)
    blocks = ["layers.0", "layers.1", "noise_refiner.0", "context_refiner.0"]
    pairs = draw(transformer, blocks, ["attention." + p for p in QKV] + OTHERS, generator)
    ab, updown = (".lora_A.weight", ".lora_B.weight"), (".lora_down.weight", ".lora_up.weight")
    some = [torch.bfloat16, torch.float32, torch.float16]
    metadata = {
        "lora_adapter_metadata": json.dumps(adapter_metadata(pairs), indent=2, sort_keys=True)
    }
    halved = {k: (a * (RANK / ALPHA), b) for k, (a, b) in pairs.items()}
    files = {
        "diffusers": (layout(pairs, "transformer.", *ab), None),
        "diffusers_alpha": (layout(halved, "transformer.", *ab), metadata),
        "aitoolkit": (layout(pairs, "diffusion_model.", *ab), None),
        "aitoolkit_alpha": (layout(pairs, "diffusion_model.", *ab, alpha=some), None),
        "kohya": (layout(pairs, "lora_unet_", *updown, alpha=some, flatten=True), None),
        "kohya_fused": (layout(fuse(pairs), "lora_unet_", *updown, alpha=some, flatten=True), None),
        "comfy": (layout(fuse(pairs), "diffusion_model.", *ab), None),
        "dotted": (dotted(pairs), None),
        "default": (
            layout(pairs, "diffusion_model.", ".lora_A.default.weight", ".lora_B.default.weight"),
            None,
        ),
        "peft": (
            layout(pairs, "base_model.model.", ".lora_A.default.weight", ".lora_B.default.weight"),
            None,
        ),
    }
    second = draw(transformer, ["layers.1"], ["attention.to_q", "feed_forward.w2"], generator)
    files["second"] = (layout(second, "transformer.", *ab), None)
    for name, (tensors, meta) in files.items():
        save_file(tensors, folder / f"{name}.safetensors", metadata=meta)
    deltas = {
        name: b @ a
        for name, (a, b) in pairs.items()
        if name.startswith(
            ("layers.0.attention", "context_refiner.0.feed", "noise_refiner.0.adaLN")
        )
    }
    save_file(deltas, folder / "deltas.safetensors")
