"""muon.py - the Muon optimiser (Keller Jordan, 2024) for matrices, batched by shape."""
import torch


@torch.compile
def orthogonalise(g):
    """Newton-Schulz iteration on a batch of matrices [n, r, c]."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    turned = x.shape[-2] > x.shape[-1]
    if turned:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        m = x @ x.mT
        x = a * x + (b * m + c * m @ m) @ x
    return (x.mT if turned else x).float()


class Muon:
    """The rate is a tensor that set_rate() fills: a recorded step sees the new one."""

    def __init__(self, params, momentum=0.95, decay=0.01):
        self.momentum, self.decay = momentum, decay
        self.rate = torch.zeros((), device=params[0].device)
        self.groups = {}
        for p in params:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.state = {shape: torch.zeros(len(ps), *shape, device=ps[0].device) for shape, ps in self.groups.items()}

    def set_rate(self, rate):
        self.rate.fill_(rate)

    def forget(self):
        """Fresh momentum in the same memory."""
        for buffer in self.state.values():
            buffer.zero_()

    @torch.no_grad()
    def step(self):
        for shape, params in self.groups.items():
            grads = torch.stack([p.grad for p in params]).float()
            buffer = self.state[shape]
            buffer.lerp_(grads, 1 - self.momentum)
            update = orthogonalise(grads.lerp(buffer, self.momentum))
            update *= self.rate * (0.2 * max(shape) ** 0.5)
            torch._foreach_mul_(params, 1 - self.rate * self.decay)
            torch._foreach_sub_(params, list(update.unbind(0)))
