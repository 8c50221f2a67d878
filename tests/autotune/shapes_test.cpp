// Shapes: their text, their classes, what kernels take.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autotune/measure/demand.h"
#include "autotune/measure/shapes.h"

namespace gdn::tune {
namespace {

using testing::HasSubstr;

Kernel kernel_of(const std::string &family, const std::map<std::string, std::string> &params) {
    Kernel kernel;
    kernel.name = family + "_x";
    kernel.family = family;
    kernel.params = params;
    return kernel;
}

std::string why(const std::string &text) {
    try {
        parse_shapes(text);
    } catch (const Error &error) {
        return error.what();
    }
    return "";
}

TEST(Shapes, TextsGoBothWays) {
    Shape shape;
    shape.T = 1024;
    EXPECT_EQ(text_of(shape), "B=1,T=1024,H=16");
    shape.B = 3, shape.T = 1, shape.H = 2, shape.K = 48, shape.V = 96, shape.threads = 4, shape.cold = true;
    EXPECT_EQ(text_of(shape), "B=3,T=1,H=2,K=48,V=96,threads=4,cold=1");
    EXPECT_EQ(parse_shapes(text_of(shape)), std::vector<Shape>{shape});
    Shape other = shape;
    other.cold = false;
    EXPECT_FALSE(shape == other);
}

TEST(Shapes, RangesAndListsMultiply) {
    std::vector<std::string> texts;
    for (const Shape &shape : parse_shapes("B=1,T=1024:8192:x2,H=4,16")) texts.push_back(text_of(shape));
    EXPECT_THAT(texts, testing::ElementsAre("B=1,T=1024,H=4", "B=1,T=1024,H=16", "B=1,T=2048,H=4", "B=1,T=2048,H=16", "B=1,T=4096,H=4",
                           "B=1,T=4096,H=16", "B=1,T=8192,H=4", "B=1,T=8192,H=16"));
    EXPECT_EQ(parse_shapes("T=8:30:+8,64").size(), 4u);
    EXPECT_EQ(text_of(parse_shapes("H=8")[0]), "B=1,T=1,H=8");
}

TEST(Shapes, BadTextsAreNamed) {
    EXPECT_THAT(why(""), HasSubstr("does not begin with a name"));
    EXPECT_THAT(why("64"), HasSubstr("does not begin with a name"));
    EXPECT_THAT(why("L=3"), HasSubstr("\"L\" is unknown"));
    EXPECT_THAT(why("T=1,T=2"), HasSubstr("names T twice"));
    for (const char *text : {"T=", "T=0", "T=-1", "T=1x", "T=1,", "T=99999999999999999999", "K=257", "H=1.5", "cold=2", "T= 4"})
        EXPECT_THAT(why(text), HasSubstr("expected a whole number")) << text;
    for (const char *text : {"T=1:2", "T=1:2:", "T=1:2:3", "T=1:2:3:4"}) EXPECT_THAT(why(text), HasSubstr("is no range")) << text;
    for (const char *text : {"T=4:2:x2", "T=1:8:x1"}) EXPECT_THAT(why(text), HasSubstr("never reaches its end")) << text;
    EXPECT_THAT(why("T=1:100000:+1"), HasSubstr("more than 4096"));
    EXPECT_THAT(why("T=1:2000:+1,H=1,2,3"), HasSubstr("more than 4096"));
}

TEST(Shapes, Classes) {
    const Kernel chunk = kernel_of("core_chunk", {{"size", "64x64"}});
    EXPECT_EQ(class_of(chunk, parse_shapes("T=256")[0]), LengthClass::kShort);
    EXPECT_EQ(class_of(chunk, parse_shapes("T=257")[0]), LengthClass::kLong);
    EXPECT_EQ(class_of(kernel_of("core_pending", {}), parse_shapes("T=1")[0]), LengthClass::kDecode);
    EXPECT_EQ(class_of(kernel_of("stage", {}), parse_shapes("T=1")[0]), LengthClass::kAny);
    for (const LengthClass c : {LengthClass::kAny, LengthClass::kDecode, LengthClass::kBlock, LengthClass::kShort, LengthClass::kLong})
        EXPECT_EQ(length_class_of(name_of(c)), c);
    EXPECT_THROW(length_class_of("medium"), Error);
}

// Whatever is measured by default is of the class asked for, and the kernel takes it.
TEST(Shapes, DefaultsFit) {
    const std::map<std::string, std::string> sizes[] = {{{"size", "64x64"}}, {{"size", "128x256"}}, {{"size", "256x256"}},
        {{"size", "96x192"}}, {{"size", "anyx16"}}, {{"size", "anyx32"}}, {{"size", "anyx64"}}, {{"size", "any"}}, {}};
    for (const char *family :
        {"core_chunk", "core_block", "core_step", "core_pending", "stage", "short_conv", "short_conv_step", "gated_norm"})
        for (const auto &params : sizes)
            for (const LengthClass c : classes_of(family)) {
                const Kernel kernel = kernel_of(family, params);
                const std::vector<Shape> shapes = default_shapes(kernel, c);
                std::set<std::string> texts;
                for (const Shape &shape : shapes) {
                    EXPECT_EQ(class_of(kernel, shape), c) << family;
                    const Shape full = resolved(kernel, shape);
                    EXPECT_GT(full.K, 0);
                    EXPECT_GT(full.V, 0);
                    EXPECT_EQ(parse_shapes(text_of(shape)), std::vector<Shape>{shape});
                    texts.insert(text_of(shape));
                }
                EXPECT_EQ(texts.size(), shapes.size());
                EXPECT_EQ(shapes[0].cold, c == LengthClass::kDecode);
            }
    EXPECT_THROW(default_shapes(kernel_of("stage", {}), LengthClass::kLong), Error);
}

TEST(Shapes, KernelsRefuseWhatTheyCannotTake) {
    const auto refused = [](const Kernel &kernel, const std::string &text) -> std::string {
        try {
            resolved(kernel, parse_shapes(text)[0]);
        } catch (const Error &error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(resolved(kernel_of("core_chunk", {{"size", "64x128"}}), parse_shapes("T=8")[0]).V, 128);
    EXPECT_THAT(refused(kernel_of("core_chunk", {{"size", "64x64"}}), "T=64,K=128"), HasSubstr("made for K=64,V=64"));
    EXPECT_THAT(refused(kernel_of("core_chunk", {{"size", "anyx32"}}), "T=64,K=48,V=80"), HasSubstr("no multiple of 32"));
    EXPECT_THAT(refused(kernel_of("core_chunk", {{"size", "anyx32"}}), "T=64,K=47,V=64"), HasSubstr("no multiple of 16"));
    EXPECT_THAT(refused(kernel_of("core_chunk", {{"size", "64x64"}}), "T=4"), HasSubstr("8 tokens"));
    EXPECT_THAT(refused(kernel_of("core_chunk", {{"size", "64x64"}}), "T=64,cold=1"), HasSubstr("only decoding"));
    EXPECT_THAT(refused(kernel_of("core_step", {{"size", "64x64"}}), "T=2"), HasSubstr("one token"));
    EXPECT_THAT(refused(kernel_of("core_block", {{"size", "64x64"}}), "T=9"), HasSubstr("4 to 8"));
    EXPECT_THAT(refused(kernel_of("core_chunk", {{"size", "64x64"}}), "T=1000000,H=4096"), HasSubstr("more than"));
    EXPECT_EQ(refused(kernel_of("core_step", {{"size", "64x64"}}), "T=1,cold=1"), "");
}

// A child of its own, all tensors, the largest reference.
TEST(Shapes, MemoryOfAChild) {
    const auto bytes = [](const Kernel &kernel, const std::string &text) {
        std::vector<Shape> shapes = parse_shapes(text);
        for (Shape &shape : shapes) shape = resolved(kernel, shape);
        return child_bytes(kernel, shapes) - (128 << 20);
    };
    // q, k, g of 64 channels, v and o of 128, beta; two states; o and one state in double.
    const Kernel chunk = kernel_of("core_chunk", {{"core", "channel_tied"}, {"size", "64x128"}});
    const double state = 16 * 64 * 128, row = 4 * (3 * 64 + 2 * 128 + 1);
    EXPECT_EQ(bytes(chunk, "T=1024"), 16 * 1024 * row + 8 * state + 8 * (16 * 1024 * 128 + state));
    EXPECT_EQ(bytes(chunk, "T=1024,512"), 16 * 1536 * row + 2 * 8 * state + 8 * (16 * 1024 * 128 + state));
    const Kernel step = kernel_of("core_step", {{"core", "channel_tied"}, {"size", "64x128"}});
    EXPECT_EQ(bytes(step, "T=1"), 16 * 3 * row + 3 * 4 * state + 8 * (16 * 3 * 128 + state));
    EXPECT_EQ(bytes(step, "T=1,cold=1") - bytes(step, "T=1"), (256 << 20) - 4 * state);
    const Kernel block = kernel_of("core_block", {{"core", "channel_tied"}, {"size", "64x128"}});
    EXPECT_EQ(bytes(block, "T=8"), 16 * 8 * row + 10 * 4 * state + 8 * (16 * 8 * 128 + 9 * state));
    const Kernel norm = kernel_of("gated_norm", {{"dtype", "bf16"}, {"z_dtype", "bf16"}});
    EXPECT_EQ(bytes(norm, "T=16,V=64"), 16 * 16 * 64 * (8 + 8));

    std::vector<Shape> shapes = parse_shapes("T=1024:65536:x2");
    for (Shape &shape : shapes) shape = resolved(chunk, shape);
    try {
        require_memory(chunk, shapes, 4ull << 30);
        ADD_FAILURE() << "no error";
    } catch (const Error &error) {
        EXPECT_STREQ(
            error.what(), "the shapes of core_chunk_x need 4.6 GiB together, and a candidate may have 4.0 GiB: name fewer or smaller ones");
    }
    require_memory(chunk, shapes, 8ull << 30);
}

TEST(Shapes, AsManyChildrenAsMemoryAllows) {
    const double gib = 1 << 30;
    EXPECT_EQ(children_together(gib, 10.5 * gib), 5u);
    EXPECT_EQ(children_together(gib, gib), 1u);
    EXPECT_EQ(children_together(gib, 1000 * gib), 32u);
    EXPECT_EQ(children_together(gib, 0), 32u);
}

}  // namespace
}  // namespace gdn::tune
