"""export.py - writes the trained weights as a diffusers model folder in bf16.

    python export.py --weights DIR/guided --vae DIR [--out pipeline/models/sketch]

ZImagePipeline.from_pretrained loads the result unchanged.
"""
import argparse
import json
import os

import torch
from safetensors.torch import save_file

from config import MODEL, SHIFT, TEXT, TRANSFORMER, VAE
from flow import Model, load_vae, load_weights


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        json.dump(value, f, indent=2)
        f.write("\n")


def bf16(state, prefix=""):
    return {prefix + k: v.detach().to(torch.bfloat16).contiguous().cpu() for k, v in state.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", required=True)
    parser.add_argument("--vae", required=True)
    parser.add_argument("--out", default=MODEL)
    args = parser.parse_args()
    model = Model()
    load_weights(model, args.weights)
    vae = load_vae(args.vae, "cpu")
    meta = {"format": "pt"}
    for folder in ("transformer", "text_encoder", "vae", "scheduler"):
        os.makedirs(os.path.join(args.out, folder), exist_ok=True)
    save_file(bf16(model.transformer.state_dict()),
              os.path.join(args.out, "transformer", "diffusion_pytorch_model.safetensors"), meta)
    save_file(bf16(model.text.state_dict(), "model."), os.path.join(args.out, "text_encoder", "model.safetensors"), meta)
    save_file(bf16(vae.state_dict()), os.path.join(args.out, "vae", "diffusion_pytorch_model.safetensors"), meta)
    write_json(os.path.join(args.out, "transformer", "config.json"), {
        "_class_name": "ZImageTransformer2DModel", "_diffusers_version": "0.42.1", **TRANSFORMER})
    write_json(os.path.join(args.out, "text_encoder", "config.json"), {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "attention_dropout": 0.0,
        "initializer_range": 0.02, "use_cache": True, "use_sliding_window": False, "sliding_window": None,
        "max_window_layers": TEXT["num_hidden_layers"], "rope_scaling": None, **TEXT})
    write_json(os.path.join(args.out, "vae", "config.json"), {
        "_class_name": "AutoencoderKL", "_diffusers_version": "0.42.1", **VAE,
        "scaling_factor": vae.config.scaling_factor, "shift_factor": vae.config.shift_factor})
    write_json(os.path.join(args.out, "scheduler", "scheduler_config.json"), {
        "_class_name": "FlowMatchEulerDiscreteScheduler", "_diffusers_version": "0.42.1", "num_train_timesteps": 1000,
        "shift": SHIFT, "use_dynamic_shifting": False})
    write_json(os.path.join(args.out, "model_index.json"), {
        "_class_name": "ZImagePipeline", "_diffusers_version": "0.42.1",
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"], "text_encoder": ["transformers", "Qwen3Model"],
        "tokenizer": ["transformers", "Qwen2Tokenizer"], "transformer": ["diffusers", "ZImageTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"]})
    total = sum(os.path.getsize(os.path.join(r, f)) for r, _, fs in os.walk(args.out) for f in fs)
    print(f"{args.out}: {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
