#!/usr/bin/env python3
"""Makes tests/golden/inpaint: what ZImageInpaintPipeline of diffusers computes, on the CPU in fp32.

    /path/to/venv/bin/python scripts/golden_inpaint.py [--out tests/golden/inpaint]

The environment and the models are those of golden_img2img.py.  tests/golden/README.md describes the
files.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import diffusers
import numpy as np
import torch
import transformers
from diffusers import ZImageInpaintPipeline
from PIL import Image
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).parent))
import golden  # noqa: E402
from golden_img2img import GOLDEN, SKETCH, Recorder, pipeline_of  # noqa: E402


def mask_of(kind, width, height):
    """A mask [H, W] or [H, W, 3] of bytes; 255 is rendered anew, 0 kept."""
    y, x = np.mgrid[0:height, 0:width]
    if kind == "hard":
        inside = (abs(2 * x - width) < width // 2) & (abs(2 * y - height) < height // 2)
        return np.uint8(255) * inside.astype(np.uint8)
    if kind == "half":
        return np.uint8(255) * (x < width // 2).astype(np.uint8)
    if kind == "soft":  # grey all over: diffusers makes it black and white
        distance = np.hypot(x / width - 0.5, y / height - 0.4)
        return (255 * np.clip(1 - distance / 0.7, 0, 1)).astype(np.uint8)
    if kind == "fine":  # lines thinner than a value of the latent
        return np.uint8(255) * ((x % 3 == 0) | (y % 5 == 0)).astype(np.uint8)
    if kind == "colours":  # of which the luminance counts
        return np.stack([x * 255 // width, y * 255 // height, (x + y) % 256], -1).astype(np.uint8)
    return np.full((height, width), {"all": 255, "nothing": 0}[kind], np.uint8)


# name, model, prompt, picture's size, job's size (None: the picture's), steps, strength, seed, mask's
# kind and size (None: the picture's); then what is not usual
CASES = [
    ("hard", "plain", "a red circle above a blue square", (64, 64), None, 4, 1.0, 42, "hard", None, {}),
    ("soft", "plain", "a quiet harbour at sunrise", (96, 64), None, 8, 0.6, 7, "soft", None, {}),
    ("all", "plain", "two yellow triangles", (64, 80), None, 4, 0.5, 2**40 + 9, "all", None, {}),
    ("nothing", "plain", "", (64, 64), None, 4, 1.0, 3, "nothing", None, {}),
    ("last_step", "plain", "a small green star", (64, 64), None, 8, 0.1, 4, "half", None, {}),
    ("fine", "plain", "a purple heart", (80, 64), None, 5, 0.7, 5, "fine", None, {}),
    ("colours", "plain", "夜晚的城市", (64, 64), None, 4, 1.0, 6, "colours", None, {}),
    ("enlarged", "plain", "a red circle", (64, 64), None, 4, 0.8, 7, "soft", (23, 23), {}),
    ("reduced", "plain", "a red circle", (64, 80), None, 4, 0.8, 8, "hard", (200, 250), {}),
    ("resized", "plain", "a purple heart", (100, 71), (64, 80), 4, 1.0, 9, "soft", (100, 71), {}),
    ("unsized", "plain", "a quiet harbour", (79, 90), None, 4, 0.5, 10, "half", (79, 90), {}),
    (
        "guided",
        "plain",
        "a watercolour painting of the night sky",
        (64, 64),
        None,
        5,
        0.6,
        11,
        "half",
        None,
        dict(guidance=2.5, negative_prompt="blurry"),
    ),
    ("sharded", "sharded", "an oil painting", (80, 64), None, 8, 0.6, 12, "hard", None, {}),
    (
        "corners",
        "corners",
        "a red circle",
        (80, 80),
        None,
        4,
        0.75,
        13,
        "soft",
        None,
        dict(guidance=4.0, negative_prompt="夜"),
    ),
    ("saved", "saved", "it's two cafés", (64, 64), None, 8, 1.0, 14, "half", None, {}),
    ("sketch_full", SKETCH, "a red circle above a blue square", (96, 96), None, 8, 1.0, 1, "half", None, {}),
    ("sketch_most", SKETCH, "a big yellow star", (96, 80), None, 8, 0.6, 2, "soft", (48, 40), {}),
    ("sketch_sized", SKETCH, "a purple heart on sand", (130, 100), (96, 96), 8, 0.9, 3, "hard", (96, 96), {}),
]


class FirstMixture(Recorder):
    """Keeps the mixture that the run begins with; later ones are of what the mask keeps."""

    def keep(self, sample, timestep, noise):
        first = self.seen
        mixed = super().keep(sample, timestep, noise)
        self.seen = first or self.seen
        return mixed


@torch.no_grad()
def record(pipeline, case):
    """All tensors of one case, and the step that it starts at."""
    _, _, prompt, size, job_size, steps, strength, seed, kind, mask_size, more = case
    picture = golden.test_picture(*size)
    mask = mask_of(kind, *(mask_size or size))
    image = Image.fromarray(picture.numpy())
    if job_size:
        image = pipeline.image_processor.resize(image, job_size[1], job_size[0])
    recorder = FirstMixture(pipeline.scheduler)
    states, grids = [], []

    def each_step(_pipe, _step, _time, values):
        states.append(values["latents"][0].clone())
        grids.append(values["mask"][0, 0].clone())
        return values

    final = pipeline(
        prompt,
        image=image,
        mask_image=Image.fromarray(mask),
        strength=strength,
        negative_prompt=more.get("negative_prompt"),
        num_inference_steps=steps,
        guidance_scale=more.get("guidance", 0.0),
        generator=torch.Generator().manual_seed(seed),
        output_type="latent",
        callback_on_step_end=each_step,
        callback_on_step_end_tensor_inputs=["latents", "mask"],
    ).images
    recorder.close()
    assert torch.equal(final[0], states[-1])
    tensors = dict(
        picture=picture,
        mask=torch.from_numpy(mask),
        grid=grids[0].to(torch.uint8),
        first_state=recorder.seen["first_state"],
        second_state=states[0],
        final=final[0],
    )
    return {key: value.detach().contiguous() for key, value in tensors.items()}, steps - len(states)


def describe(case, tensors, start_step):
    name, model, prompt, _, _, steps, strength, seed, _, _, more = case
    height, width = (8 * side for side in tensors["final"].shape[-2:])
    return {
        "name": name,
        "model": model if model == SKETCH else f"tests/golden/models/{model}",
        "prompt": prompt,
        "negative_prompt": more.get("negative_prompt", ""),
        "width": width,
        "height": height,
        "sized": case[4] is not None,
        "steps": steps,
        "strength": strength,
        "start_step": start_step,
        "seed": seed,
        "guidance": more.get("guidance", 0.0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=GOLDEN / "inpaint")
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    manifest = {
        "made_by": {
            "command": "scripts/golden_inpaint.py",
            "torch": torch.__version__,
            "diffusers": diffusers.__version__,
            "transformers": transformers.__version__,
        },
        "cases": [],
    }
    vectors, pipeline, last = {}, None, None
    for case in CASES:
        if case[1] != last:
            pipeline, last = pipeline_of(case[1], ZImageInpaintPipeline), case[1]
        tensors, start_step = record(pipeline, case)
        manifest["cases"].append(describe(case, tensors, start_step))
        vectors.update({f"{case[0]}/{key}": value for key, value in tensors.items()})
        print(case[0], "from step", start_step, list(tensors["final"].shape), "anew:",
              f"{tensors['grid'].float().mean():.2f}", tensors["final"].std())
    save_file(vectors, out / "vectors.safetensors")
    (out / "vectors.safetensors").chmod(0o644)
    (out / "cases.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
