"""gdn from Python: ctypes over libgdn, NumPy arrays in and out. The seed of a package.

    import gdn
    context = gdn.Context()                          # finds libgdn.so through GDN_LIBRARY, else the loader's path
    o, state = context.forward("kda", q, k, v, g=g, beta=beta)

Token arrays are [B, T, heads, channels], float32 or float16, or uint16 read as bfloat16; views are passed as they are, without copies.
"""
import ctypes
import os

import numpy as np

MAX_DIMS = 6
VARIANTS = ("delta_rule", "gla", "gdn", "kda", "gdn2", "fg2", "fg2_plus")
DECAYS = ("log", "linear", "softplus", "lower_bound")
GATES = ("value", "logit")
HEAD_MAPS = ("divide", "modulo")
STATE_LAYOUTS = ("k_first", "v_first")
DTYPES = {"float32": 1, "uint16": 2, "float16": 3, "int32": 4, "int64": 5}  # uint16 holds bfloat16 bits
TENSORS = ("q", "k", "v", "g", "beta", "b", "w", "beta_k", "beta_v", "A_log", "dt_bias", "initial_state", "initial_slots", "cu_seqlens",
           "o", "final_state", "final_slots")


class Error(Exception):
    """A call that the library refused. `status` is its code; the text names the argument, what was expected and what was given."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("ndim", ctypes.c_int32),
                ("shape", ctypes.c_int64 * MAX_DIMS), ("strides", ctypes.c_int64 * MAX_DIMS)]


class Args(ctypes.Structure):
    _fields_ = ([("struct_size", ctypes.c_size_t)]
                + [(name, ctypes.c_int) for name in ("variant", "decay", "gate", "head_map", "state_layout", "state_dtype", "precision")]
                + [("allow_neg_eigval", ctypes.c_int32), ("qk_l2norm", ctypes.c_int32), ("scale", ctypes.c_float), ("lower_bound", ctypes.c_float)]
                + [(name, Tensor) for name in TENSORS]
                + [("snapshots", Tensor), ("snapshot_kind", ctypes.c_int), ("snapshot_interval", ctypes.c_int64)]
                + [("initial_pending", Tensor), ("final_pending", Tensor)])


class ContextOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("num_threads", ctypes.c_int32), ("flags", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p) for name in ("parallel_for", "parallel_for_user", "alloc", "free", "alloc_user", "log", "log_user")] + [
        ("target", ctypes.c_char_p), ("tuned_dir", ctypes.c_char_p)]


CHECK_VALUES = 1


def load(path=None):
    """The library with its functions' types declared."""
    lib = ctypes.CDLL(path or os.environ.get("GDN_LIBRARY", "libgdn.so.0"))
    args = ctypes.POINTER(Args)
    handle = ctypes.c_void_p
    signatures = {
        "gdn_args_init": (None, [args]),
        "gdn_context_options_init": (None, [ctypes.POINTER(ContextOptions)]),
        "gdn_context_create": (ctypes.c_int, [ctypes.POINTER(ContextOptions), ctypes.POINTER(handle)]),
        "gdn_context_destroy": (None, [handle]),
        "gdn_set_target": (ctypes.c_int, [handle, ctypes.c_char_p]),
        "gdn_workspace_size": (ctypes.c_int, [handle, args, ctypes.POINTER(ctypes.c_size_t)]),
        "gdn_supports": (ctypes.c_int, [handle, args]),
        "gdn_forward": (ctypes.c_int, [handle, args, ctypes.c_void_p, ctypes.c_size_t]),
        "gdn_step": (ctypes.c_int, [handle, args, ctypes.c_void_p, ctypes.c_size_t]),
        "gdn_explain": (ctypes.c_int, [handle, args, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]),
        "gdn_version": (ctypes.c_char_p, []),
        "gdn_status_string": (ctypes.c_char_p, [ctypes.c_int]),
        "gdn_last_error": (ctypes.c_char_p, []),
    }
    for name, (result, parameters) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, parameters
    return lib


