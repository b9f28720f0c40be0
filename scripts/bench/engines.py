"""Kiln and diffusers behind the same call, for the scripts that compare them.

    engine = ENGINES["kiln"](args, "bf16")     args: model, library, device ("cpu", "cuda:N")
    rendered = engine.render(prompt, size, seed)

Kiln is called through its C ABI (pipeline/diffusionz_batch.h) with ctypes alone, so that its side
needs no torch.  A process can load only one of the two, because each brings its own LibTorch.
"""
import collections
import ctypes
import math
import os
import sys

DTYPES = {"fp32": 1, "bf16": 2, "fp8": 3}  # enum diffusionz_dtype
TOKENS_MAX = 64  # of a prompt: diffusers computes as many in any case

# picture: RGB bytes.  times: Kiln's own, by name.  With keep: states, as fp32 bytes: the latent
# before each step and after the last; sigmas: how much of each state is noise.
Rendered = collections.namedtuple("Rendered", "picture times states sigmas")


def psnr(a, b):
    """Of two pictures as bytes, dB."""
    error = sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)
    return 10 * math.log10(255 ** 2 / error) if error else math.inf


class Options(ctypes.Structure):
    _fields_ = [("model_path", ctypes.c_char_p), ("device_id", ctypes.c_int32),
                ("dtype", ctypes.c_int32), ("threads", ctypes.c_int32),
                ("lora_way", ctypes.c_int32)]


class Item(ctypes.Structure):
    _fields_ = [("prompt", ctypes.c_char_p), ("negative_prompt", ctypes.c_char_p),
                ("seed", ctypes.c_uint64), ("cancel", ctypes.c_void_p),
                ("start_latent", ctypes.c_void_p), ("start_rgb", ctypes.c_void_p),
                ("start_mask", ctypes.c_void_p), ("start_prompt", ctypes.c_void_p),
                ("variety", ctypes.c_double), ("more_latents", ctypes.c_void_p),
                ("more_count", ctypes.c_int32), ("combine", ctypes.c_int32),
                ("change_least", ctypes.c_double), ("change_most", ctypes.c_double)]


class Batch(ctypes.Structure):
    _fields_ = [("items", ctypes.POINTER(Item)), ("item_count", ctypes.c_int32),
                ("width", ctypes.c_int32), ("height", ctypes.c_int32),
                ("num_steps", ctypes.c_int32), ("guidance_scale", ctypes.c_float),
                ("loras", ctypes.c_void_p), ("lora_count", ctypes.c_int32),
                ("keep_trajectory", ctypes.c_int32), ("skip_decode", ctypes.c_int32),
                ("progress", ctypes.c_void_p), ("smaller", ctypes.c_void_p),
                ("smaller_count", ctypes.c_int32), ("sigmas", ctypes.c_void_p),
                ("start", ctypes.c_int32),
                ("start_step", ctypes.c_int32), ("start_sigma", ctypes.c_double),
                ("rest_steps", ctypes.c_int32), ("coarse_steps", ctypes.c_int32),
                ("coarse_width", ctypes.c_int32), ("coarse_height", ctypes.c_int32),
                ("middle_steps", ctypes.c_int32), ("middle_width", ctypes.c_int32),
                ("middle_height", ctypes.c_int32),
                ("by_difference", ctypes.c_int32), ("step_loras", ctypes.c_void_p),
                ("step_lora_count", ctypes.c_int32),
                ("step_transformers", ctypes.c_void_p),
                ("step_transformer_count", ctypes.c_int32), ("coarse_skip", ctypes.c_int32)]


class Output(ctypes.Structure):
    _fields_ = [("error_code", ctypes.c_int32), ("error_msg", ctypes.c_char_p),
                ("rgb", ctypes.POINTER(ctypes.c_uint8)),
                ("latent", ctypes.POINTER(ctypes.c_float)),
                ("trajectory", ctypes.POINTER(ctypes.c_float)),
                ("sigmas", ctypes.POINTER(ctypes.c_double)), ("latent_channels", ctypes.c_int32),
                ("latent_height", ctypes.c_int32), ("latent_width", ctypes.c_int32),
                ("smaller", ctypes.c_void_p * 2), ("change", ctypes.c_double),
                ("start_refused", ctypes.c_int32), ("wasted", ctypes.c_int32)]


class Times(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double)
                for name in ("lora", "text", "denoise", "decode", "device")]
    _fields_ += [(name, ctypes.c_int32) for name in ("lora_from", "texts_ready", "texts_encoded")]


class Kiln:
    def __init__(self, args, dtype):
        self.lib = ctypes.CDLL(os.path.abspath(args.library))
        self.lib.diffusionz_last_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        device = -1 if args.device == "cpu" else int(args.device.split(":")[1])
        options = Options(args.model.encode(), device, DTYPES[dtype])
        self.check(self.lib.diffusionz_open(ctypes.byref(options), ctypes.byref(self.context)))

    def check(self, failed):
        if failed:
            sys.exit(self.lib.diffusionz_last_error().decode())

    def render(self, prompt, size, seed, steps=8, keep=False):
        item = Item(prompt.encode(), None, seed)
        batch = Batch(items=ctypes.pointer(item), item_count=1, width=size, height=size,
                      num_steps=steps, keep_trajectory=keep)
        out, times = Output(), Times()
        self.check(self.lib.diffusionz_run_batch(self.context, ctypes.byref(batch),
                                                 ctypes.byref(out), ctypes.byref(times)))
        if out.error_code:
            sys.exit(out.error_msg.decode())
        states, sigmas = b"", []
        if keep:
            size_of = 4 * out.latent_channels * out.latent_height * out.latent_width
            states = (ctypes.string_at(out.trajectory, steps * size_of) +
                      ctypes.string_at(out.latent, size_of))
            sigmas = out.sigmas[:steps] + [0.0]
        rendered = Rendered(ctypes.string_at(out.rgb, size * size * 3),
                      {n: getattr(times, n) for n, _ in Times._fields_}, states, sigmas)
        self.lib.diffusionz_release_outputs(ctypes.byref(out), 1)
        return rendered

    def close(self):
        self.lib.diffusionz_free(self.context)


class Diffusers:
    def __init__(self, args, dtype):
        import peer_model
        import torch
        self.torch, self.model = torch, peer_model
        self.pipe = peer_model.loaded(args.model, args.device, peer_model.DTYPES[dtype])

    def cast(self, dtype):
        self.model.cast(self.pipe, self.model.DTYPES[dtype])

    def render(self, prompt, size, seed, steps=8, keep=False):
        latent = [1, self.pipe.transformer.config.in_channels,
                  *[size // self.pipe.vae_scale_factor] * 2]
        noise = self.torch.randn(latent, generator=self.torch.Generator().manual_seed(seed))
        states = [noise]

        def after_step(pipe, step, time, tensors):
            states.append(tensors["latents"].cpu())
            return tensors

        image = self.pipe(prompt, height=size, width=size, num_inference_steps=steps,
                          guidance_scale=0.0, latents=noise, max_sequence_length=TOKENS_MAX,
                          callback_on_step_end=after_step if keep else None).images[0]
        return Rendered(image.convert("RGB").tobytes(), {},
                     b"".join(s.numpy().tobytes() for s in states) if keep else b"",
                     self.pipe.scheduler.sigmas.tolist())


ENGINES = {"kiln": Kiln, "diffusers": Diffusers}
