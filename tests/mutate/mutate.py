#!/usr/bin/env python3
"""Faults put into the generators on purpose: shows that the tests see each of them.

    tests/mutate/mutate.py [--keep FOLDER] [--jobs N] [NAME...]

Works on a copy of the tree whose kernel list is cut down to one target and few sizes. Builds it once and checks that the tests pass.
Then, for each fault: patches one line, rebuilds what depends on it, runs the tests of tests/kernels and tests/property until one fails,
and restores the line. A fault that no test sees survives, and the exit status is 1. Takes about half an hour on two busy cores; not part
of CI. Needs what ./dev sets up (.venv).
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = "x86_avx2"
SIZES = {"128x128", "anyx16", "any"}

# name, file, line as it is, line as it should not be
FAULTS = [
    ("step: error before decay", "generators/core_step.cpp",
     "st.erase(c, h) = strict_float(decay * (", "st.erase(c, h) = strict_float(("),
    ("pending: the write of the token before is lost", "generators/core_pending.cpp",
     "strict_float(alpha_0(c) * s0(j, c, p)) + a_0(c) * r_0(j, p);", "strict_float(alpha_0(c) * s0(j, c, p));"),
    ("chunk: T without the nearest earlier token", "generators/core_chunk.cpp",
     "st.rsub.where(st.rsub.x < st.rsub.y);", "st.rsub.where(st.rsub.x + 1 < st.rsub.y);"),
    ("chunk: A_qk without its diagonal", "generators/core_chunk.cpp",
     "st.ro.where(st.ro <= r);", "st.ro.where(st.ro < r);"),
    ("chunk: gamma missing in the state read", "generators/core_chunk.cpp",
     "st.read(c, m) = strict_float(gamma(c, m % C) * select(", "st.read(c, m) = strict_float(select("),
    ("chunk: writes not decayed to the end", "generators/core_chunk.cpp",
     "st.write(c, s) = strict_float(a(c, s) * tail(c, s));", "st.write(c, s) = a(c, s);"),
    ("chunk: last decay of the state missing", "generators/core_chunk.cpp",
     "st.last(c) = gamma(c, C - 1);", "st.last(c) = gamma(c, C - 2);"),
    ("chunk: last scalar decay of the state missing", "generators/core_chunk.cpp",
     "st.last() = gamma(0, C - 1);", "st.last() = gamma(0, C - 2);"),
    ("decay tree: wrong token at a boundary", "generators/stages/decay.h",
     "clamp((r / len) * len - 1, 0, tokens - 1)", "clamp((r / len) * len, 0, tokens - 1)"),
    ("decay table: neighbours cut off", "generators/stages/decay.h",
     "= select(s < rr, strict_float(", "= select(s + 1 < rr, strict_float("),
    ("fg2_plus: sqrt of beta_k dropped", "generators/variants/fg2_plus.cpp",
     "in.b.root(c) * in.k(c)", "in.b.value(c) * in.k(c)"),
    ("fg2_plus: sqrt of beta_v dropped", "generators/variants/fg2_plus.cpp",
     "in.w.root(d) * in.v(d)", "in.w.value(d) * in.v(d)"),
    ("kda: beta not applied to u", "generators/variants/kda.cpp",
     "in.b.value(d) * in.v(d)", "in.v(d)"),
    ("stage: scale not applied", "generators/stage.cpp",
     "(norm ? st.norms[0].inverse(t) : Expr(scale))", "(norm ? st.norms[0].inverse(t) : Expr(1.0f))"),
    ("stage: allow_neg_eigval ignored", "generators/stage.cpp",
     "logits ? gate_scale * sigmoid(x) : x", "logits ? sigmoid(x) : x"),
    ("l2norm: another epsilon", "generators/stages/l2norm.h",
     "+ 1e-6f)", "+ 1e-5f)"),
    ("short conv: taps in reverse order", "generators/short_conv.cpp",
     "const Expr product = w(c, tap) *", "const Expr product = w(c, W - 1 - tap) *"),
    ("short conv step: old rows do not move", "generators/short_conv.cpp",
     "select(i < taps - 2, h0(c, min(i + 1, taps - 2)), x(c));", "select(i < taps - 2, h0(c, min(i, taps - 2)), x(c));"),
    ("short conv: bias dropped", "generators/short_conv.cpp",
     "Expr sum = bias(c);", "Expr sum = 0.0f;"),
    ("short conv: one tap too many at a run-time width", "generators/short_conv.cpp",
     "select(i < W, value, 0.0f)", "select(i <= W, value, 0.0f)"),
    ("gated norm: sum instead of mean", "generators/gated_norm.cpp",
     "st.squares.total() * (1.0f / cast<float>(V))", "st.squares.total()"),
    ("gated norm: last channels left out of the mean", "generators/gated_norm.cpp",
     "(V + lanes - 1) / lanes, lanes);", "V / lanes, lanes);"),
    ("gated norm: silu gate taken for a sigmoid", "generators/gated_norm.cpp",
     "select(st.silu, silu(logit),", "select(st.silu, sigmoid(logit),"),
    ("gated norm: weight dropped", "generators/gated_norm.cpp",
     "detail::strict_mul(o(d, t), st.inverse(t)) * weight(d)", "detail::strict_mul(o(d, t), st.inverse(t))"),
    ("silu: closed too early", "generators/common/math.h",
     "const Expr open = at_least(x, detail::kClosed);", "const Expr open = at_least(x, -80.0f);"),
    ("tail of a chunk padded with alpha = 0", "runtime/src/calls.cpp",
     "left * alpha_row_, 1.0f);", "left * alpha_row_, 0.0f);"),
]


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)


def copy_tree(to):
    names = run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def cut_kernel_list(path):
    text = json.loads(path.read_text())
    for kernel in text["kernels"]:
        kernel["targets"] = [target for target in kernel["targets"] if target == TARGET]
        sizes = kernel["params"].get("size")
        if sizes:
            kernel["params"]["size"] = [size for size in sizes if size in SIZES] or sizes[-1:]
    text["kernels"] = [kernel for kernel in text["kernels"] if kernel["targets"]]
    path.write_text(json.dumps(text, indent=1))


def build(folder, jobs):
    return run(["ninja", f"-j{jobs}", "-C", folder, "gdn.test.kernels", "gdn.test.property"])


def first_failure(folder):
    """Name of the first failing test, or None."""
    environment = dict(os.environ, GDN_TEST_BUDGET="small", GDN_TARGET=TARGET)
    for program, only in (("gdn.test.kernels", "*Operator*:*GChecks*:*StateHandOver*:*ShortConv*:*GatedNorm*:*Mixer*"), ("gdn.test.property", "*")):
        command = [folder / "bin" / program, "--gtest_brief=1", "--gtest_fail_fast", f"--gtest_filter={only}"]
        result = run(command, env=environment, timeout=1800)
        if result.returncode:
            failed = [line for line in result.stdout.splitlines() if line.startswith("[  FAILED  ]")]
            return failed[0][12:].split(",")[0].strip() if failed else f"{program} ended with {result.returncode}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="faults whose name contains one of these; default: all")
    parser.add_argument("--keep", metavar="FOLDER", help="work there and leave it")
    parser.add_argument("--jobs", default=os.cpu_count(), type=int)
    arguments = parser.parse_args()
    faults = [fault for fault in FAULTS if not arguments.names or any(name in fault[0] for name in arguments.names)]
    os.environ["PATH"] = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    os.environ["VIRTUAL_ENV"] = str(ROOT / ".venv")

    work = pathlib.Path(arguments.keep or tempfile.mkdtemp(prefix="gdn-mutate-"))
    tree, folder = work / "tree", work / "build"
    try:
        tree.mkdir(parents=True, exist_ok=True)
        copy_tree(tree)
        cut_kernel_list(tree / "generators" / "kernels.json")
        stale = [name for name, file, line, _ in faults if (tree / file).read_text().count(line) != 1]
        if stale:
            sys.exit("these faults no longer match exactly one place: " + "; ".join(stale))
        configured = run(["cmake", "-S", tree, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DGDN_TARGETS={TARGET}",
                          "-DGDN_BUILD_CLI=OFF", "-DGDN_TEST_FOLDERS=kernels;property"])
        if configured.returncode:
            sys.exit(configured.stdout)
        built = build(folder, arguments.jobs)
        if built.returncode:
            sys.exit(built.stdout[-4000:])
        failure = first_failure(folder)
        if failure:
            sys.exit(f"the tests fail without any fault: {failure}")
        print("the tests pass without a fault", flush=True)

        survivors = 0
        for name, file, line, wrong in faults:
            start, path = time.monotonic(), tree / file
            right = path.read_text()
            path.write_text(right.replace(line, wrong))
            built = build(folder, arguments.jobs)
            if built.returncode:
                verdict = "does not compile: the fault needs another wording"
                survivors += 1
            else:
                failure = first_failure(folder)
                verdict = f"caught by {failure}" if failure else "SURVIVED"
                survivors += not failure
            path.write_text(right)
            print(f"{name}: {verdict} ({time.monotonic() - start:.0f} s)", flush=True)
        sys.exit(1 if survivors else 0)
    finally:
        if not arguments.keep:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
