#!/usr/bin/env bash
# exported_symbols.sh LIST LIBGDN_SO LIBGDN_A [BINUTILS_PREFIX]: both libraries define exactly the symbols of the list, and the shared one needs
# nothing but the C library. The .a must not leave the C++ library or Halide to its user either.
set -euo pipefail
list=$1 shared=$2 static=$3 prefix=${4-}
failed=0

expect() { # WHAT EXPECTED GOT
    if ! diff <(printf '%s\n' "$2") <(printf '%s\n' "$3"); then
        printf '%s differs: < expected, > found\n' "$1"
        failed=1
    fi
}

wanted=$(sort "$list")
expect "what $shared exports" "$wanted" "$("${prefix}nm" -D --defined-only "$shared" | awk '{print $3}' | sort)"
expect "what $static defines" "$wanted" "$("${prefix}nm" -g --defined-only "$static" | awk 'NF == 3 {print $3}' | sort)"

dynamic=$("${prefix}readelf" -dW "$shared")
needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
expect "what $shared needs beyond the C library" "" "$(grep -vE '^(libc|libm|libpthread|libdl)\.so\.[0-9]+$|^ld-linux' <<<"$needed" || true)"
expect "the search path in $shared" "" "$(grep -E 'RPATH|RUNPATH|TEXTREL' <<<"$dynamic" || true)"
# A strong undefined symbol with a C++ or Halide name would need a library that a C program does not link.
expect "what $static leaves undefined" "" "$("${prefix}nm" -u "$static" | awk '$1 == "U" {print $2}' | grep -E '^_Z|^halide_|^__cxa_(throw|begin|allocate)|^_Unwind' || true)"
exit $failed
