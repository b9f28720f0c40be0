#!/usr/bin/env python3
"""Makes tests/golden/sigmas: what ZImagePipeline of diffusers computes with explicit sigmas, on the
CPU in fp32.

    /path/to/venv/bin/python scripts/golden_sigmas.py [--out tests/golden/sigmas]

The environment and the models are those of golden_img2img.py.  tests/golden/README.md describes the
files.
"""

import argparse
import json
import shutil
from pathlib import Path

import diffusers
import torch
import transformers
from diffusers import ZImagePipeline
from safetensors.torch import save_file

import golden_img2img
from golden_img2img import GOLDEN, SKETCH

# name, model, prompt, (width, height), seed, the noise levels themselves, what is not usual
CASES = [
    ("quarters", "plain", "a red circle above a blue square", (64, 64), 42, [1, 0.75, 0.5, 0.25], {}),
    ("two", "plain", "a quiet harbour at sunrise", (96, 64), 7, [1, 0.6], {}),
    ("one", "plain", "", (64, 64), 3, [1], {}),
    (
        "guided",
        "corners",  # whose scheduler has another shift
        "a red circle",
        (80, 80),
        10,
        [1, 0.9, 0.3, 0.01],
        dict(guidance=4.0, negative_prompt="夜"),
    ),
    ("sketch", SKETCH, "a big yellow star on a starry night", (96, 80), 2, [1, 0.85, 0.6, 0.2], {}),
]


@torch.no_grad()
def record(pipeline, case):
    """The final latent, and the sigmas that the scheduler has used."""
    _, _, prompt, (width, height), seed, sigmas, more = case
    shift = pipeline.scheduler.config.shift
    final = pipeline(
        prompt,
        negative_prompt=more.get("negative_prompt"),
        width=width,
        height=height,
        # The scheduler shifts what it is given.
        sigmas=[s / (shift - (shift - 1) * s) for s in sigmas],
        num_inference_steps=len(sigmas),
        guidance_scale=more.get("guidance", 0.0),
        generator=torch.Generator().manual_seed(seed),
        output_type="latent",
    ).images
    used = pipeline.scheduler.sigmas
    assert len(used) == len(sigmas) + 1 and used[-1] == 0
    assert torch.allclose(used[:-1], torch.tensor(sigmas, dtype=used.dtype), atol=1e-6)
    return final[0].detach().contiguous()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=GOLDEN / "sigmas")
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    manifest = {
        "made_by": {
            "command": "scripts/golden_sigmas.py",
            "torch": torch.__version__,
            "diffusers": diffusers.__version__,
            "transformers": transformers.__version__,
        },
        "cases": [],
    }
    vectors = {}
    for case in CASES:
        name, model, prompt, (width, height), seed, sigmas, more = case
        vectors[f"{name}/final"] = record(golden_img2img.pipeline_of(model, ZImagePipeline), case)
        manifest["cases"].append(
            {
                "name": name,
                "model": model if model == SKETCH else f"tests/golden/models/{model}",
                "prompt": prompt,
                "negative_prompt": more.get("negative_prompt", ""),
                "width": width,
                "height": height,
                "seed": seed,
                "guidance": more.get("guidance", 0.0),
                "sigmas": sigmas,
            }
        )
        print(name, list(vectors[f"{name}/final"].shape), vectors[f"{name}/final"].std())
    save_file(vectors, out / "vectors.safetensors")
    (out / "vectors.safetensors").chmod(0o644)
    (out / "cases.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
