#!/usr/bin/env python3
"""Compiles and runs the C and C++ examples of README.md against an installed library.

readme_examples.py README PKG_CONFIG_DIR CC CXX WORK_DIR"""
import os
import re
import subprocess
import sys

readme, pkg_config_dir, cc, cxx, work = sys.argv[1:]
os.makedirs(work, exist_ok=True)
text = open(readme, encoding="utf-8").read()
environment = dict(os.environ, PKG_CONFIG_PATH=pkg_config_dir)


def flags(package):
    return subprocess.run(["pkg-config", "--cflags", "--libs", package], env=environment, check=True, capture_output=True, text=True).stdout.split()


libraries = subprocess.run(["pkg-config", "--variable=libdir", "gdn"], env=environment, check=True, capture_output=True, text=True).stdout.strip()
for language, compiler, standard in (("c", cc, "-std=c99"), ("cpp", cxx, "-std=c++17")):
    blocks = re.findall(r"```%s\n(.*?)```" % language, text, re.S)
    if not blocks:
        sys.exit(f"README has no {language} example")
    for i, block in enumerate(blocks):
        package = "gdn-layer" if "gdn/layer.hpp" in block else "gdn"
        if package == "gdn-layer" and not os.path.exists(os.path.join(pkg_config_dir, "gdn-layer.pc")):
            print("skipped: no layer in this installation")
            continue
        source = os.path.join(work, f"example{i}.{language}")
        program = os.path.join(work, f"example_{language}{i}")
        with open(source, "w", encoding="utf-8") as out:
            out.write(block)
        subprocess.run([compiler, standard, "-Wall", "-Wextra", "-Werror", source, "-o", program, *flags(package), "-Wl,-rpath," + libraries], check=True)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        print(output, end="")
        value = float(re.search(r"[oy]\[\w+\] = (\S+)", output).group(1))
        if not (value == value and 0 < abs(value) < 1e6):
            sys.exit(f"{language} example: {value}")
