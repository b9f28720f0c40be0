"""A transformer with two time embedders, and the sampler for few steps that adds noise anew.

TwinFlow: arXiv 2512.05150; its sampler is UCGM-S: arXiv 2505.07447.  Written from these, with
diffusers' transformer for all that follows the time.  golden.py uses it; Kiln has the same in
pipeline/model/transformer.c and pipeline/model/sampler.c.
"""

import hashlib
import math

import diffusers
import torch
from diffusers.models.transformers.transformer_z_image import TimestepEmbedder


class ZImageTransformer2DModel(diffusers.ZImageTransformer2DModel):
    """With t_embedder_2, which is told how far the step leads; saved under the name of its base."""

    def __init__(self, **config):
        super().__init__(**config)
        self.t_embedder_2 = TimestepEmbedder(min(config["dim"], 256), mid_size=1024)
        self.t_embedder.register_forward_hook(self.embed)

    def embed(self, _module, inputs, _output):
        """E1(t) + |target - t| E2(target - t), for the target 0; inputs are t times t_scale."""
        time = inputs[0].double()
        far = -time
        second = embedding(self.t_embedder_2, far) * (far.abs() / self.t_scale)[:, None].float()
        return embedding(self.t_embedder, time) + second


ZImageTransformer2DModel.__module__ = diffusers.ZImageTransformer2DModel.__module__


def embedding(embedder, time):
    """The sinusoid in double, the layers in their own type."""
    half = embedder.frequency_embedding_size // 2
    frequencies = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float64) / half)
    angles = time[:, None] * frequencies
    return embedder.mlp(torch.cat([angles.cos(), angles.sin()], -1).float())


def step_seed(seed, step):
    """The seed of the noise that step 1, 2, ... of a run ends with."""
    digest = hashlib.sha256(f"kiln step {step}\0{seed}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def sample(pipeline, features, noise, sigmas, share, seed):
    """Yields the latent after each step, the last one clean."""
    latent = noise
    for step, (sigma, after) in enumerate(zip(sigmas, [*sigmas[1:], 0.0])):
        time = torch.tensor([1 - sigma], dtype=torch.float64)
        given = [latent[0][:, None]]
        output = pipeline.transformer(given, time, features, return_dict=False)[0]
        velocity = -output[0].squeeze(1)[None]
        clean = latent - sigma * velocity
        noisy = latent + (1 - sigma) * velocity
        if share > 0:
            generator = torch.Generator().manual_seed(step_seed(seed, step + 1))
            fresh = torch.randn(latent.shape, generator=generator)
            noisy = math.sqrt(1 - share) * noisy + math.sqrt(share) * fresh
        latent = (1 - after) * clean + after * noisy
        yield latent
