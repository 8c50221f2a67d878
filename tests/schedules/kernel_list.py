"""kernel_list.py GENERATOR SOURCE_DIR KERNELS_TXT GDN_TUNED=.. TARGET...: the build (runtime/cmake/kernels.cmake) and the generator (--list) expand
generators/kernels.json and schedules/tuned each for itself; both must name the same objects with the same arguments."""
import json
import subprocess
import sys

generator, source, built, tuned, *targets = sys.argv[1:]
command = [generator, "--list", "--json", "--kernels", source + "/generators/kernels.json", "--tuned", source + "/schedules/tuned", "--select", tuned.removeprefix("GDN_TUNED=")]
kernels = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["kernels"]
# Configurations that differ in run-time parameters only are one object.
listed = [line for k in kernels if k["target"] in targets for line in dict.fromkeys(f"{c['symbol']} {c['arguments']}" for c in k["configurations"])]
with open(built) as file:
    built = file.read().splitlines()

failed = False
for what, lines in (("--list", listed), ("the build", built)):
    if len(lines) != len(set(lines)):
        failed = True
        print(f"{what} names a kernel twice")
for what, only in (("--list", set(listed) - set(built)), ("the build", set(built) - set(listed))):
    for line in sorted(only):
        failed = True
        print(f"only in {what}: {line}")
if not built:
    failed = True
    print("no kernels")
print(f"{len(built)} kernels in the build, {len(listed)} in --list")
sys.exit(failed)
