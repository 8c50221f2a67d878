// Names of the layouts, as the program and the errors spell them.
#include <gtest/gtest.h>

#include "gdn/layer.hpp"

namespace gdn_test {
namespace {

TEST(Layouts, NamesGoBothWays) {
    for (const char *name : {"gdn", "fla-gdn2", "nv-gdn2", "fla-gdn", "fla-kda", "kimi-linear", "kimi-linear-fused", "fg2", "qwen3-next"})
        EXPECT_EQ(gdn::layer::name_of(gdn::layer::layout_from_name(name)), name);
}

TEST(Layouts, AnUnknownNameIsRefusedWithThoseThereAre) {
    try {
        gdn::layer::layout_from_name("fla_gdn2");
        FAIL() << "accepted";
    } catch (const gdn::layer::Error &error) {
        EXPECT_EQ(error.status(), GDN_STATUS_INVALID_ARGUMENT);
        EXPECT_STREQ(error.what(),
            "layout: expected one of 'gdn', 'fla-gdn2', 'nv-gdn2', 'fla-gdn', 'fla-kda', 'kimi-linear', 'kimi-linear-fused', 'fg2', "
            "'qwen3-next', found 'fla_gdn2'");
    }
}

}  // namespace
}  // namespace gdn_test
