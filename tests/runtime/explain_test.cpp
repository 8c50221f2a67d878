// gdn_explain: well-formed JSON that names what runs, in any buffer.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "call.h"

using namespace gdn_test;
using nlohmann::json;

namespace {

json explained(gdn_context *context, const gdn_args &args) {
    std::size_t needed = 0;
    EXPECT_EQ(gdn_explain(context, &args, nullptr, 0, &needed), GDN_STATUS_OK) << gdn_last_error();
    std::string text(needed, '\0');
    EXPECT_EQ(gdn_explain(context, &args, text.data(), text.size(), nullptr), GDN_STATUS_OK);
    EXPECT_EQ(std::strlen(text.c_str()) + 1, needed);
    return json::parse(text.c_str());
}

std::vector<std::string> roles(const json &report) {
    std::vector<std::string> out;
    for (const json &kernel : report["kernels"]) out.push_back(kernel["role"]);
    return out;
}

TEST(Explain, NamesKernelsAndReasons) {
    ContextPtr context = make_context();
    CallSize size;
    size.T = 100, size.K = size.V = 128;
    SmallCall call(size);
    const json report = explained(context.get(), call.args);
    EXPECT_EQ(report["variant"], "kda");
    EXPECT_EQ(report["tokens"], 100);
    EXPECT_EQ(report["threads"], 1);
    EXPECT_TRUE(report["target"].is_string());
    EXPECT_GT(report["workspace_bytes"], 0);
    EXPECT_EQ(roles(report).front(), "stage");
    for (const json &kernel : report["kernels"]) {
        EXPECT_EQ(kernel["kernel"].get<std::string>().substr(0, 5), "gdnk_");
        EXPECT_FALSE(kernel["why"].get<std::string>().empty());
        const std::string level = kernel["level"];
        EXPECT_TRUE(level == "only" || level == "reference" || level == "device" || level == "architecture" || level == "vendor" ||
                    level == "default")
            << level;
        EXPECT_EQ(kernel.contains("class"), kernel["role"] == "chunk");
    }
}

TEST(Explain, LengthClasses) {
    ContextPtr context = make_context();
    const auto has = [&](std::int64_t T, const char *role) {
        CallSize size;
        size.T = T, size.V = 32;
        SmallCall call(size);
        const std::vector<std::string> list = roles(explained(context.get(), call.args));
        return std::find(list.begin(), list.end(), role) != list.end();
    };
    EXPECT_TRUE(has(1, "step") && !has(1, "chunk"));
    EXPECT_TRUE(has(64, "chunk") && !has(64, "step"));
    EXPECT_TRUE(has(65, "chunk") && has(65, "step"));
    EXPECT_FALSE(has(0, "chunk") || has(0, "step"));
}

// One entry for the chunks of each length class that the call has; a class ends with its last token.
TEST(Explain, ChunksOfEachLengthClass) {
    ContextPtr context = make_context();
    const auto classes = [&](std::vector<std::int64_t> cu) {
        CallSize size;
        size.B = 1, size.T = cu.back(), size.V = 32;
        SmallCall call(size);
        call.args.cu_seqlens = SmallCall::indices(cu);
        const std::int64_t n = static_cast<std::int64_t>(cu.size()) - 1;
        call.args.initial_state = call.tensor(call.initial_state, {n, size.HV, size.K, size.V}, -1, 1);
        call.args.final_state = call.tensor(call.final_state, {n, size.HV, size.K, size.V}, 0, 0);
        std::vector<std::string> list;
        const json report = explained(context.get(), call.args);
        for (const json &kernel : report["kernels"])
            if (kernel["role"] == "chunk") list.push_back(kernel["class"]);
        return list;
    };
    using V = std::vector<std::string>;
    EXPECT_EQ(classes({0, 256}), V{"short"});
    EXPECT_EQ(classes({0, 257}), V{"long"});
    EXPECT_EQ(classes({0, 300, 400}), (V{"short", "long"}));
    EXPECT_EQ(classes({0, 300, 302}), V{"long"});
}

// The shipped configurations of whole heads and of slices tile their dot products alike: otherwise a second thread would stand idle.
TEST(Explain, FewHeadsAreCutIntoVSlices) {
    ContextPtr context = make_context(2);
    for (const gdn_variant variant : {GDN_VARIANT_GDN, GDN_VARIANT_KDA, GDN_VARIANT_GDN2}) {
        for (const auto &[k, v] :
            {std::pair(128, 128), std::pair(256, 256), std::pair(192, 192), std::pair(96, 192), std::pair(128, 256)}) {
            for (const std::int64_t tokens : {128, 512}) {
                CallSize size;
                size.B = size.H = size.HV = 1, size.T = tokens, size.K = k, size.V = v;
                SmallCall call(size, variant);
                const json report = explained(context.get(), call.args);
                EXPECT_EQ(report["v_slices"], 2) << "variant " << variant << ", " << k << "x" << v << ", " << tokens << " tokens";
            }
        }
    }
}

TEST(Explain, MapsWhereNoStageFits) {
    ContextPtr context = make_context();
    CallSize size;
    size.K = 24;
    SmallCall call(size);
    const json report = explained(context.get(), call.args);
    EXPECT_EQ(report["padded_k"], 32);
    std::vector<std::string> mapped;
    for (const json &kernel : report["kernels"])
        if (kernel["role"] == "map") mapped.push_back(kernel["tensor"]);
    EXPECT_EQ(mapped, (std::vector<std::string>{"q", "k", "g"}));
}

TEST(Explain, TruncatesAndTerminates) {
    ContextPtr context = make_context();
    SmallCall call;
    std::size_t needed = 0;
    for (std::size_t size : {1, 2, 17, 100}) {
        std::vector<char> text(size + 1, '~');
        ASSERT_EQ(gdn_explain(context.get(), &call.args, text.data(), size, &needed), GDN_STATUS_OK);
        EXPECT_EQ(std::strlen(text.data()), size - 1);
        EXPECT_EQ(text[size], '~');
        EXPECT_GT(needed, 100u);
    }
    EXPECT_EQ(gdn_explain(context.get(), &call.args, nullptr, 5, nullptr), GDN_STATUS_INVALID_ARGUMENT);
    call.args.q.ndim = 1;
    EXPECT_EQ(gdn_explain(context.get(), &call.args, nullptr, 0, &needed), GDN_STATUS_INVALID_ARGUMENT);
}

}  // namespace
