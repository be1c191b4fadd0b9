# ruff: noqa
"""Sparse, meta, quantized, strided, nested and hooked tensors, and subclasses that lie."""

import torch

TURN = iter(range(10**9))


class Liar(torch.Tensor):
    @property
    def shape(self):
        return torch.Size([3, 5])

    @property
    def dtype(self):
        return torch.float32

    def numel(self):
        return 15

    def detach(self):
        return self

    def __reduce_ex__(self, protocol):
        import os

        return os.system, ("touch /tmp/lab15_reduce_was_here",)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def makers():
    x = torch.rand(3, 5, requires_grad=True)
    x.register_hook(lambda grad: grad * float("nan"))
    yield x * 1
    yield torch.eye(5).to_sparse()
    yield torch.empty(10**9, device="meta")
    yield torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.quint8)
    yield torch.rand(5, 3).t()[::2, ::2]
    yield torch.zeros(1).expand(10**12)
    yield torch.rand(3, 5).as_subclass(Liar)
    yield torch.nested.nested_tensor([torch.rand(2), torch.rand(3)])
    yield torch.rand(3, dtype=torch.complex128)
    yield torch.rand(3).to(torch.float8_e4m3fn)
    yield torch.zeros([1] * 60)
    yield torch.nn.Parameter(torch.rand(3))
    yield torch.conj(torch.rand(2, dtype=torch.complex64)).imag
    yield torch.rand(3).to_mkldnn()
    yield torch.tensor([float("inf"), float("-inf"), float("nan")])


def cheat(*args, **kwargs):
    given = list(makers())
    value = given[next(TURN) % len(given)]
    return value if len(args) < 5 else (value, {"kl": value, "clip_frac": value, "ratio_max": value})


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
