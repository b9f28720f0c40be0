"""replay.py - a training step recorded as a CUDA graph, once per set of shapes, and replayed.

A step of this small model is a thousand short kernels.  Launching them takes the CPU 35 ms for forward and backward alone,
whatever the batch (H200, 9,216 to 65,536 tokens); replayed they take what the GPU takes, so small steps are worth having.
What a step reads must stay where it is: weights, moments of the optimiser (capturable) and rates (tensors).
"""
import contextlib

import torch


def adamw(params, rate, betas, decay):
    """AdamW whose rate set_rate() changes in place on a GPU, so that a recorded step sees it."""
    cuda = params[0].is_cuda
    rate = torch.tensor(rate, device=params[0].device) if cuda else rate
    return torch.optim.AdamW(params, rate, betas=betas, weight_decay=decay, fused=True, capturable=cuda)


def set_rate(optimiser, rate):
    for group in optimiser.param_groups:
        if torch.is_tensor(group["lr"]):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def forget(optimiser):
    """Fresh moments in the same memory."""
    for state in optimiser.state.values():
        for value in state.values():
            value.zero_()


class Replay:
    """step(*tensors) -> loss; call it with the tensors of a batch.  The loss is that of the newest step with these shapes.

    `quiet` is held while a graph is recorded: nobody else may use the GPU then."""

    def __init__(self, step, quiet=contextlib.nullcontext()):
        self.step, self.quiet, self.graphs, self.pool, self.side = step, quiet, {}, None, None

    def prepare(self, batches):
        """Records what these need.  Set the rates to 0 before and forget() the moments after: nothing is learned then."""
        for batch in batches:
            if batch[0].is_cuda:
                self(*batch)

    def __call__(self, *batch):
        if not batch[0].is_cuda:
            return self.step(*batch)
        key = tuple(x.shape for x in batch)
        if key not in self.graphs:
            with self.quiet:
                self.graphs[key] = self._record(batch)
        graph, held, loss = self.graphs[key]
        for mine, given in zip(held, batch):
            mine.copy_(given)
        graph.replay()
        return loss

    def _record(self, batch):
        """Once plainly (the compiler and the libraries choose their code, moments appear), then recorded.

        All graphs share one stream and one pool of memory: no two run at once."""
        held = [x.clone() for x in batch]
        self.pool, self.side = self.pool or torch.cuda.graph_pool_handle(), self.side or torch.cuda.Stream()
        graph, loss = torch.cuda.CUDAGraph(), torch.zeros((), device=batch[0].device)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.step(*held)
        torch.cuda.current_stream().wait_stream(self.side)
        with torch.cuda.graph(graph, pool=self.pool, stream=self.side, capture_error_mode="thread_local"):
            loss.copy_(self.step(*held))
        return graph, held, loss
