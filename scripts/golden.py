#!/usr/bin/env python3
"""Makes tests/golden: tiny models, and what diffusers computes with them, stage by stage.

    /path/to/venv/bin/python scripts/golden.py [--out tests/golden] [--only MODEL]

The environment: torch 2.11.0 (CPU), diffusers 0.42.1, transformers 5.23.0, tokenizers, peft, numpy,
pillow.  The tests that read the files need none of it.  tests/golden/README.md describes the files.
The same versions on the same kind of CPU give the same bytes; everything hangs on the seeds below.
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
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).parent))
import golden_loras  # noqa: E402
import golden_models  # noqa: E402
import golden_qwen  # noqa: E402
import golden_twinflow  # noqa: E402

VAE = dict(use_quant_conv=False, use_post_quant_conv=False)
PLAIN = dict(  # the transformer that the LoRAs fit
    dim=48, n_layers=2, n_refiner_layers=1, n_heads=3, n_kv_heads=3, axes_dims=[4, 6, 6], axes_lens=[1024, 64, 64]
)
MODELS = {
    # One file each, text encoder keys as a causal language model saves them.
    "plain": dict(
        seed=11,
        dtype="float32",
        shift=3.0,
        prefix=True,
        transformer=PLAIN,
        text=dict(
            hidden_size=40,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            intermediate_size=56,
            rope_theta=1e6,
        ),
        vae=dict(
            block_out_channels=[8, 8, 16, 16],
            layers_per_block=1,
            norm_num_groups=4,
            scaling_factor=0.54354,
            shift_factor=-0.01571,
            **VAE,
        ),
    ),
    # bf16, the transformer in shards, one kv head, real scaling, two blocks a level.
    "sharded": dict(
        seed=12,
        dtype="bfloat16",
        shift=3.0,
        shards="200KB",
        transformer=dict(
            dim=64,
            n_layers=3,
            n_refiner_layers=2,
            n_heads=2,
            n_kv_heads=2,
            axes_dims=[8, 12, 12],
            axes_lens=[1024, 512, 512],
        ),
        text=dict(
            hidden_size=48,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=8,
            intermediate_size=40,
            rope_theta=1e6,
        ),
        vae=dict(
            block_out_channels=[8, 16, 16, 24],
            layers_per_block=2,
            norm_num_groups=8,
            scaling_factor=0.3611,
            shift_factor=0.1159,
            **VAE,
        ),
    ),
    # fp16 under the names of the single-file repack; vocab.json + merges.txt; a text config in the
    # form of transformers 4.
    "comfy": dict(
        seed=13,
        dtype="float16",
        shift=3.0,
        comfy=True,
        vocab_and_merges=True,
        old_text_config=True,
        transformer=dict(
            dim=32,
            n_layers=2,
            n_refiner_layers=2,
            n_heads=4,
            n_kv_heads=4,
            axes_dims=[4, 2, 2],
            axes_lens=[600, 128, 128],
        ),
        text=dict(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=3,
            num_key_value_heads=3,
            head_dim=12,
            intermediate_size=64,
            rope_theta=1e6,
        ),
        vae=dict(
            block_out_channels=[4, 8, 8, 12],
            layers_per_block=1,
            norm_num_groups=2,
            scaling_factor=1.0,
            shift_factor=0.0,
            **VAE,
        ),
    ),
    # The corners of the configs: no q/k norm, another theta, eps, shift; quant convs; no mid
    # attention.
    "corners": dict(
        seed=14,
        dtype="bfloat16",
        shift=6.0,
        prefix=True,
        transformer=dict(
            dim=40,
            n_layers=1,
            n_refiner_layers=3,
            n_heads=1,
            n_kv_heads=1,
            qk_norm=False,
            norm_eps=1e-3,
            rope_theta=100.0,
            t_scale=500.0,
            axes_dims=[16, 16, 8],
            axes_lens=[1536, 64, 64],
        ),
        text=dict(
            hidden_size=24,
            num_hidden_layers=3,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=32,
            intermediate_size=48,
            rope_theta=5e5,
            rms_norm_eps=1e-5,
        ),
        vae=dict(
            block_out_channels=[6, 6, 12, 12],
            layers_per_block=1,
            norm_num_groups=3,
            scaling_factor=0.9,
            shift_factor=0.3,
            use_quant_conv=True,
            use_post_quant_conv=True,
            mid_block_add_attention=False,
        ),
    ),
    # What save_pretrained writes, as it is: shards with an index in every part, a tokenizer.json made
    # of vocab.json + merges.txt, chat_template.jinja.
    "saved": dict(
        seed=15,
        dtype="bfloat16",
        shift=3.0,
        shards="400KB",
        as_saved=True,
        vocab_and_merges=True,
        transformer=dict(
            dim=32,
            n_layers=2,
            n_refiner_layers=1,
            n_heads=2,
            n_kv_heads=2,
            axes_dims=[4, 6, 6],
            axes_lens=[1024, 512, 512],
        ),
        text=dict(
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            intermediate_size=48,
            rope_theta=1e6,
        ),
        vae=dict(
            block_out_channels=[8, 8, 16, 16],
            layers_per_block=1,
            norm_num_groups=4,
            scaling_factor=0.3611,
            shift_factor=0.1159,
            **VAE,
        ),
    ),
    # Two time embedders; shapes as of plain, whose LoRAs fit.
    "twinflow": dict(
        seed=16,
        dtype="bfloat16",
        shift=3.0,
        target=True,
        transformer=PLAIN,
        text=dict(
            hidden_size=40,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            intermediate_size=56,
            rope_theta=1e6,
        ),
        vae=dict(
            block_out_channels=[8, 8, 16, 16],
            layers_per_block=1,
            norm_num_groups=4,
            scaling_factor=0.3611,
            shift_factor=0.1159,
            **VAE,
        ),
    ),
}

LONG = " ".join(f"{n} red circles and {n + 1} blue squares, 夜晚的城市" for n in range(120))
# name, model, prompt, width, height, steps, seed; then what is not usual
CASES = [
    ("empty", "plain", "", 64, 64, 1, 1, {}),
    ("square", "plain", "a red circle above a blue square", 64, 64, 2, 42, {}),
    ("wide", "plain", "two yellow triangles and a purple heart, neon style", 176, 80, 4, 7, {}),
    (
        "tall",
        "plain",
        "它 don't stop: 3.14\r\n\r\n   tabs\tand   spaces ",
        64,
        208,
        8,
        2**40 + 9,
        {},
    ),
    (
        "guided",
        "plain",
        "a quiet harbour at sunrise",
        96,
        64,
        4,
        5,
        dict(
            guidance=2.5,
            negative_prompt="blurry, a much longer negative prompt that crosses a multiple of "
            "thirty-two tokens, ugly, watercolour painting of the night sky, deformed, text, "
            "signature",
        ),
    ),
    ("guided_empty_negative", "plain", "a small green star", 64, 80, 2, 6, dict(guidance=1.0)),
    ("chinese", "sharded", "一只红色的狐狸坐在雪地里，水墨画", 64, 64, 2, 3, {}),
    (
        "emoji",
        "sharded",
        "👩‍👩‍👧 🦊❤️ e\u0301 Å Ａ ﷺ <|im_end|>\n<think> x</think>",
        80,
        112,
        4,
        4,
        {},
    ),
    ("long", "sharded", LONG, 96, 96, 1, 8, {}),
    ("eight", "sharded", "an oil painting of a quiet harbour", 128, 128, 8, 1234567890123, {}),
    ("fused", "comfy", "der große Bär über dem Fluß", 112, 64, 4, 21, {}),
    ("fused_long", "comfy", "a " * 600, 64, 64, 2, 22, {}),
    ("corners", "corners", "a red circle", 80, 80, 4, 31, {}),
    (
        "corners_guided",
        "corners",
        "for (int i = 0; i < n; i++)",
        64,
        128,
        2,
        32,
        dict(guidance=4.0, negative_prompt="夜"),
    ),
    ("saved", "saved", "a watercolour painting of the night sky, 夜晚", 64, 80, 4, 41, {}),
    (
        "saved_guided",
        "saved",
        "it's <|im_end|>\n\n(two) cafe\u0301s",
        80,
        64,
        2,
        42,
        dict(guidance=3.0, negative_prompt="blurry"),
    ),
    (
        "lora",
        "plain",
        "a red circle above a blue square",
        64,
        64,
        2,
        42,
        dict(loras=[("diffusers", 0.8)]),
    ),
    (
        "lora_pair",
        "plain",
        "a red circle above a blue square",
        64,
        80,
        2,
        43,
        dict(loras=[("diffusers", 0.5), ("second", -0.7)]),
    ),
]
# With sigmas of their own and a share of its noise that each step replaces: as published for 2 and 4
# steps, with a part of it, in one step, without (Euler steps), and with a LoRA.
TWO, FOUR = [0.999, 0.6], [0.999, 0.999 - 0.499 / 3, 0.999 - 0.998 / 3, 0.5]
PHRASE = "a red circle above a blue square"
CASES += [
    ("twin_two", "twinflow", PHRASE, 64, 64, 2, 61, dict(sigmas=TWO, share=1.0)),
    ("twin_four", "twinflow", "a quiet harbour", 96, 64, 4, 62, dict(sigmas=FOUR, share=1.0)),
    ("twin_part", "twinflow", "夜晚的城市", 64, 80, 3, 63, dict(sigmas=[1.0, 0.7, 0.2], share=0.8)),
    ("twin_one", "twinflow", "", 64, 64, 1, 64, dict(sigmas=[0.999], share=0.8)),
    ("twin_euler", "twinflow", "two triangles", 80, 64, 4, 65, dict(sigmas=FOUR, share=0.0)),
    (
        "twin_lora",
        "twinflow",
        PHRASE,
        64,
        64,
        2,
        66,
        dict(sigmas=TWO, share=1.0, loras=[("diffusers", 0.8)]),
    ),
]
# Prompts of 31, 32 and 33 tokens: the wrapping is 17 in this tokenizer.
CASES += [(f"tokens_{17 + n}", "sharded", " a" * n, 64, 64, 1, 50 + n, {}) for n in (14, 15, 16)]


class Recorder:
    """Keeps the first output of each watched module: the positive prompt's, at the first step."""

    def __init__(self, transformer):
        self.seen = {}
        self.hooks = [
            transformer.context_refiner[-1].register_forward_hook(self.keep("refined_caption")),
            transformer.noise_refiner[-1].register_forward_hook(self.keep("image_tokens")),
            transformer.register_forward_hook(self.keep("model_output")),
        ]

    def keep(self, name):
        def hook(module, inputs, output):
            first = output[0][0] if isinstance(output, tuple) else output[0]
            self.seen.setdefault(name, first.detach().clone())

        return hook

    def close(self):
        for hook in self.hooks:
            hook.remove()


