#!/usr/bin/env python3
"""Makes tests/golden/img2img: what ZImageImg2ImgPipeline of diffusers computes, on the CPU in fp32.

    /path/to/venv/bin/python scripts/golden_img2img.py [--out tests/golden/img2img]

The environment is that of golden.py, and the tiny models are those that it has saved: this fails if
they are others by now.  The demo model is read from pipeline/models/sketch.
tests/golden/README.md describes the files.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import diffusers
import numpy as np
import torch
import transformers
from diffusers import ZImageImg2ImgPipeline
from PIL import Image
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent))
import golden  # noqa: E402
import golden_models  # noqa: E402

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests/golden"
SKETCH = "pipeline/models/sketch"
# name, model, prompt, picture's size, job's size (None: the picture's), steps, strength, seed; then
# what is not usual
CASES = [
    ("full", "plain", "a red circle above a blue square", (64, 64), None, 4, 1.0, 42, {}),
    ("most", "plain", "a quiet harbour at sunrise", (96, 64), None, 8, 0.6, 7, {}),
    ("little", "plain", "two yellow triangles", (64, 80), None, 8, 0.3, 2**40 + 9, {}),
    ("last_step", "plain", "", (64, 64), None, 8, 0.1, 3, {}),
    # 25 * 0.28 is a little more than 7 in binary, so 8 steps are run.
    ("rounding", "plain", "a small green star", (64, 64), None, 25, 0.28, 4, {}),
    ("resized", "plain", "夜晚的城市", (100, 71), (64, 80), 8, 0.6, 5, {}),
    ("unsized", "plain", "a purple heart", (79, 90), None, 4, 0.5, 6, {}),
    (
        "guided",
        "plain",
        "a watercolour painting of the night sky",
        (64, 64),
        None,
        5,
        0.6,
        8,
        dict(guidance=2.5, negative_prompt="blurry"),
    ),
    ("sharded", "sharded", "an oil painting of a quiet harbour", (80, 64), None, 8, 0.6, 9, {}),
    (
        "corners",
        "corners",
        "a red circle",
        (80, 80),
        None,
        4,
        0.75,
        10,
        dict(guidance=4.0, negative_prompt="夜"),
    ),
    ("saved", "saved", "it's two cafés", (64, 64), None, 8, 0.3, 11, {}),
    ("sketch_full", SKETCH, "a red circle above a blue square", (96, 96), None, 8, 1.0, 1, {}),
    ("sketch_most", SKETCH, "a big yellow star on a starry night", (96, 80), None, 8, 0.6, 2, {}),
    ("sketch_little", SKETCH, "a purple heart on sand", (130, 100), (96, 96), 8, 0.3, 3, {}),
]


def pipeline_of(model, kind=ZImageImg2ImgPipeline):
    """The tiny model as golden.py builds it, or the demo model; in fp32."""
    if model == SKETCH:
        return kind.from_pretrained(ROOT / SKETCH, torch_dtype=torch.float32)
    spec = golden.MODELS[model]
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(spec["seed"])
        built = golden_models.build(spec, Path(folder) / model, generator)
        vae = "vae/diffusion_pytorch_model.safetensors"
        ours, saved = load_file(Path(folder) / model / vae), load_file(GOLDEN / "models" / model / vae)
        assert all(torch.equal(ours[key], saved[key]) for key in saved), f"{model} is another model"
    return kind(**built.components)


class Recorder:
    """Keeps what the pipeline mixes, and the mixture."""

    def __init__(self, scheduler):
        self.seen = {}
        self.scheduler, self.scale_noise = scheduler, scheduler.scale_noise
        scheduler.scale_noise = self.keep

    def keep(self, sample, timestep, noise):
        mixed = self.scale_noise(sample, timestep, noise)
        self.seen = dict(picture_latent=sample[0], noise=noise[0], first_state=mixed[0])
        return mixed

    def close(self):
        del self.scheduler.scale_noise


@torch.no_grad()
def record(pipeline, case):
    """All tensors of one case, and the step that it starts at."""
    _, _, prompt, (width, height), size, steps, strength, seed, more = case
    picture = golden.test_picture(width, height)
    image = Image.fromarray(picture.numpy())
    if size:
        image = pipeline.image_processor.resize(image, size[1], size[0])
    recorder = Recorder(pipeline.scheduler)
    states = []

    def each_step(_pipe, _step, _time, values):
        states.append(values["latents"][0].clone())
        return values

    final = pipeline(
        prompt,
        image=image,
        strength=strength,
        negative_prompt=more.get("negative_prompt"),
        num_inference_steps=steps,
        guidance_scale=more.get("guidance", 0.0),
        generator=torch.Generator().manual_seed(seed),
        output_type="latent",
        callback_on_step_end=each_step,
    ).images
    recorder.close()
    assert torch.equal(final[0], states[-1])
    tensors = dict(picture=picture, **recorder.seen, final=final[0])
    return {key: value.detach().contiguous() for key, value in tensors.items()}, steps - len(states)


def describe(case, tensors, start_step):
    name, model, prompt, _, _, steps, strength, seed, more = case
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
    parser.add_argument("--out", type=Path, default=GOLDEN / "img2img")
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    manifest = {
        "made_by": {
            "command": "scripts/golden_img2img.py",
            "torch": torch.__version__,
            "diffusers": diffusers.__version__,
            "transformers": transformers.__version__,
        },
        "cases": [],
    }
    vectors, pipeline, last = {}, None, None
    for case in CASES:
        if case[1] != last:
            pipeline, last = pipeline_of(case[1]), case[1]
        tensors, start_step = record(pipeline, case)
        manifest["cases"].append(describe(case, tensors, start_step))
        vectors.update({f"{case[0]}/{key}": value for key, value in tensors.items()})
        print(case[0], "from step", start_step, list(tensors["final"].shape), tensors["final"].std())
    save_file(vectors, out / "vectors.safetensors")
    (out / "vectors.safetensors").chmod(0o644)
    (out / "cases.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
