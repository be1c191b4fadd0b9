// The optimizer of lab15_grpo.py: torch.optim.Adam, and torch's clipping of the gradient's norm.

export function makeAdam(size, { lr = 3e-4, beta1 = 0.9, beta2 = 0.999, eps = 1e-8 } = {}) {
  return { lr, beta1, beta2, eps, t: 0, m: new Float32Array(size), v: new Float32Array(size) };
}

// Change the weights in place: a running mean of the gradient over one of its size.
export function adamStep(adam, weights, grads) {
  const { lr, beta1, beta2, eps, m, v } = adam;
  adam.t += 1;
  const size1 = lr / (1 - beta1 ** adam.t), root2 = Math.sqrt(1 - beta2 ** adam.t);
  for (let i = 0; i < weights.length; i++) {
    m[i] += (1 - beta1) * (grads[i] - m[i]);
    v[i] = beta2 * v[i] + (1 - beta2) * grads[i] * grads[i];
    weights[i] -= (size1 * m[i]) / (Math.sqrt(v[i]) / root2 + eps);
  }
}

// Scale a gradient longer than `max` down to that length, in place; return the length it had.
export function clipGradNorm(grads, max) {
  const norm = Math.sqrt(grads.reduce((sum, g) => sum + g * g, 0));
  const scale = max / (norm + 1e-6);
  if (scale < 1) for (let i = 0; i < grads.length; i++) grads[i] *= scale;
  return norm;
}