def token_ids(pipeline, prompt):
    text = pipeline.tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}],
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=True,
    )
    return torch.tensor(
        pipeline.tokenizer(text, truncation=True, max_length=512).input_ids, dtype=torch.int32
    )


def to_rgb8(pipeline, decoded):
    return torch.from_numpy(
        np.array(pipeline.image_processor.postprocess(decoded, output_type="pil")[0])
    )


def test_picture(width, height):
    """A picture with edges and gradients, for the encoder."""
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([x * 255 // width, y * 255 // height, 255 * ((x // 16 + y // 16) % 2)], -1)
    return torch.from_numpy(rgb.astype(np.uint8))


@torch.no_grad()
def record(pipeline, case):
    """All tensors of one case."""
    name, _, prompt, width, height, steps, seed, more = case
    guidance, negative = more.get("guidance", 0.0), more.get("negative_prompt")
    tensors, latents = {}, []
    recorder = Recorder(pipeline.transformer)

    def each_step(_pipe, _step, _time, values):
        latents.append(values["latents"][0].clone())
        return values

    noise = torch.randn(
        [1, 16, height // 8, width // 8], generator=torch.Generator().manual_seed(seed)
    )
    features, negatives = pipeline.encode_prompt([prompt], negative_prompt=[negative or ""])
    sigmas = more.get("sigmas")
    if sigmas:
        share = more["share"]
        for state in golden_twinflow.sample(pipeline, features, noise, sigmas, share, seed):
            latents.append(state[0].clone())
        final = latents[-1][None]
    else:
        final = pipeline(
            prompt,
            negative_prompt=negative,
            width=width,
            height=height,
            num_inference_steps=steps,
            guidance_scale=guidance,
            generator=torch.Generator().manual_seed(seed),
            output_type="latent",
            callback_on_step_end=each_step,
        ).images
    recorder.close()
    decoded = pipeline.vae.decode(
        final / pipeline.vae.config.scaling_factor + pipeline.vae.config.shift_factor,
        return_dict=False,
    )[0]
    assert torch.equal(final[0], latents[-1])
    caption = recorder.seen["refined_caption"]
    tensors.update(
        token_ids=token_ids(pipeline, prompt),
        text_features=features[0],
        noise=noise[0],
        # With guidance the shorter caption of the two is padded to the longer one: not part of
        # the stage.
        refined_caption=caption[: -(-len(features[0]) // 32) * 32],
        image_tokens=recorder.seen["image_tokens"],
        model_output=recorder.seen["model_output"].squeeze(1),
        sigmas=torch.tensor([*sigmas, 0.0]) if sigmas else pipeline.scheduler.sigmas.float(),
        latents=torch.stack(latents),
        image=to_rgb8(pipeline, decoded),
    )
    if guidance > 0:
        tensors.update(
            negative_token_ids=token_ids(pipeline, negative or ""),
            negative_text_features=negatives[0],
        )
    if width * height <= 64 * 128:
        tensors["decoded"] = decoded[0]
    if not more:
        picture = test_picture(width, height)
        pixels = (picture.float() / 127.5 - 1).permute(2, 0, 1)[None]
        mean = pipeline.vae.encode(pixels).latent_dist.mode()
        tensors["picture"] = picture
        tensors["picture_latent"] = (
            (mean - pipeline.vae.config.shift_factor) * pipeline.vae.config.scaling_factor
        )[0]
    return {key: value.detach().contiguous() for key, value in tensors.items()}


def describe(case, vectors):
    name, model, prompt, width, height, steps, seed, more = case
    return {
        "name": name,
        "model": f"models/{model}",
        "vectors": f"cases/{vectors}.safetensors",
        "prompt": prompt,
        "negative_prompt": more.get("negative_prompt", ""),
        "width": width,
        "height": height,
        "steps": steps,
        "seed": seed,
        "guidance": more.get("guidance", 0.0),
        "loras": [
            {"file": f"loras/{file}.safetensors", "scale": scale}
            for file, scale in more.get("loras", [])
        ],
        **({"listed": more["sigmas"], "noise": more["share"]} if "sigmas" in more else {}),
    }


def run_case(pipeline, case, vectors, out):
    """Writes the case's tensors to vectors unless that is None; returns them."""
    loras = case[7].get("loras", [])
    for file, _ in loras:
        pipeline.load_lora_weights(str(out / "loras" / f"{file}.safetensors"), adapter_name=file)
    if loras:
        pipeline.set_adapters([file for file, _ in loras], [scale for _, scale in loras])
    tensors = record(pipeline, case)
    if loras:
        pipeline.unload_lora_weights()
    if vectors:
        save_file(tensors, vectors)
    return tensors


def save_lines(pipeline, path):
    """Odd lines with the ids that the pipeline's tokenizer gives."""
    words = [word.encode() for word in golden_models.CORPUS.split()]
    lines = golden_qwen.make_lines(words, 800, seed=15)
    encoded = [pipeline.tokenizer(t, truncation=True, max_length=512).input_ids for t in lines]
    golden_qwen.pack(path, golden_qwen.line_tensors(lines, encoded))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "tests/golden")
    parser.add_argument("--only", help="this model alone; the manifest then lists its cases alone")
    args = parser.parse_args()
    torch.manual_seed(0)
    manifest = {
        "made_by": {
            "command": "scripts/golden.py",
            "torch": torch.__version__,
            "diffusers": diffusers.__version__,
            "transformers": transformers.__version__,
        },
        "cases": [],
    }
    for folder in ("models", "cases", "loras"):
        if not args.only:
            shutil.rmtree(args.out / folder, ignore_errors=True)
        (args.out / folder).mkdir(parents=True, exist_ok=True)
    for model, spec in MODELS.items():
        if args.only not in (None, model):
            continue
        folder = args.out / "models" / model
        shutil.rmtree(folder, ignore_errors=True)
        generator = torch.Generator().manual_seed(spec["seed"])
        pipeline = golden_models.build(spec, folder, generator)
        if spec.get("as_saved"):
            save_lines(pipeline, args.out / f"cases/{model}_lines.safetensors.zst")
        if model == "plain":
            golden_loras.write_all(pipeline, args.out / "loras", generator)
        for case in CASES:
            if case[1] != model:
                continue
            tensors = run_case(pipeline, case, args.out / f"cases/{case[0]}.safetensors", args.out)
            manifest["cases"].append(describe(case, case[0]))
            print(
                case[0],
                {k: list(v.shape) for k, v in tensors.items() if k in ("token_ids", "latents")},
                f"image {tensors['image'].float().mean():.0f}"
                f" +- {tensors['image'].float().std():.0f}",
            )
            if case[0] == "lora":
                # Every layout carries the same deltas, so the same vectors are expected of each.
                for layout in golden_loras.SAME_DELTAS:
                    other = (f"lora_{layout}", *case[1:7], {"loras": [(layout, 0.8)]})
                    manifest["cases"].append(describe(other, case[0]))
                    if layout in golden_loras.UNREAD_BY_DIFFUSERS:
                        continue
                    same = run_case(pipeline, other, None, args.out)
                    worst = (same["latents"] - tensors["latents"]).abs().max().item()
                    print(other[0], f"differs by {worst:.1e}")
                    assert worst < 1e-4
    for path in args.out.rglob("*.safetensors*"):
        path.chmod(0o644)
    (args.out / "cases.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
