// The safetensors reader on every dtype and on files that lie, and the writer on disks that are full.
#include <cmath>
#include <csignal>
#include <limits>
#include <numeric>

#include <sys/resource.h>

#include "../support/safetensors.h"
#include "layer_files.h"

namespace gdn_test {
namespace {

std::string file_of(const std::string &header, const std::string &data) {
    const std::uint64_t length = header.size();
    return std::string(reinterpret_cast<const char *>(&length), 8) + header + data;
}

template <typename T> std::string bytes_of(const std::vector<T> &values) {
    return std::string(reinterpret_cast<const char *>(values.data()), sizeof(T) * values.size());
}

std::string one_tensor(const std::string &dtype, std::size_t count, std::size_t bytes) {
    return R"({"x":{"dtype":")" + dtype + R"(","shape":[)" + std::to_string(count) + R"(],"data_offsets":[0,)" + std::to_string(bytes) +
           "]}}";
}

template <typename T>
void expect_read(const Folder &folder, const std::string &dtype, const std::vector<T> &stored, std::vector<float> expected) {
    SCOPED_TRACE(dtype);
    write_file(folder / "x", file_of(one_tensor(dtype, stored.size(), sizeof(T) * stored.size()), bytes_of(stored)));
    const layer::StateDict dict = layer::read_safetensors(folder / "x");
    ASSERT_EQ(dict.size(), 1u);
    EXPECT_EQ(dict.at("x").shape, (std::vector<std::int64_t>{static_cast<std::int64_t>(stored.size())}));
    ASSERT_EQ(dict.at("x").data.size(), expected.size());
    EXPECT_EQ(std::memcmp(dict.at("x").data.data(), expected.data(), 4 * expected.size()), 0)
        << ::testing::PrintToString(dict.at("x").data);
}

TEST(Safetensors, EveryDtypeWidens) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const Folder folder;
    expect_read<float>(folder, "F32", {1.5f, -0.0f, 1e-45f, kInfinity}, {1.5f, -0.0f, 1e-45f, kInfinity});
    expect_read<double>(folder, "F64", {0.1, -1e300 * 0, INFINITY, 3.4028234663852886e38}, {0.1f, -0.0f, kInfinity, 3.4028235e38f});
    // 1, -2, largest, smallest normal, largest subnormal, smallest, -0, infinity
    expect_read<std::uint16_t>(folder, "F16", {0x3c00, 0xc000, 0x7bff, 0x0400, 0x03ff, 0x0001, 0x8000, 0x8001, 0x7c00, 0xfc00},
        {1, -2, 65504, 0x1p-14f, 1023 * 0x1p-24f, 0x1p-24f, -0.0f, -0x1p-24f, kInfinity, -kInfinity});
    expect_read<std::uint16_t>(folder, "BF16", {0x3f80, 0xc040, 0x0001, 0x7f7f}, {1, -3, 0x1p-133f, 0x1.fep127f});
    expect_read<std::int64_t>(folder, "I64", {-5, 1 << 24, std::numeric_limits<std::int64_t>::min()}, {-5, 0x1p24f, -0x1p63f});
    expect_read<std::int32_t>(folder, "I32", {-5, 7}, {-5, 7});
    expect_read<std::int16_t>(folder, "I16", {-32768, 7}, {-32768, 7});
    expect_read<std::int8_t>(folder, "I8", {-128, 7}, {-128, 7});
    expect_read<std::uint64_t>(folder, "U64", {5, std::uint64_t{1} << 63}, {5, 0x1p63f});
    expect_read<std::uint32_t>(folder, "U32", {5, 0x80000000u}, {5, 0x1p31f});
    expect_read<std::uint16_t>(folder, "U16", {65535}, {65535});
    expect_read<std::uint8_t>(folder, "U8", {255, 0}, {255, 0});
    expect_read<std::uint8_t>(folder, "BOOL", {1, 0}, {1, 0});

