#!/usr/bin/env python3
"""Writes a model directory of random weights, and builds diffusers' Z-Image from configs or files.

    peer_model.py --config scripts/bench/z-image-turbo --out DIR [--device cuda:0] [--dtype bf16]

The directory has the diffusers layout, the keys of the published checkpoint, and copies of configs
and tokenizer, so that Kiln and its peer are measured on the same weights.  The full size is 20.5 GB
in bf16 and twice that in fp32.  A few shards at a time are in host memory; several threads write
them, because one writes a gigabyte a second or less.
Needs torch, diffusers (0.42.1 was used) and transformers.
"""
import argparse
import glob
import json
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from safetensors import safe_open
from safetensors.torch import save_file

SHARD_BYTES = 2e9
WRITERS = 4
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Folder, which is the part's name in a pipeline too; what its files and its keys begin with.
PARTS = (("transformer", "diffusion_pytorch_model", ""), ("text_encoder", "model", "model."),
         ("vae", "diffusion_pytorch_model", ""))


def read_json(folder, name):
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


def build(config, device, dtype):
    """A pipeline of what the directory's configs say; its weights are anything yet."""
    from diffusers import (AutoencoderKL, FlowMatchEulerDiscreteScheduler, ZImagePipeline,
                           ZImageTransformer2DModel)
    from transformers import AutoTokenizer, Qwen3Config, Qwen3Model
    torch.set_default_dtype(dtype)
    with torch.device(device):
        transformer = ZImageTransformer2DModel.from_config(
            read_json(config, "transformer/config.json"))
        vae = AutoencoderKL.from_config(read_json(config, "vae/config.json"))
        text = Qwen3Model(Qwen3Config(**read_json(config, "text_encoder/config.json")))
    torch.set_default_dtype(torch.float32)
    for module in (transformer, vae, text):
        # Rotary tables are computed and stay as they were made, in fp32.
        module.to(device).eval().requires_grad_(False)
    pipe = ZImagePipeline(
        scheduler=FlowMatchEulerDiscreteScheduler.from_config(
            read_json(config, "scheduler/scheduler_config.json")),
        vae=vae, text_encoder=text, transformer=transformer,
        tokenizer=AutoTokenizer.from_pretrained(os.path.join(config, "tokenizer")))
    pipe.set_progress_bar_config(disable=True)
    return pipe


# --- weights --------------------------------------------------------------------------------------

@torch.no_grad()
def draw_weights(module):
    """As `kiln bench engine --random-weights` does: norms near 1, matrices that keep sizes."""
    for name, p in module.named_parameters():
        if p.ndim == 1:
            p.normal_(0 if name.endswith("bias") else 1, 0.02)
        else:
            p.normal_(0, p[0].numel() ** -0.5)


@torch.no_grad()
def read_weights(module, folder, prefix):
    """From all safetensors files of a folder; each tensor is converted on the device."""
    wanted = dict(module.named_parameters())
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        with safe_open(path, framework="pt") as file:
            for key in file.keys():
                p = wanted.pop(key.removeprefix(prefix), None)
                if p is None:
                    sys.exit("%s: %s has no place in the model of its config" % (path, key))
                p.copy_(file.get_tensor(key).to(p.device))
    if wanted:
        sys.exit("%s: %d tensors are missing, %s first" % (folder, len(wanted), min(wanted)))


def split_weights(module, folder, stem, prefix):
    """Its tensors by file; writes the index where that is more than one."""
    shards, size, total = [{}], 0, 0
    for name, p in module.named_parameters():
        size, total = size + p.nbytes, total + p.nbytes
        if size > SHARD_BYTES:
            shards.append({})
            size = p.nbytes
        shards[-1][prefix + name] = p.data.contiguous()
    names = [stem + ".safetensors"]
    if len(shards) > 1:
        names = ["%s-%05d-of-%05d.safetensors" % (stem, i + 1, len(shards))
                 for i in range(len(shards))]
        places = {key: name for name, shard in zip(names, shards) for key in shard}
        with open(os.path.join(folder, stem + ".safetensors.index.json"), "w") as file:
            json.dump({"metadata": {"total_size": total}, "weight_map": places}, file, indent=1)
    return {os.path.join(folder, name): shard for name, shard in zip(names, shards)}


# --- pipelines ------------------------------------------------------------------------------------

def random_pipeline(config, device, dtype, seed=0):
    """A pipeline whose weights are random."""
    torch.manual_seed(seed)
    pipe = build(config, device, dtype)
    for name, _, _ in PARTS:
        draw_weights(getattr(pipe, name))
    return pipe


def loaded(model, device, dtype):
    """The pipeline of a model directory."""
    pipe = build(model, device, dtype)
    for name, _, prefix in PARTS:
        read_weights(getattr(pipe, name), os.path.join(model, name), prefix)
    return pipe


def cast(pipe, dtype):
    """Converts all parameters in place, and nothing that was computed of the config."""
    for name, _, _ in PARTS:
        for p in getattr(pipe, name).parameters():
            p.data = p.data.to(dtype)


def write(pipe, config, out):
    """Writes the directory of a pipeline that was made of config; returns the bytes of its weights."""
    shutil.copytree(config, out, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("*.safetensors*", "loras"))
    files = {}
    for name, stem, prefix in PARTS:
        files.update(split_weights(getattr(pipe, name), os.path.join(out, name), stem, prefix))
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda path: save_file(files[path], path, {"format": "pt"}), files))
    return sum(os.path.getsize(path) for path in files)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", required=True, help="diffusers layout; no weights needed")
    parser.add_argument("--out", required=True, help="made where it is not there")
    parser.add_argument("--device", default="cpu", help="where the random weights are made")
    parser.add_argument("--dtype", default="bf16", choices=DTYPES)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.perf_counter()
    pipe = random_pipeline(args.config, args.device, DTYPES[args.dtype], args.seed)
    between = time.perf_counter()
    size = write(pipe, args.config, args.out)
    took = time.perf_counter() - between
    print("%s: %.2f GB of random %s weights, made in %.1f s and written in %.1f s, %.2f GB/s" % (
        args.out, size / 1e9, args.dtype, between - start, took, size / 1e9 / took))


if __name__ == "__main__":
    main()
