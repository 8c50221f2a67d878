"""tuned_selections.py GENERATOR CMAKE SOURCE_DIR TARGET...: which configurations "", "all" and a device's key leave of a tuned file, by the build
(runtime/cmake/kernels.cmake) and by the generator, against what the file's own words say; and files that must be refused."""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

generator, cmake, source = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
kernels_json = source / "generators/kernels.json"
failures = []


def listed(*more):
    run = subprocess.run([generator, "--list", "--json", "--kernels", kernels_json, *more], capture_output=True, text=True)
    return run.returncode, run.stderr, json.loads(run.stdout)["kernels"] if run.returncode == 0 else []


kernel = next(k for k in listed()[2] if k["family"] == "core_step" and k["target"] in sys.argv[4:])
target, name = kernel["target"], kernel["name"]
parameters = {p["name"]: p for p in kernel["space"]["parameters"]}
other = {n: [v for v in p["values"] if v != p["default"]] for n, p in parameters.items()}
one, two = {"unroll_k": other["unroll_k"][0]}, {"unroll_k": other["unroll_k"][1]}
run_time = one | {"task_grain": other["task_grain"][0]}  # the object of `one`
configs = [{}, one, run_time, two]  # the last is not in the cover


def use(level, key, config, cover):
    return {"level": level, "key": key, "class": "decode", "config": config, "cover": cover}


good = {"schema": 2, "target": target, "kernels": {name: {
    "worst": 1.5,
    "configs": [{"config": c, "cover": i < 3} for i, c in enumerate(configs)],
    "use": [use("device", "acme-a", 3, 1), use("device", "acme-b", 2, 2), use("architecture", "zen", 1, 1), use("vendor", "acme", 1, 1), use("default", "", 1, 1)]}}}
expected = {"": [0, 1, 2], "all": [0, 1, 2, 3], "acme-a": [0, 1, 3], "acme-b": [0, 1, 2]}  # the space's default is kept for what no use speaks of

with tempfile.TemporaryDirectory() as folder:
    tuned = pathlib.Path(folder) / "schedules/tuned"
    file = tuned / target / "default.json"
    file.parent.mkdir(parents=True)
    script = pathlib.Path(folder) / "read.cmake"
    script.write_text(f"""
set(PROJECT_SOURCE_DIR "{folder}")
set(gdn_runtime_parameters {" ".join(n for n, p in parameters.items() if p["kind"] == "runtime")})
include("{source}/runtime/cmake/kernels.cmake")
gdn_check_tuned_key()
gdn_read_tuned({target})
message(STATUS "tuned=${{tuned_{target}_{name}}}")
""")

    def by_cmake(select):
        run = subprocess.run([cmake, f"-DGDN_TUNED={select}", "-P", script], capture_output=True, text=True)
        text = run.stdout.partition("tuned=")[2].strip()
        return run.returncode, run.stderr, text.split(";") if text else []

    file.write_text(json.dumps(good))
    for select, numbers in expected.items():
        config = {n: p["default"] for n, p in parameters.items()}
        want = [config | configs[i] for i in numbers]
        _, error, kernels = listed("--tuned", tuned, *(["--select", select] if select else []))
        got = [c["config"] for k in kernels if (k["name"], k["target"]) == (name, target) for c in k["configurations"]]
        if got != want:
            failures.append(f"--select '{select}' leaves {got}, expected {want}: {error}")
        compiled = [f"@unroll_k:{configs[i]['unroll_k']}" if configs[i] else "@" for i in numbers]
        _, error, got = by_cmake(select)
        if got != list(dict.fromkeys(compiled)):
            failures.append(f"GDN_TUNED='{select}' builds {got}, expected {compiled}: {error}")

    def refused(words, change, cmake_too=False, select=""):
        bad = copy.deepcopy(good)
        change(bad, bad["kernels"][name])
        file.write_text(json.dumps(bad))
        code, error, _ = listed("--tuned", tuned, *(["--select", select] if select else []))
        if code == 0 or words not in error:
            failures.append(f"expected '{words}', the generator said: {code} {error}")
        if cmake_too and by_cmake(select)[0] == 0:
            failures.append(f"expected '{words}', the build took it")

    refused("schema", lambda f, k: f.update(schema=3), True)
    refused("no list", lambda f, k: k.update(configs={}), True)
    refused("is no kernel of the list", lambda f, k: f["kernels"].update(nobody=k))
    refused("the same as configuration 1", lambda f, k: k["configs"][3].update(config=one))
    refused("at its default", lambda f, k: k["configs"][3].update(config={"unroll_k": parameters["unroll_k"]["default"]}))
    refused("unroll_k", lambda f, k: k["configs"][3].update(config={"unroll_k": 77}))
    refused("is no index of a configuration", lambda f, k: k["use"][0].update(config=4))
    refused("of the cover", lambda f, k: k["use"][0].update(cover=3))
    refused("no length class", lambda f, k: k["use"][0].update({"class": "long"}))
    refused("expected level", lambda f, k: k["use"][0].update(level="family"))
    refused("no tuned data is of this device", lambda f, k: None, True, "acme-c")
    file.write_text("{")
    if listed("--tuned", tuned)[0] == 0 or by_cmake("")[0] == 0:
        failures.append("half a file was taken")

print("\n".join(failures) or f"{len(expected)} selections of {name} for {target}, 12 refusals")
sys.exit(bool(failures))
