#include "variant.h"

namespace gdn {

Variant variant_of(const std::string &name) {
    for (Variant (*make)() : {gdn_variant, kda_variant, gdn2_variant, fg2_plus_variant}) {
        if (make().name == name) return make();
    }
    _halide_user_assert(false) << "unknown variant '" << name << "'\n";
    return {};
}

}  // namespace gdn