    // NaN keeps its bits
    write_file(folder / "nan", file_of(one_tensor("F32", 1, 4), bytes_of<std::uint32_t>({0x7fa12345})));
    std::uint32_t bits;
    std::memcpy(&bits, layer::read_safetensors(folder / "nan").at("x").data.data(), 4);
    EXPECT_EQ(bits, 0x7fa12345u);
    // Half precision against the definition, all of it
    std::vector<std::uint16_t> all(65536);
    std::iota(all.begin(), all.end(), 0);
    write_file(folder / "all", file_of(one_tensor("F16", all.size(), 2 * all.size()), bytes_of(all)));
    const layer::StateDict dict = layer::read_safetensors(folder / "all");
    for (std::uint32_t half = 0; half < 65536; half++) {
        const int exponent = static_cast<int>(half >> 10 & 31), fraction = static_cast<int>(half & 1023);
        double expected = exponent == 31 ? (fraction ? NAN : INFINITY)
                          : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                         : std::ldexp(fraction, -24);
        if (half & 0x8000) expected = -expected;
        const float given = dict.at("x").data[half];
        ASSERT_TRUE(std::isnan(expected) ? std::isnan(given) : given == expected && std::signbit(given) == std::signbit(expected)) << half;
    }
}

TEST(Safetensors, WhatFloat32DoesNotHoldIsRefused) {
    const Folder folder;
    const auto refused = [&](const std::string &dtype, const std::string &bytes, std::size_t count, std::vector<std::string> says) {
        SCOPED_TRACE(dtype);
        write_file(folder / "x", file_of(one_tensor(dtype, count, bytes.size()), bytes));
        says.push_back("tensor 'x'");
        says.push_back(folder / "x");
        expect_refused([&] { layer::read_safetensors(folder / "x"); }, GDN_STATUS_CORRUPT, says);
        // Elsewhere in a model's file it may be anything.
        EXPECT_TRUE(layer::read_safetensors(folder / "x", nullptr, "y.").empty());
    };
    refused("I64", bytes_of<std::int64_t>({1, (1 << 24) + 1}), 2, {"at 1", "I64"});
    refused("I64", bytes_of<std::int64_t>({std::numeric_limits<std::int64_t>::max()}), 1, {"at 0"});
    refused("U64", bytes_of<std::uint64_t>({std::numeric_limits<std::uint64_t>::max()}), 1, {"at 0"});
    refused("I32", bytes_of<std::int32_t>({std::numeric_limits<std::int32_t>::max()}), 1, {"at 0"});
    refused("F64", bytes_of<double>({1, 2, 1e39}), 3, {"at 2", "F64"});
    refused("BOOL", std::string("\x02", 1), 1, {"at 0"});
    refused("F8_E4M3", "abcd", 4, {"F8_E4M3"});
}

TEST(Safetensors, HostileHeadersAreRefused) {
    const Folder folder;
    const std::string four(4, '\0'), eight(8, '\0');
    const auto tensor = [](const std::string &fields) { return R"({"x":{)" + fields + "}}"; };
    const auto offsets = [&](const std::string &shape, const std::string &range) {
        return tensor(R"("dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + range);
    };
    std::string huge_length = file_of("{}", "");
    huge_length[7] = '\x7f';
    std::string long_length = file_of("{}", "");
    long_length[0] = 3;
    std::string nested = R"({"x":)" + std::string(200000, '[') + std::string(200000, ']') + "}";
    const struct {
        const char *name;
        std::string bytes;
        std::vector<std::string> says;
    } list[] = {
        {"empty", "", {"8 bytes of header length", "file of 0"}},
        {"seven bytes", "1234567", {"8 bytes of header length", "file of 7"}},
        {"length beyond the cap", huge_length, {"header of at most 100000000 bytes"}},
        {"length beyond the file", long_length, {"header of 3 bytes", "found 2"}},
        {"no header", file_of("", ""), {"begins with '{'"}},
        {"not JSON", file_of("{x}", ""), {"header: expected JSON"}},
        {"an array", file_of("[]", ""), {"begins with '{'"}},
        {"blank first", file_of(" {}", ""), {"begins with '{'"}},
        {"two objects", file_of("{}{}", ""), {"header: expected JSON"}},
        {"no UTF-8", file_of("{\"\xff\":{}}", ""), {"header: expected JSON"}},
        {"deep", file_of(nested, ""), {"at most 4 deep"}},
        {"a name twice",
            file_of(R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", four),
            {"'x' twice"}},
        {"a field twice", file_of(tensor(R"("dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4])"), four), {"'dtype' twice"}},
        {"metadata is a number", file_of(R"({"__metadata__":3})", ""), {"__metadata__", "expected an object, found number"}},
        {"metadata of numbers", file_of(R"({"__metadata__":{"a":3}})", ""), {"__metadata__", "'a'", "found number"}},
        {"tensor is a number", file_of(R"({"x":3})", ""), {"tensor 'x'", "expected an object, found number"}},
        {"no dtype", file_of(tensor(R"("shape":[],"data_offsets":[0,4])"), four), {"tensor 'x'", "expected dtype"}},
        {"no shape", file_of(tensor(R"("dtype":"F32","data_offsets":[0,4])"), four), {"tensor 'x'", "expected shape"}},
        {"no offsets", file_of(tensor(R"("dtype":"F32","shape":[1])"), four), {"tensor 'x'", "expected data_offsets"}},
        {"a field more", file_of(tensor(R"("dtype":"F32","shape":[],"data_offsets":[0,4],"y":1)"), four), {"tensor 'x'", "'y'"}},
        {"dtype unknown", file_of(tensor(R"("dtype":"F33","shape":[],"data_offsets":[0,4])"), four), {"tensor 'x'", "dtype", "F33"}},
        {"dtype a number", file_of(tensor(R"("dtype":32,"shape":[],"data_offsets":[0,4])"), four), {"tensor 'x'", "dtype", "32"}},
        {"shape a number", file_of(offsets("1", "[0,4]"), four), {"tensor 'x'", "shape: expected an array", "number"}},
        {"extent negative", file_of(offsets("[-1]", "[0,4]"), four), {"tensor 'x'", "shape", "-1"}},
        {"extent a fraction", file_of(offsets("[1.0]", "[0,4]"), four), {"tensor 'x'", "shape", "1.0"}},
        {"extent beyond 2^63", file_of(offsets("[18446744073709551615]", "[0,4]"), four), {"tensor 'x'", "shape"}},
        {"product wraps to 1", file_of(offsets("[4294967296,4294967296,1]", "[0,4]"), four), {"tensor 'x'", "product"}},
        {"product wraps to the bytes", file_of(offsets("[4611686018427387905]", "[0,4]"), four), {"tensor 'x'", "fits 64 bits"}},
        {"dimensions without end", file_of(offsets("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), four),
            {"tensor 'x'", "at most 32", "33"}},
        {"offsets a number", file_of(offsets("[1]", "4"), four), {"tensor 'x'", "data_offsets: expected two numbers"}},
        {"three offsets", file_of(offsets("[1]", "[0,2,4]"), four), {"tensor 'x'", "expected two numbers", "array of 3"}},
        {"offset negative", file_of(offsets("[1]", "[-4,0]"), four), {"tensor 'x'", "data_offsets", "-4"}},
        {"end before begin", file_of(offsets("[1]", "[4,0]"), four), {"tensor 'x'", "begin <= end <= 4", "[4,0]"}},
        {"end beyond the file", file_of(offsets("[2]", "[0,8]"), four), {"tensor 'x'", "begin <= end <= 4", "[0,8]"}},
        {"end beyond by far", file_of(offsets("[1]", "[18446744073709551612,18446744073709551615]"), four), {"tensor 'x'", "begin <= end"}},
        {"fewer bytes than values", file_of(offsets("[2]", "[0,4]"), four), {"tensor 'x'", "expected 8 bytes for [2] of F32", "found 4"}},
        {"more bytes than values", file_of(offsets("[1]", "[0,8]"), eight), {"tensor 'x'", "expected 4 bytes for [1] of F32", "found 8"}},
        {"bytes of no tensor at the end", file_of(offsets("[1]", "[0,4]"), eight), {"expected 4 bytes of tensors, found 8"}},
        {"a hole at the start", file_of(offsets("[1]", "[4,8]"), eight), {"tensor 'x'", "begin at 0", "found 4"}},
        {"overlap",
            file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                std::string(6, '\0')),
            {"tensor 'y'", "begin at 4", "found 2"}},
        {"the same bytes",
            file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four),
            {"begin at 4", "found 0"}},
        {"a hole between",
            file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}})",
                std::string(9, '\0')),
            {"tensor 'y'", "begin at 4", "found 5"}},
    };
    for (const auto &bad : list) {
        SCOPED_TRACE(bad.name);
        write_file(folder / "x", bad.bytes);
        std::vector<std::string> says = bad.says;
        says.push_back((folder / "x") + ": ");
        expect_refused([&] { layer::read_safetensors(folder / "x"); }, GDN_STATUS_CORRUPT, says);
        // The prefix spares values, not the header.
        expect_refused([&] { layer::read_safetensors(folder / "x", nullptr, "nothing"); }, GDN_STATUS_CORRUPT, says);
    }
}

