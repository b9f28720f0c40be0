"""flow.py - flow matching: noising, the 8-step Euler sampler, checkpoints, sample sheets."""
import json
import os

import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file

from config import MODEL, SHIFT, STEPS, TEXT
from data import encode_texts, tokenizer_of
from net import TextEncoder, Transformer


def shifted(u, shift=SHIFT):
    return shift * u / (1 + (shift - 1) * u)


def draw_sigmas(n, device, h=256, w=256):
    """Half uniform, half logit-normal, then the shift of the sampler.

    More pixels show the same layout through more noise, so half of a large picture's samples shift further, by the square
    root of its area over that of 256 x 256 (Esser et al., "Scaling Rectified Flow Transformers", 2024, section 5.3.2).
    """
    even = torch.rand(n, device=device)
    bell = torch.sigmoid(torch.randn(n, device=device))
    u = torch.where(torch.rand(n, device=device) < 0.5, even, bell)
    further = SHIFT * max(1.0, (h * w / 65536) ** 0.5)
    return shifted(u, torch.where(torch.rand(n, device=device) < 0.5, SHIFT, further))


def noised(z, blank=0.0):
    """Latents on their way to noise: (x, sigma [B], noise) for z in fp32; a share `blank` of them is noise alone."""
    noise, sigma = torch.randn_like(z), draw_sigmas(len(z), z.device, *(8 * side for side in z.shape[2:]))
    if blank:
        sigma = torch.where(torch.rand_like(sigma) < blank, 1.0, sigma)
    s = sigma.view(-1, 1, 1, 1)
    return (1 - s) * z + s * noise, sigma, noise


@torch.no_grad()
def difference(teacher, x, sigma, text, lengths, empty):
    """T(caption) - T(""), for features of the captions and the ids and length of ""."""
    nothing = teacher.text(empty[0], text.dtype).expand(len(x), -1, -1)
    said = teacher.transformer(x, 1 - sigma, text, lengths)
    return said - teacher.transformer(x, 1 - sigma, nothing, empty[1].expand(len(x)))


@torch.no_grad()
def follow(means, params, step, keep):
    """The running mean of the weights; a short one at first."""
    torch._foreach_lerp_(means, params, 1 - min(keep, (step + 1) / (step + 10)))


class Model(torch.nn.Module):
    """Transformer and text encoder as one set of weights."""

    def __init__(self, text=TEXT):
        super().__init__()
        self.transformer, self.text = Transformer(), TextEncoder(text)
        self.tokenizer = None                 # of the folder that it came from; None: the shipped model's

    def forward(self, x, sigma, ids, lengths, dtype=torch.bfloat16):
        """The model's output: minus the velocity, so x0 - noise."""
        return self.transformer(x, 1 - sigma, self.text(ids, dtype), lengths)

    def compile_blocks(self):
        torch._dynamo.config.recompile_limit = 64
        torch._dynamo.config.cache_size_limit = 64
        for block in [*self.transformer.noise_refiner, *self.transformer.context_refiner, *self.transformer.layers,
                      *self.text.layers[:-1]]:
            block.compile(dynamic=True)


def load_vae(folder, device="cuda"):
    return AutoencoderKL.from_pretrained(os.path.join(folder, "vae"), torch_dtype=torch.float32).to(device).eval()


def encoder_of(vae):
    """pictures 0..1 -> latents as the sampler sees them, bf16."""
    vae.encoder.to(memory_format=torch.channels_last)
    scale, shift = vae.config.scaling_factor, vae.config.shift_factor

    @torch.no_grad()
    def encode(pictures):
        with torch.autocast(pictures.device.type, torch.bfloat16, cache_enabled=False):      # threads share that cache
            x = ((pictures * 255).round() / 127.5 - 1).contiguous(memory_format=torch.channels_last)
            mean = vae.encoder(x).float().chunk(2, 1)[0]
        return ((mean - shift) * scale).bfloat16()
    return encode


@torch.no_grad()
def decode(vae, z):
    scale, shift = vae.config.scaling_factor, vae.config.shift_factor
    y = torch.cat([vae.decode(p.float() / scale + shift).sample for p in z.split(16)])
    return (y / 2 + 0.5).clamp(0, 1)


