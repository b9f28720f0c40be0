"""lora.py - low-rank pairs on the transformer's linear layers: attaching, keeping, merging.

Files made here are plain diffusers ones (transformer.NAME.lora_A.weight) in fp16 with alpha equal to the
rank, so no alpha is written; export_lora.py publishes them in the layouts of several trainers.
"""
import contextlib
import os

import torch
from safetensors.torch import load_file, save_file

from net import Linear

TARGETS = ("attention.to_q", "attention.to_k", "attention.to_v", "attention.to_out.0",
           "feed_forward.w1", "feed_forward.w2", "feed_forward.w3")


def targets(transformer):
    """{name: layer} of every layer that gets a pair, the refiners' too."""
    return {name: layer for name, layer in transformer.named_modules()
            if isinstance(layer, Linear) and name.endswith(TARGETS)}


def attach(transformer, rank):
    for layer in targets(transformer).values():
        layer.attach(rank)


def parameters(transformer):
    return [p for layer in targets(transformer).values() for p in (layer.lora_a, layer.lora_b)]


def set_scale(transformer, scale):
    for layer in targets(transformer).values():
        layer.lora_scale.fill_(scale)


def restart(transformer):
    """The pairs of a new LoRA in the same memory, so that compiled code goes on fitting."""
    with torch.no_grad():
        for layer in targets(transformer).values():
            layer.lora_a.normal_(std=layer.in_features ** -0.5)
            layer.lora_b.zero_()


def resume(transformer, path):
    """Goes on from a file that save() or export_lora.py wrote."""
    pairs = load(path)
    with torch.no_grad():
        for name, layer in targets(transformer).items():
            layer.lora_a.copy_(pairs[name][0])
            layer.lora_b.copy_(pairs[name][1])


def save(transformer, path):
    """Whole or not at all: a run that is killed leaves the last whole file."""
    tensors = {}
    for name, layer in targets(transformer).items():
        for half, value in (("lora_A", layer.lora_a), ("lora_B", layer.lora_b)):
            tensors[f"transformer.{name}.{half}.weight"] = value.detach().half().cpu().contiguous()
    save_file(tensors, path + ".new", {"format": "pt"})
    os.chmod(path + ".new", 0o644)
    os.replace(path + ".new", path)


def _name(key):
    """The layer of a key up to its half, whatever the layout."""
    if not key.startswith("lora_unet_"):
        return key.removeprefix("transformer.").removeprefix("diffusion_model.")
    flat = key.removeprefix("lora_unet_")
    inner = next(target for target in TARGETS if flat.endswith("_" + target.replace(".", "_")))
    block, number = flat.removesuffix("_" + inner.replace(".", "_")).rsplit("_", 1)
    return f"{block}.{number}.{inner}"


def load(path):
    """{name: (A, B)} in fp32 of a file that save() or export_lora.py wrote (alpha is the rank)."""
    tensors, pairs = load_file(path), {}
    for key in tensors:
        for first, second in (("lora_A", "lora_B"), ("lora_down", "lora_up")):
            if key.endswith(f".{first}.weight"):
                other = tensors[key.replace(first, second)]
                pairs[_name(key.removesuffix(f".{first}.weight"))] = (tensors[key].float(), other.float())
    return pairs


@contextlib.contextmanager
def merged(transformer, loras):
    """The transformer with scale * B @ A of every (pairs, scale) in its weights, inside the with."""
    layers = targets(transformer)
    before = {name: layer.weight.detach().clone() for name, layer in layers.items()}
    try:
        with torch.no_grad():
            for pairs, scale in loras:
                for name, (a, b) in pairs.items():
                    weight = layers[name].weight
                    weight += scale * (b.to(weight.device) @ a.to(weight.device))
        yield transformer
    finally:
        with torch.no_grad():
            for name, layer in layers.items():
                layer.weight.copy_(before[name])