TEST(Safetensors, EveryTruncationIsRefused) {
    const Folder folder;
    layer::write_safetensors(folder / "whole", {{"a", {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {"b", {{}, {7}}}}, {{"key", "value"}});
    const std::string whole = read_file(folder / "whole");
    for (std::size_t size = 0; size < whole.size(); size++) {
        write_file(folder / "part", whole.substr(0, size));
        expect_refused([&] { layer::read_safetensors(folder / "part"); }, GDN_STATUS_CORRUPT, {folder / "part"});
    }
    write_file(folder / "part", whole + "x");
    expect_refused([&] { layer::read_safetensors(folder / "part"); }, GDN_STATUS_CORRUPT, {"bytes of tensors"});
}

TEST(Safetensors, WhatIsNoFileIsAnIoError) {
    const Folder folder;
    expect_refused([&] { layer::read_safetensors(folder / "nothing"); }, GDN_STATUS_IO, {folder / "nothing", "cannot open"});
    expect_refused([&] { layer::read_safetensors(folder / ""); }, GDN_STATUS_IO, {"expected a file"});
    expect_refused([&] { layer::read_safetensors("/dev/zero"); }, GDN_STATUS_IO, {"/dev/zero", "expected a file"});
    expect_refused([&] { layer::write_safetensors("/dev/full", {}); }, GDN_STATUS_IO, {"/dev/full", "expected a file"});
    expect_refused([&] { layer::write_safetensors(folder / "no/folder", {}); }, GDN_STATUS_IO, {"cannot create"});
    EXPECT_TRUE(folder.names().empty());
}

TEST(Safetensors, WrittenIsRead) {
    const Folder folder;
    const layer::StateDict dict = {
        {"a", {{2, 3}, {1, -0.0f, 3, 1e-45f, NAN, INFINITY}}}, {"scalar", {{}, {7}}}, {"none", {{0, 5}, {}}}, {"\xc3\xa4\n\"", {{1}, {2}}}};
    const std::map<std::string, std::string> metadata = {{"z", "1"}, {"a", "\xe2\x82\xac\"\\"}};
    layer::write_safetensors(folder / "x", dict, metadata);
    std::map<std::string, std::string> found;
    expect_same(layer::read_safetensors(folder / "x", &found), dict);
    EXPECT_EQ(found, metadata);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"x"});
    // Another reader agrees.
    const StoredTensors stored = read_safetensors(folder / "x");
    EXPECT_EQ(stored.size(), dict.size());
    EXPECT_EQ(stored.at("a").values[2], 3);
    EXPECT_EQ(stored.at("a").shape, (std::vector<std::int64_t>{2, 3}));
    // The same bytes again, over what stands there; tensors begin at a multiple of 8.
    const std::string bytes = read_file(folder / "x");
    layer::write_safetensors(folder / "y", {{"other", {{1}, {1}}}});
    layer::write_safetensors(folder / "y", dict, metadata);
    EXPECT_EQ(read_file(folder / "y"), bytes);
    EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);
    layer::write_safetensors(folder / "empty", {});
    EXPECT_TRUE(layer::read_safetensors(folder / "empty").empty());
}

