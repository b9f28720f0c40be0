#!/usr/bin/env python3
"""Makes tests/golden/vit: small image classifiers with random weights in the layout of Hugging
Face's ViTForImageClassification, pictures, and what transformers computes with them.

    VENV/bin/python scripts/golden_vit.py

Each NAME/ is a checkpoint: config.json, preprocessor_config.json, model.safetensors.
expected.safetensors has NAME.PICTURE.pixels, what ViTImageProcessor makes of picture.PICTURE, and
NAME.PICTURE.logits.  Pictures are resized along lines first, then along columns, as Pillow always
did; since Pillow 13 it begins with the columns for some sizes, which changes values by at most 1 of
255.  Needs torch, transformers, Pillow and numpy.
"""
import shutil
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

OUT = Path(__file__).resolve().parent.parent / "tests/golden/vit"
# Sizes below, above and at those of the encoders; one is not square.
PICTURES = {"small": (20, 14), "wide": (96, 40), "tall": (33, 71), "same": (32, 32)}
MODELS = {
    "nsfw": dict(labels=["normal", "nsfw"], side=32, patch=8, heads=2, resample=2),
    "levels": dict(labels=["neutral", "drawings", "sexy", "porn", "hentai"], side=24, patch=4,
                   heads=4, resample=3, qkv_bias=False, mean=[0.485, 0.456, 0.406],
                   std=[0.229, 0.224, 0.225]),
}


def pictures(generator):
    """Smooth gradients under noise: edges and flat parts."""
    found = {}
    for name, (width, height) in PICTURES.items():
        y, x = np.mgrid[0:height, 0:width]
        waves = [np.sin(x / (3 + c)) * 60 + np.cos(y / (4 + c)) * 60 + 128 for c in range(3)]
        noise = generator.normal(0, 25, (height, width, 3))
        found[name] = np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8)
    return found


def checkpoint(name, labels, side, patch, heads, resample, qkv_bias=True, mean=None, std=None):
    config = ViTConfig(hidden_size=48, num_hidden_layers=3, num_attention_heads=heads,
                       intermediate_size=80, image_size=side, patch_size=patch, qkv_bias=qkv_bias,
                       id2label=dict(enumerate(labels)),
                       label2id={label: i for i, label in enumerate(labels)})
    model = ViTForImageClassification(config).eval()
    generator = torch.Generator().manual_seed(len(name))
    with torch.no_grad():
        for key, value in model.state_dict().items():
            value.copy_(torch.randn(value.shape, generator=generator)
                        * (0.2 if value.ndim > 1 else 0.1))
            if "layernorm" in key and key.endswith("weight"):
                value += 1
    shutil.rmtree(OUT / name, ignore_errors=True)
    model.save_pretrained(OUT / name)
    processor = ViTImageProcessor(size={"height": side, "width": side}, resample=resample,
                                  image_mean=mean or [0.5] * 3, image_std=std or [0.5] * 3)
    processor.save_pretrained(OUT / name)
    return model, processor


def main():
    found = {}
    images = pictures(np.random.default_rng(31))
    for key, image in images.items():
        found[f"picture.{key}"] = torch.from_numpy(image)
    for name, options in MODELS.items():
        model, processor = checkpoint(name, **options)
        for key, image in images.items():
            side, filter_ = options["side"], options["resample"]
            small = Image.fromarray(image).resize((side, image.shape[0]), filter_)
            small = small.resize((side, side), filter_)
            pixels = processor(small, return_tensors="pt")["pixel_values"]
            with torch.no_grad():
                found[f"{name}.{key}.logits"] = model(pixels).logits[0].contiguous()
            found[f"{name}.{key}.pixels"] = pixels[0].contiguous()
    save_file(found, OUT / "expected.safetensors")


main()
