#!/usr/bin/env bash
# exported_symbols.sh LIBGDN_LAYER_SO NM READELF: exports the names of layer.hpp and no others, and needs libgdn, a BLAS and the C++ library only.
set -euo pipefail
library=$1 nm=$2 readelf=$3
names=$("$nm" -DC --defined-only "$library" | cut -d' ' -f3-)
foreign=$(grep -vE '^(typeinfo (name )?for |vtable for )?gdn::layer::' <<<"$names" || true)
[[ -z $foreign ]] || { printf 'exports more than gdn::layer:\n%s\n' "$foreign"; exit 1; }
inner=$(grep -E '(Impl|Floats|Product|text_of|check_weights|strict)' <<<"$names" || true)
[[ -z $inner ]] || { printf 'exports what is inside:\n%s\n' "$inner"; exit 1; }
for name in 'Layer::forward(' 'Layer::forward_train(' 'Layer::dump' 'initialise' 'import_weights(' 'State::save(' 'blas_threads(' 'typeinfo for gdn::layer::Error'; do
    grep -qF "$name" <<<"$names" || { echo "does not export $name"; exit 1; }
done
needed=$("$readelf" -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libgdn\.so\.|lib[a-z]*blas[a-z0-9]*\.so|libcblas|libstdc\+\+|libgcc_s|libc\.so|libm\.so|libdl|libpthread|ld-linux)' || true)
[[ -z $needed ]] || { printf 'needs %s\n' "$needed"; exit 1; }