def tensor(array):
    """A view of the array's own memory; None is an absent tensor."""
    t = Tensor()
    if array is None:
        return t
    if array.dtype.name not in DTYPES:
        raise TypeError(f"dtype {array.dtype}: one of {', '.join(DTYPES)} is needed")
    if array.ndim > MAX_DIMS:
        raise ValueError(f"{array.ndim} dimensions: at most {MAX_DIMS}")
    t.data, t.dtype, t.ndim = array.ctypes.data, DTYPES[array.dtype.name], array.ndim
    for i in range(array.ndim):
        if array.strides[i] % array.itemsize:
            raise ValueError("strides must be whole elements")
        t.shape[i], t.strides[i] = array.shape[i], array.strides[i] // array.itemsize
    return t


class Context:
    def __init__(self, library=None, num_threads=0, target=None, check_values=False):
        self._handle = ctypes.c_void_p()
        self._lib = library if isinstance(library, ctypes.CDLL) else load(library)
        options = ContextOptions()
        self._lib.gdn_context_options_init(options)
        options.num_threads = num_threads
        options.flags = CHECK_VALUES if check_values else 0
        options.target = target.encode() if target else None
        self._check(self._lib.gdn_context_create(options, self._handle))

    def close(self):
        if self._handle:
            self._lib.gdn_context_destroy(self._handle)
            self._handle = ctypes.c_void_p()

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _check(self, status):
        if status:
            raise Error(status, self._lib.gdn_last_error().decode())

    def args(self, variant, decay="log", gate="value", head_map="divide", state_layout="k_first", allow_neg_eigval=False, qk_l2norm=False,
             scale=0.0, lower_bound=0.0, **tensors):
        """The library's argument struct. Arrays must outlive it."""
        args = Args()
        self._lib.gdn_args_init(args)
        if args.struct_size != ctypes.sizeof(Args):
            raise RuntimeError(f"gdn_args has {args.struct_size} bytes in the library, {ctypes.sizeof(Args)} here")
        args.variant, args.decay, args.gate = VARIANTS.index(variant), DECAYS.index(decay), GATES.index(gate)
        args.head_map, args.state_layout = HEAD_MAPS.index(head_map), STATE_LAYOUTS.index(state_layout)
        args.allow_neg_eigval, args.qk_l2norm, args.scale, args.lower_bound = allow_neg_eigval, qk_l2norm, scale, lower_bound
        for name, array in tensors.items():
            if name not in TENSORS:
                raise TypeError(f"no tensor is called {name}")
            setattr(args, name, tensor(array))
        return args

    def forward(self, variant, q, k, v, o=None, final_state=None, **more):
        """(o, final_state), allocated here unless given. `more`: the other tensors and options of args()."""
        o = np.empty(v.shape, v.dtype) if o is None else o
        if final_state is None:
            sequences = q.shape[0] if more.get("cu_seqlens") is None else len(more["cu_seqlens"]) - 1
            k_v = (q.shape[3], v.shape[3])
            final_state = np.empty((sequences, v.shape[2], *(k_v if more.get("state_layout", "k_first") == "k_first" else k_v[::-1])), np.float32)
        args = self.args(variant, q=q, k=k, v=v, o=o, final_state=final_state, **more)
        self._check(self._lib.gdn_forward(self._handle, args, None, 0))
        return o, final_state

    def step(self, variant, q, k, v, state, o=None, **more):
        """One token per sequence, [B, 1, heads, channels]; the state is updated in place. Returns o."""
        o = np.empty(v.shape, v.dtype) if o is None else o
        args = self.args(variant, q=q, k=k, v=v, o=o, initial_state=state, final_state=state, **more)
        self._check(self._lib.gdn_step(self._handle, args, None, 0))
        return o

    def explain(self, args):
        """JSON text: which kernels these arguments run on, and why."""
        needed = ctypes.c_size_t()
        self._check(self._lib.gdn_explain(self._handle, args, None, 0, needed))
        text = ctypes.create_string_buffer(needed.value)
        self._check(self._lib.gdn_explain(self._handle, args, text, needed.value, None))
        return text.value.decode()