_tokenizer = None


def tokens(texts, device, tokenizer=None):
    """Ids and lengths by tokenizer, or the shipped model's."""
    global _tokenizer
    _tokenizer = _tokenizer or tokenizer_of(MODEL)
    ids, lengths = encode_texts(tokenizer or _tokenizer, texts)
    return ids.to(device), lengths.to(device)


@torch.no_grad()
def sample(model, texts, h, w, steps=STEPS, seed=0, device="cuda", dtype=torch.bfloat16, guidance=0.0):
    """Final latents of the texts; texts of one padded length are drawn together."""
    out = [None] * len(texts)
    groups = {}
    for i, text in enumerate(texts):
        ids, _ = tokens([text], device, model.tokenizer)
        groups.setdefault(ids.shape[1], []).append(i)
    u = 1 - torch.arange(steps, device=device) / steps
    sigmas = torch.cat([shifted(u), torch.zeros(1, device=device)])
    per = max(1, 300_000 // (h * w // 256 + 64))
    for members in groups.values():
        for at in range(0, len(members), per):
            part = members[at:at + per]
            ids, lengths = tokens([texts[i] for i in part], device, model.tokenizer)
            noise = [torch.randn(16, h // 8, w // 8, generator=torch.Generator().manual_seed(seed + i)) for i in part]
            x = torch.stack(noise).to(device)
            for k in range(steps):
                sigma = sigmas[k].expand(len(part))
                v = model(x, sigma, ids, lengths, dtype)
                if guidance:
                    none, length = tokens([""], device, model.tokenizer)
                    v = v + guidance * (v - model(x, sigma, none.expand(len(part), -1), length.expand(len(part)), dtype))
                x = x - (sigmas[k + 1] - sigmas[k]) * v.float()
            for i, z in zip(part, x):
                out[i] = z
    return torch.stack(out)


def save_weights(model, path, limit=15_000_000):
    """fp32 weights in pieces of at most `limit` bytes: path-0.pt, path-1.pt, ...; whole before they take an older one's place."""
    piece, size, k = {}, 0, 0
    for name, value in model.state_dict().items():
        piece[name] = value.detach().float().cpu().clone()
        size += piece[name].numel() * 4
        if size > limit - 3_000_000:
            torch.save(piece, f"{path}-{k}.new")
            piece, size, k = {}, 0, k + 1
    torch.save(piece, f"{path}-{k}.new")
    for i in range(k + 1):
        os.replace(f"{path}-{i}.new", f"{path}-{i}.pt")


def read_weights(path):
    """{name: tensor in fp32} from save_weights' pieces, or from an exported model folder (to go on from there)."""
    k, whole = 0, {}
    if os.path.isdir(path):
        part = load_file(os.path.join(path, "transformer", "diffusion_pytorch_model.safetensors"))
        whole.update({"transformer." + name: value.float() for name, value in part.items()})
        part = load_file(os.path.join(path, "text_encoder", "model.safetensors"))
        whole.update({name.replace("model.", "text.", 1): value.float() for name, value in part.items()})
    while os.path.exists(f"{path}-{k}.pt"):
        whole.update(torch.load(f"{path}-{k}.pt", map_location="cpu"))
        k += 1
    if not whole:
        raise SystemExit(f"no weights at {path}-0.pt")
    return whole


def load_weights(model, path):
    model.load_state_dict(read_weights(path))


def load_model(path):
    """A model of save_weights' pieces, or of an exported folder, whatever its text encoder's size."""
    if os.path.isdir(path):
        with open(os.path.join(path, "text_encoder", "config.json")) as f:
            model = Model(json.load(f))
        model.tokenizer = tokenizer_of(path)
    else:
        model = Model()
    load_weights(model, path)
    return model


def sheet(pictures, path, columns=8):
    from PIL import Image
    rows = [torch.cat(list(pictures[i:i + columns]), 2) for i in range(0, len(pictures) // columns * columns, columns)]
    image = (torch.cat(rows, 1).permute(1, 2, 0) * 255).round().byte().cpu().numpy()
    Image.fromarray(image).save(path)
