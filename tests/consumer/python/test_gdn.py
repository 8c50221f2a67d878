"""test_gdn.py LIBGDN_SO: the ctypes module against a NumPy recurrence."""
import json
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: this Python has no NumPy")
    sys.exit(77)  # what CTest knows as skipped

import gdn

LIBRARY = sys.argv.pop(1)


def recurrence(q, k, v, alpha, a, e, u, state):
    """S = (I - a e^T) Diag(alpha) S + a u^T, o = K^-0.5 S^T q, per batch and head, in double."""
    B, T, H, K = q.shape
    o = np.empty(v.shape)
    S = np.array(state, np.float64)
    for t in range(T):
        S = alpha[:, t, :, :, None] * S
        S = S + a[:, t, :, :, None] * (u[:, t] - np.einsum("bhk,bhkv->bhv", e[:, t], S))[:, :, None, :]
        o[:, t] = K ** -0.5 * np.einsum("bhk,bhkv->bhv", q[:, t], S)
    return o, S


def relative(got, want):
    return np.sqrt(np.mean((got - want) ** 2) / np.mean(want ** 2))


class Consumer(unittest.TestCase):
    def setUp(self):
        random = np.random.default_rng(1)
        self.B, self.T, self.H, self.K, self.V = B, T, H, K, V = 2, 21, 3, 32, 48
        self.q, self.k = (random.standard_normal((B, T, H, K), np.float32) for _ in range(2))
        self.k *= K ** -0.5
        self.v = random.standard_normal((B, T, H, V), np.float32)
        self.g = -random.random((B, T, H, K), np.float32)
        self.beta = random.random((B, T, H), np.float32)
        self.b = random.random((B, T, H, K), np.float32)
        self.w = random.random((B, T, H, V), np.float32)
        self.state = random.standard_normal((B, H, K, V), np.float32)
        self.context = gdn.Context(LIBRARY, check_values=True)
        self.addCleanup(self.context.close)

    def test_kda(self):
        o, state = self.context.forward("kda", self.q, self.k, self.v, g=self.g, beta=self.beta, initial_state=self.state)
        beta = self.beta[..., None]
        want = recurrence(self.q, self.k, self.v, np.exp(self.g), self.k, beta * self.k, beta * self.v, self.state)
        self.assertLess(relative(o, want[0]), 1e-5)
        self.assertLess(relative(state, want[1]), 1e-5)

    def test_gdn2_steps_equal_prefill(self):
        gates = {"g": self.g, "b": self.b, "w": self.w}
        o, state = self.context.forward("gdn2", self.q, self.k, self.v, initial_state=self.state, **gates)
        want = recurrence(self.q, self.k, self.v, np.exp(self.g), self.k, self.b * self.k, self.w * self.v, self.state)
        self.assertLess(relative(o, want[0]), 1e-5)
        stepped = self.state.copy()
        for t in range(self.T):  # slices are views: nothing is copied on the way in
            one = slice(t, t + 1)
            o_t = self.context.step("gdn2", self.q[:, one], self.k[:, one], self.v[:, one], stepped, **{n: x[:, one] for n, x in gates.items()})
            self.assertLess(relative(o_t, want[0][:, one]), 1e-5)
        self.assertLess(relative(stepped, state), 1e-5)

    def test_strided_views_and_v_first(self):
        qkv = np.concatenate([self.q, self.k, self.v], axis=3)
        q, k, v = np.split(qkv, [self.K, 2 * self.K], axis=3)
        self.assertFalse(q.flags.c_contiguous)
        plain = self.context.forward("kda", self.q, self.k, self.v, g=self.g, beta=self.beta)
        views = self.context.forward("kda", q, k, v, o=np.empty_like(self.v), g=self.g, beta=self.beta, state_layout="v_first")
        np.testing.assert_array_equal(plain[0], views[0])
        np.testing.assert_allclose(plain[1], views[1].swapaxes(2, 3), rtol=0, atol=1e-6)

    def test_float16(self):
        q, k, v = (x.astype(np.float16) for x in (self.q, self.k, self.v))
        o, _ = self.context.forward("kda", q, k, v, g=self.g, beta=self.beta)
        beta = self.beta[..., None]
        k, v = k.astype(np.float64), v.astype(np.float64)
        want = recurrence(q.astype(np.float64), k, v, np.exp(self.g), k, beta * k, beta * v, np.zeros(self.state.shape))
        self.assertLess(relative(o.astype(np.float64), want[0]), 5e-3)

    def test_refusals_name_the_argument(self):
        with self.assertRaises(gdn.Error) as caught:
            self.context.forward("kda", self.q, self.k[:, :, :, 1:], self.v, g=self.g, beta=self.beta)
        self.assertEqual(caught.exception.status, 1)
        self.assertRegex(str(caught.exception), r"\bk\b")
        with self.assertRaises(gdn.Error) as caught:
            self.context.forward("kda", self.q, self.k, self.v, g=-self.g, beta=self.beta)
        self.assertEqual(caught.exception.status, 5)

    def test_explain(self):
        args = self.context.args("kda", q=self.q, k=self.k, v=self.v, g=self.g, beta=self.beta, o=self.v.copy())
        self.assertIn("core_chunk", json.dumps(json.loads(self.context.explain(args))))


if __name__ == "__main__":
    unittest.main()
