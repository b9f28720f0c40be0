"""replay.py - a training step recorded as a CUDA graph, once per set of shapes, and replayed.

A step of this small model is a thousand short kernels.  Launched one by one they take the CPU 35 ms, whatever the
batch, for what the GPU does in 5 (16,384 tokens); replayed they take those 5, so small steps cost what they should.
What a step reads must stay where it is: weights, moments of the optimiser (capturable) and rates (tensors).
"""
import contextlib
import time

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
    """step(*tensors) -> loss tensor; call it with the tensors of a batch.

    `quiet` is held while a graph is recorded: nobody else may use the GPU then.  `spent` is how long that took, in seconds,
    the compiler's work included."""

    def __init__(self, step, quiet=contextlib.nullcontext()):
        self.step, self.quiet, self.graphs, self.pool, self.spent = step, quiet, {}, None, 0.0

    def prepare(self, batches):
        """Records what these need; set the rates to 0 before, so that nothing is learned."""
        for batch in batches:
            if batch[0].is_cuda:
                self(*batch)

    def __call__(self, *batch):
        if not batch[0].is_cuda:
            return self.step(*batch)
        key = tuple(x.shape for x in batch)
        if key not in self.graphs:
            began = time.time()
            with self.quiet:
                self.graphs[key] = self._record(batch)
            self.spent += time.time() - began
        graph, held, loss = self.graphs[key]
        for mine, given in zip(held, batch):
            mine.copy_(given)
        graph.replay()
        return loss

    def _record(self, batch):
        """Once plainly (the compiler and the libraries choose their code, moments appear), then recorded."""
        held = [x.clone() for x in batch]
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        graph, loss = torch.cuda.CUDAGraph(), torch.zeros((), device=batch[0].device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step(*held)
            torch.cuda.synchronize()
            graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
            loss.copy_(self.step(*held))
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(side)
        return graph, held, loss
