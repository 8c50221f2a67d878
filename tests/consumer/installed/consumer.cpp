// gdn.hpp on the installed library: built with exceptions, and without exceptions and RTTI.
#include "../check.h"

#include <gdn/gdn.hpp>

// The status of a call, whichever way the header tells of it.
static gdn_status forward(gdn::Context &context, const gdn::Args &args) {
#ifdef GDN_NO_EXCEPTIONS
    return context.forward(args).code();
#else
    try {
        context.forward(args);
        return GDN_STATUS_OK;
    } catch (const gdn::Error &error) {
        return error.status();
    }
#endif
}

int main() {
    gdn::Context context;
    if (!context.open()) return 1;
    check_data d;
    gdn::Args args(GDN_VARIANT_KDA);
    check_fill(&d, &*args, 5);
    args->v = gdn::tensor(&d.v[0][0][0], {1, kT, kHeads, kV});
    if (forward(context, args) != GDN_STATUS_OK || !(check_error(&d) < 1e-5)) {
        std::printf("error %g; %s\n", check_error(&d), gdn_last_error());
        return 1;
    }
    std::string why;
    if (!context.explain(args, why) || why.find("core_chunk") == std::string::npos) {
        std::printf("explain: %s\n", why.c_str());
        return 1;
    }
    args->v.shape[1]--;
    gdn::Context moved = std::move(context);
    if (forward(moved, args) != GDN_STATUS_INVALID_ARGUMENT) {
        std::printf("a call with a wrong shape was not refused\n");
        return 1;
    }
    return 0;
}
