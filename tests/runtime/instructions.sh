#!/usr/bin/env bash
# instructions.sh LIBGDN_SO TARGET...: reads the library's x86 machine code. No instruction is one vendor's own (SSE4a, 3DNow, XOP, FMA4; AMX), and each
# kernel keeps to the features of its target, which is part of its name.
set -euo pipefail
code=$(mktemp)
trap 'rm -f "$code"' EXIT
# "function mnemonic operands" per instruction, prefixes dropped
objdump -d --no-show-raw-insn -w "$1" | awk '
    /^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); next }
    $1 ~ /^[0-9a-f]+:$/ { i = 2; while ($i ~ /^(lock|rep|repz|repnz|bnd|notrack|data16|cs|ds|rex.*|\{.*\})$/) i++; m = $i; $1 = ""; print name, m, $0 }' >"$code"

failed=0
refuse() { # WHAT, EXTENDED REGEX over "function mnemonic .. operands"
    local hits
    hits=$(grep -E "$2" "$code" | awk '{print $1 ": " $2}' | sort | uniq -c | sort -rn | head -n 20 || true)
    if [[ -n $hits ]]; then
        printf '%s:\n%s\n' "$1" "$hits"
        failed=1
    fi
}
present() { # WHAT, REGEX: the test would be empty without it
    grep -qE "$2" "$code" || { printf 'not found: %s\n' "$1"; failed=1; }
}

refuse "SSE4a" '^[^ ]+ (extrq|insertq|movntss|movntsd) '
refuse "AMX" '^[^ ]+ (tileload|tilestore|tilezero|tilerelease|ldtilecfg|sttilecfg|tdp|tcmm)'
refuse "3DNow" '^[^ ]+ (femms|pavgusb|pf(2i|acc|add|cmp|max|min|mul|nacc|pnacc|rcp|rsqrt|sub)[a-z0-9]*|pi2f[dw]|pmulhrw|pswapd) '
refuse "XOP" '^[^ ]+ (vpcmov|vpcom[a-z]+|vpperm|vprot[bwdq]|vpsh[al][bwdq]|vpmacs[a-z]+|vpmadcs[a-z]+|vphadd[a-z]+q|vphsub(bw|dq|wd)|vfrcz[ps][sd]|vpermil2p[sd]) '
refuse "FMA4" '^[^ ]+ vfn?m(add|sub|addsub|subadd)[ps][sd] '
refuse "AVX-512 in an AVX2 kernel" '^gdnk_[^ ]*__x86_avx2[^ ]* .*(%zmm|%k[0-7]|%[xy]mm(1[6-9]|2[0-9]|3[01]))'
refuse "AVX in a reference kernel" '^gdnk_[^ ]*__x86_reference[^ ]* (v[a-z]|.*%[yz]mm)'
refuse "BF16 products in a kernel that is not for low precision" '^gdnk_[^ ]*__x86_avx512(__[^ ]*)? (vdpbf16ps|vcvtne2?ps2?2?bf16|vpdpbusd)'
refuse "AVX outside the kernels" '^(gdn_|_Z|halide_)[^ ]* v[a-z].*%[xyz]mm'

for target in "${@:2}"; do
    case $target in
    x86_avx512*) present "512-bit FMA in $target" "^gdnk_[^ ]*__$target(__[^ ]*)? vfmadd.*%zmm" ;;
    x86_avx2) present "256-bit FMA in $target" "^gdnk_[^ ]*__$target(__[^ ]*)? vfmadd.*%ymm" ;;
    x86_reference) present "SSE products in $target" "^gdnk_[^ ]*__$target(__[^ ]*)? mulps" ;;
    *) echo "no instruction to look for in $target"; failed=1 ;;
    esac
done
exit $failed
