#!/usr/bin/env bash
# pkg_config.sh LIBDIR CC SOURCE OUTPUT: a plain C program built with what gdn.pc says, shared and static, and run.
set -euo pipefail
libdir=$1 cc=$2 source=$3 output=$4
command -v pkg-config >/dev/null || { echo "skipped: no pkg-config"; exit 77; }
export PKG_CONFIG_PATH=$libdir/pkgconfig
read -ra cflags <<<"$(pkg-config --cflags gdn)"
read -ra libs <<<"$(pkg-config --libs gdn)"
read -ra static_libs <<<"$(pkg-config --static --libs gdn)"

"$cc" -std=c99 -pedantic -Wall -Wextra -Werror "${cflags[@]}" "$source" -o "$output" "${libs[@]}" -lm
LD_LIBRARY_PATH=$libdir "$output"

# -l:libgdn.a picks the archive where both lie
"$cc" -std=c99 "${cflags[@]}" "$source" -o "$output.static" "${static_libs[@]/-lgdn/-l:libgdn.a}"
readelf -dW "$output.static" | grep -E 'NEEDED.*(gdn|stdc\+\+)' && { echo "not static"; exit 1; }
"$output.static"
