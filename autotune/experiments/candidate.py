"""candidate.py GENERATOR MEASURE OBJECT [CONFIG]: verifies a shared object with candidate_argv, made as core_chunk_channel_tied_128x128 for x86_avx512,
and times it against the library's own kernel. CONFIG (`fetch_lines:0`) is where it was made with another configuration than the default. Ratios are
of CPU time, which other work on the machine disturbs least."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

SHAPES = ["B=1,T=256,H=4,K=128,V=128", "B=1,T=1024,H=16,K=128,V=128"]
KERNEL = {"kernel": "core_chunk_channel_tied_128x128", "family": "core_chunk", "target": "x86_avx512",
          "params": {"core": "channel_tied", "size": "128x128"}, "shapes": SHAPES,
          "runtime": ["time_block", "task_grain", "short_steps", "tail_steps", "v_slice_min", "fetch_ahead"]}


class Worker:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"status": "the worker ended"}')
        if answer["status"] != "ok":
            sys.exit(f"{request['op']}: {answer}")
        return answer

    def cpu_ns(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0])

    def sample(self, shape):
        before = self.cpu_ns()
        calls = self.ask(op="sample", shape=shape, seconds=0.05)["calls"]
        return (self.cpu_ns() - before) / calls


generator, measure, candidate = sys.argv[1:4]
root = pathlib.Path(__file__).resolve().parents[2]
kernels = json.loads(subprocess.check_output([generator, "--list", "--json", "--kernels", root / "generators/kernels.json"]))["kernels"]
default = next(k["config"] for k in kernels if k["name"] == KERNEL["kernel"] and k["target"] == KERNEL["target"])
config = dict(default)
for entry in sys.argv[4].split(",") if len(sys.argv) > 4 else []:
    name, value = entry.split(":")
    config[name] = int(value)

with tempfile.TemporaryDirectory() as folder:
    workers = {"default": Worker(measure), "candidate": Worker(measure)}
    workers["default"].ask(op="prepare", folder=folder, **KERNEL)
    for name, path, values in (("default", "", default), ("candidate", str(pathlib.Path(candidate).resolve()), config)):
        workers[name].ask(op="load", path=path, config=values, cpus=[0], folder=folder, **KERNEL)
        print(f"{name}: relative RMS error {workers[name].ask(op='verify')['error']:.1e}")
    for i, shape in enumerate(SHAPES):
        ratios = []
        for _ in range(13):  # the first round warms up
            ns = {name: worker.sample(i) for name, worker in workers.items()}
            ratios.append(ns["candidate"] / ns["default"])
        print(f"{shape}: {statistics.median(ratios[1:]):.2f} times the default's time ({min(ratios[1:]):.2f} to {max(ratios[1:]):.2f})")
    for worker in workers.values():
        worker.process.stdin.close()
        worker.process.wait()