TEST(Safetensors, APrefixReadsOneLayer) {
    const Folder folder;
    layer::write_safetensors(folder / "x", {{"layers.1.a", {{1}, {1}}}, {"layers.10.a", {{1}, {2}}}, {"b", {{1}, {3}}}}, {{"k", "v"}});
    std::map<std::string, std::string> metadata;
    const layer::StateDict dict = layer::read_safetensors(folder / "x", &metadata, "layers.1.");
    ASSERT_EQ(dict.size(), 1u);
    EXPECT_EQ(dict.at("layers.1.a").data[0], 1);
    EXPECT_EQ(metadata.at("k"), "v");
}

TEST(Safetensors, WhatCannotBeWrittenLeavesNothing) {
    const Folder folder;
    layer::write_safetensors(folder / "x", {{"a", {{1}, {1}}}});
    const std::string before = read_file(folder / "x");
    const auto untouched = [&] {
        EXPECT_EQ(folder.names(), std::vector<std::string>{"x"});
        EXPECT_EQ(read_file(folder / "x"), before);
    };
    expect_refused(
        [&] {
            layer::write_safetensors(folder / "x", {{"a", {{3}, {1, 2}}}});
        },
        GDN_STATUS_INVALID_ARGUMENT, {"tensor 'a'", "expected 3 values for [3], found 2"});
    untouched();
    expect_refused(
        [&] {
            layer::write_safetensors(folder / "x", {{"a", {{-1}, {}}}});
        },
        GDN_STATUS_INVALID_ARGUMENT, {"tensor 'a'", "[-1]"});
    expect_refused(
        [&] {
            layer::write_safetensors(folder / "x", {{"__metadata__", {{1}, {1}}}});
        },
        GDN_STATUS_INVALID_ARGUMENT, {"__metadata__"});
    expect_refused([&] { layer::write_safetensors(folder / "x", {{"\xff", {{1}, {1}}}}); }, GDN_STATUS_INVALID_ARGUMENT, {"UTF-8"});
    untouched();
    // A disk that ends after 4096 bytes
    rlimit old;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit small = {4096, old.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    expect_refused(
        [&] {
            layer::write_safetensors(folder / "x", {{"a", {{4096}, std::vector<float>(4096)}}});
        },
        GDN_STATUS_IO, {folder / "x", "cannot write"});
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    std::signal(SIGXFSZ, handler);
    untouched();
}

}  // namespace
}  // namespace gdn_test
