#!/usr/bin/env python3
"""The C ABI from Python, with nothing but ctypes.

    scripts/examples/render.py MODEL PROMPT NAME [--library build/libdiffusionz.so] [--lora FILE:0.8]

Writes NAME-1.webp to NAME-3.webp.  The two structs mirror pipeline/diffusionz_c_api.h.
"""
import argparse
import ctypes
import os
import sys


class Params(ctypes.Structure):
    _fields_ = [("prompt", ctypes.c_char_p), ("negative_prompt", ctypes.c_char_p),
                ("width", ctypes.c_int32), ("height", ctypes.c_int32),
                ("num_steps", ctypes.c_int32), ("guidance_scale", ctypes.c_float),
                ("seed", ctypes.c_int64), ("lora_path", ctypes.c_char_p),
                ("lora_weight", ctypes.c_float)]


class Result(ctypes.Structure):
    _fields_ = [("image_data", ctypes.POINTER(ctypes.c_uint8)), ("image_len", ctypes.c_int32),
                ("width", ctypes.c_int32), ("height", ctypes.c_int32),
                ("error_code", ctypes.c_int32), ("error_msg", ctypes.c_char_p)]


class Model:
    """A loaded model; close it, or use it in a with statement."""

    def __init__(self, library, path, device=-1):
        self.lib = ctypes.CDLL(os.path.abspath(library))
        self.lib.diffusionz_init.restype = ctypes.c_void_p
        self.lib.diffusionz_generate.restype = Result
        self.lib.diffusionz_last_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p(self.lib.diffusionz_init(os.fsencode(path), device))
        if not self.context:
            raise RuntimeError(self.lib.diffusionz_last_error().decode())

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.lib.diffusionz_free(self.context)

    def generate(self, prompt, width=256, height=256, steps=8, seed=0, guidance=0.0, negative=None,
                 lora=None, lora_weight=1.0):
        """The picture as WebP bytes."""
        params = Params(prompt.encode(), negative.encode() if negative else None, width, height,
                        steps, guidance, seed, os.fsencode(lora) if lora else None, lora_weight)
        result = self.lib.diffusionz_generate(self.context, ctypes.byref(params))
        try:
            if result.error_code:
                raise RuntimeError(result.error_msg.decode())
            return ctypes.string_at(result.image_data, result.image_len)
        finally:
            self.lib.diffusionz_free_result(ctypes.byref(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("prompt")
    parser.add_argument("name")
    parser.add_argument("--library", default="build/libdiffusionz.so")
    parser.add_argument("--lora", metavar="FILE[:WEIGHT]")
    args = parser.parse_args()
    lora, _, weight = (args.lora or "").partition(":")
    try:
        with Model(args.library, args.model) as model:
            for seed in (1, 2, 3):
                path = "%s-%d.webp" % (args.name, seed)
                data = model.generate(args.prompt, seed=seed, lora=lora or None,
                                      lora_weight=float(weight or 1))
                with open(path, "wb") as out:
                    out.write(data)
                print(path)
    except RuntimeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
