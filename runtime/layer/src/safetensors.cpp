#include "safetensors.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "strict_json.h"
#include "weights.h"

namespace gdn::layer {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeader = 100'000'000;  // as the format's own reader
constexpr int kMaxDepth = 4;
constexpr std::size_t kMaxDims = 32;

template <typename T> T load(const std::uint8_t *at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

float from_bits(std::uint32_t bits) { return load<float>(reinterpret_cast<const std::uint8_t *>(&bits)); }

float widen_f16(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 0x3ff;
    if (exponent == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent != 0) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = static_cast<float>(fraction) * 0x1p-24f;  // exact: a multiple of 2^-24 below 2^-14
    return sign ? -small : small;
}

/// How `count` values become float32. Returns the index of the first one that does not, or `count`.
using Widen = std::size_t (*)(const std::uint8_t *from, std::size_t count, float *to);

std::size_t widen_f32(const std::uint8_t *from, std::size_t count, float *to) {
    if (count) std::memcpy(to, from, count * sizeof(float));
    return count;
}
std::size_t widen_f64(const std::uint8_t *from, std::size_t count, float *to) {
    for (std::size_t i = 0; i < count; i++) {
        const double value = load<double>(from + 8 * i);
        if (std::isfinite(value) && std::abs(value) > 0x1.fffffep127) return i;
        to[i] = static_cast<float>(value);
    }
    return count;
}
std::size_t widen_halves(const std::uint8_t *from, std::size_t count, float *to) {
    for (std::size_t i = 0; i < count; i++) to[i] = widen_f16(load<std::uint16_t>(from + 2 * i));
    return count;
}
std::size_t widen_brains(const std::uint8_t *from, std::size_t count, float *to) {
    for (std::size_t i = 0; i < count; i++) to[i] = from_bits(static_cast<std::uint32_t>(load<std::uint16_t>(from + 2 * i)) << 16);
    return count;
}
template <typename T> std::size_t widen_integers(const std::uint8_t *from, std::size_t count, float *to) {
    for (std::size_t i = 0; i < count; i++) {
        const T value = load<T>(from + sizeof(T) * i);
        const float wide = static_cast<float>(value);
        // 2^63 and 2^64 are floats that T does not hold: compare as long double, which holds all three.
        if (static_cast<long double>(wide) != static_cast<long double>(value)) return i;
        to[i] = wide;
    }
    return count;
}
std::size_t widen_booleans(const std::uint8_t *from, std::size_t count, float *to) {
    for (std::size_t i = 0; i < count; i++) {
        if (from[i] > 1) return i;
        to[i] = from[i];
    }
    return count;
}

struct Dtype {
    const char *name;
    std::uint64_t bytes;
    Widen widen;  // null: known, but no numbers of a layer
};
constexpr Dtype kDtypes[] = {{"F32", 4, widen_f32}, {"BF16", 2, widen_brains}, {"F16", 2, widen_halves}, {"F64", 8, widen_f64},
    {"I64", 8, widen_integers<std::int64_t>}, {"I32", 4, widen_integers<std::int32_t>}, {"I16", 2, widen_integers<std::int16_t>},
    {"I8", 1, widen_integers<std::int8_t>}, {"U64", 8, widen_integers<std::uint64_t>}, {"U32", 4, widen_integers<std::uint32_t>},
    {"U16", 2, widen_integers<std::uint16_t>}, {"U8", 1, widen_integers<std::uint8_t>}, {"BOOL", 1, widen_booleans},
    {"F8_E4M3", 1, nullptr}, {"F8_E5M2", 1, nullptr}, {"F8_E8M0", 1, nullptr}, {"C64", 8, nullptr}};

struct Entry {
    std::string name;
    const Dtype *dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t count, begin, end;  // end and begin in bytes of the data
};

/// Checks one header and says what it does not like, always with the file's name and, where there is one, the tensor's.
class Header {
public:
    Header(const std::uint8_t *bytes, std::size_t size, const std::string &origin) : origin_(origin) {
        if (size < 8) bad("expected 8 bytes of header length, found a file of " + std::to_string(size));
        const std::uint64_t length = load<std::uint64_t>(bytes);
        if (length > kMaxHeader)
            bad("expected a header of at most " + std::to_string(kMaxHeader) + " bytes, found " + std::to_string(length));
        if (length > size - 8)
            bad("expected a header of " + std::to_string(length) + " bytes, found " + std::to_string(size - 8) + " behind its length");
        const char *text = reinterpret_cast<const char *>(bytes) + 8;
        if (length == 0 || *text != '{') bad("expected a header that begins with '{'");
        json header = parse_json(text, text + length, kMaxDepth, GDN_STATUS_CORRUPT, origin_ + ": header");
        data_ = bytes + 8 + length;
        data_bytes_ = size - 8 - length;
        for (const auto &[name, value] : header.items()) {
            if (name == "__metadata__")
                read_metadata(value);
            else
                entries_.push_back(read_entry(name, value));
        }
        check_offsets();
    }

    const std::vector<Entry> &entries() const { return entries_; }
    const std::map<std::string, std::string> &metadata() const { return metadata_; }
    const std::uint8_t *bytes_of(const Entry &entry) const { return data_ + entry.begin; }

    [[noreturn]] void bad(const std::string &text) const { fail(GDN_STATUS_CORRUPT, origin_ + ": " + text); }
    [[noreturn]] void bad(const std::string &tensor, const std::string &text) const { bad("tensor '" + tensor + "': " + text); }

private:
    void read_metadata(const json &value) {
        if (!value.is_object()) bad(std::string("__metadata__: expected an object, found ") + value.type_name());
        for (const auto &[name, text] : value.items()) {
            if (!text.is_string()) bad("__metadata__: expected a string in '" + name + "', found " + text.type_name());
            metadata_[name] = text.get<std::string>();
        }
    }

    std::uint64_t size_of(const std::string &tensor, const char *what, const json &value) const {
        if (!value.is_number_unsigned()) bad(tensor, std::string(what) + ": expected integers of 0 or more, found " + value.dump());
        return value.get<std::uint64_t>();
    }

    Entry read_entry(const std::string &name, const json &value) const {
        if (!value.is_object()) bad(name, std::string("expected an object, found ") + value.type_name());
        for (const auto &item : value.items()) {
            if (item.key() != "dtype" && item.key() != "shape" && item.key() != "data_offsets")
                bad(name, "expected dtype, shape and data_offsets, found '" + item.key() + "'");
        }
        for (const char *part : {"dtype", "shape", "data_offsets"}) {
            if (!value.contains(part)) bad(name, std::string("expected ") + part + ", found none");
        }
        Entry entry{name, nullptr, {}, 1, 0, 0};
        const json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
        for (const Dtype &known : kDtypes) {
            if (dtype.is_string() && dtype.get<std::string>() == known.name) entry.dtype = &known;
        }
        if (!entry.dtype) bad(name, "expected a known dtype, found " + dtype.dump());
        if (!shape.is_array() || shape.size() > kMaxDims)
            bad(name, "shape: expected an array of at most " + std::to_string(kMaxDims) + ", found " + brief(shape));
        for (const json &extent : shape) {
            const std::uint64_t size = size_of(name, "shape", extent);
            if (size > INT64_MAX || __builtin_mul_overflow(entry.count, size, &entry.count) || entry.count > INT64_MAX)
                bad(name, "expected a shape whose product fits 64 bits, found " + shape.dump());
            entry.shape.push_back(static_cast<std::int64_t>(size));
        }
        std::uint64_t bytes;
        if (__builtin_mul_overflow(entry.count, entry.dtype->bytes, &bytes))
            bad(name, "expected a size that fits 64 bits, found " + shape.dump() + " of " + entry.dtype->name);
        if (!offsets.is_array() || offsets.size() != 2) bad(name, "data_offsets: expected two numbers, found " + brief(offsets));
        entry.begin = size_of(name, "data_offsets", offsets[0]);
        entry.end = size_of(name, "data_offsets", offsets[1]);
        if (entry.begin > entry.end || entry.end > data_bytes_)
            bad(name, "data_offsets: expected begin <= end <= " + std::to_string(data_bytes_) + ", found " + offsets.dump());
        if (entry.end - entry.begin != bytes)
            bad(name, "data_offsets: expected " + std::to_string(bytes) + " bytes for " + text_of(entry.shape) + " of " +
                          entry.dtype->name + ", found " + std::to_string(entry.end - entry.begin));
        return entry;
    }

    // Disjoint and without holes: a file has no room for what its header does not name.
    void check_offsets() const {
        std::vector<const Entry *> order;
        for (const Entry &entry : entries_) order.push_back(&entry);
        std::sort(order.begin(), order.end(),
            [](const Entry *a, const Entry *b) { return std::tie(a->begin, a->end) < std::tie(b->begin, b->end); });
        std::uint64_t at = 0;
        for (const Entry *entry : order) {
            if (entry->begin != at)
                bad(entry->name, "data_offsets: expected to begin at " + std::to_string(at) + ", where the tensor before it ends, found " +
                                     std::to_string(entry->begin));
            at = entry->end;
        }
        if (at != data_bytes_) bad("expected " + std::to_string(at) + " bytes of tensors, found " + std::to_string(data_bytes_));
    }

    static std::string brief(const json &value) {
        return value.is_array() ? "an array of " + std::to_string(value.size()) : std::string(value.type_name());
    }

    const std::string &origin_;
    const std::uint8_t *data_ = nullptr;
    std::uint64_t data_bytes_ = 0;
    std::vector<Entry> entries_;
    std::map<std::string, std::string> metadata_;
};

std::string system_error(const std::string &what, const std::string &path) {
    return path + ": cannot " + what + ": " + std::strerror(errno);
}

/// A file mapped read-only.
class Mapping {
public:
    explicit Mapping(const std::string &path) {
        const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (file < 0) fail(GDN_STATUS_IO, system_error("open", path));
        struct stat info;
        const bool regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
        size_ = regular ? static_cast<std::size_t>(info.st_size) : 0;
        if (size_ > 0) bytes_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
        const std::string error = bytes_ == MAP_FAILED ? system_error("map", path) : "";
        close(file);
        if (!regular) fail(GDN_STATUS_IO, path + ": expected a file, found something else");
        if (!error.empty()) fail(GDN_STATUS_IO, error);
    }
    ~Mapping() {
        if (bytes_) munmap(bytes_, size_);
    }
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;

    const std::uint8_t *data() const { return static_cast<const std::uint8_t *>(bytes_); }
    std::size_t size() const { return size_; }

private:
    void *bytes_ = nullptr;
    std::size_t size_ = 0;
};

/// A new file beside `path` that takes its name at the end, or goes without a trace.
class Replacement {
public:
    explicit Replacement(const std::string &path) : path_(path) {
        struct stat info;
        if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
            fail(GDN_STATUS_IO, path + ": expected a file or nothing, found something else");
        static std::atomic<unsigned> counter{0};
        for (int i = 0; i < 100 && file_ < 0; i++) {
            temporary_ = path + ".new-" + std::to_string(getpid()) + "-" + std::to_string(counter++);
            file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            if (file_ < 0 && errno != EEXIST) break;
        }
        if (file_ < 0) fail(GDN_STATUS_IO, system_error("create", temporary_));
    }
    ~Replacement() {
        if (file_ < 0) return;
        close(file_);
        unlink(temporary_.c_str());
    }
    Replacement(const Replacement &) = delete;
    Replacement &operator=(const Replacement &) = delete;

    void write(const void *bytes, std::size_t size) {
        const char *at = static_cast<const char *>(bytes);
        while (size > 0) {
            const ssize_t written = ::write(file_, at, std::min(size, std::size_t{1} << 30));
            if (written < 0 && errno == EINTR) continue;
            if (written <= 0) fail(GDN_STATUS_IO, system_error("write", path_));
            at += written;
            size -= static_cast<std::size_t>(written);
        }
    }
    void commit() {
        if (fsync(file_) != 0 && errno != EINVAL) fail(GDN_STATUS_IO, system_error("write", path_));
        if (rename(temporary_.c_str(), path_.c_str()) != 0) fail(GDN_STATUS_IO, system_error("replace", path_));
        close(file_);
        file_ = -1;
    }

private:
    std::string path_, temporary_;
    int file_ = -1;
};

}  // namespace

StateDict decode_safetensors(const std::uint8_t *bytes, std::size_t size, const std::string &origin, const std::string &prefix,
    std::map<std::string, std::string> *metadata) {
    const Header header(bytes, size, origin);
    StateDict tensors;
    for (const Entry &entry : header.entries()) {
        if (!is_under(entry.name, prefix)) continue;
        if (!entry.dtype->widen) header.bad(entry.name, std::string("expected numbers that float32 holds, found ") + entry.dtype->name);
        Tensor &tensor = tensors[entry.name];
        tensor.shape = entry.shape;
        tensor.data.resize(entry.count);
        const std::size_t good = entry.dtype->widen(header.bytes_of(entry), entry.count, tensor.data.data());
        if (good != entry.count)
            header.bad(
                entry.name, "expected values that float32 holds, found another at " + std::to_string(good) + " of " + entry.dtype->name);
    }
    if (metadata) *metadata = header.metadata();
    return tensors;
}

std::string encode_safetensors_header(const StateDict &tensors, const std::map<std::string, std::string> &metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    std::uint64_t at = 0;
    for (const auto &[name, tensor] : tensors) {
        if (name == "__metadata__")
            fail(GDN_STATUS_INVALID_ARGUMENT, "tensor '__metadata__': expected another name: the format has taken this one");
        const std::int64_t count = elements(tensor.shape, name);
        if (static_cast<std::uint64_t>(count) != tensor.data.size())
            fail(GDN_STATUS_INVALID_ARGUMENT, "tensor '" + name + "': expected " + std::to_string(count) + " values for " +
                                                  text_of(tensor.shape) + ", found " + std::to_string(tensor.data.size()));
        const std::uint64_t end = at + sizeof(float) * tensor.data.size();
        header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
        at = end;
    }
    std::string text;
    try {
        text = header.dump();
    } catch (const json::exception &error) {
        fail(GDN_STATUS_INVALID_ARGUMENT, std::string("tensor names and metadata: expected UTF-8, found: ") + error.what());
    }
    text.append((8 - text.size() % 8) % 8, ' ');  // tensors begin at a multiple of 8
    if (text.size() > kMaxHeader)
        fail(GDN_STATUS_INVALID_ARGUMENT,
            "header: expected at most " + std::to_string(kMaxHeader) + " bytes, found " + std::to_string(text.size()));
    const std::uint64_t length = text.size();
    return std::string(reinterpret_cast<const char *>(&length), sizeof length) + text;
}

StateDict read_safetensors(const std::string &path, std::map<std::string, std::string> *metadata, const std::string &prefix) {
    const Mapping file(path);
    try {
        return decode_safetensors(file.data(), file.size(), path, prefix, metadata);
    } catch (const std::bad_alloc &) {
        fail(GDN_STATUS_OUT_OF_MEMORY, path + ": expected memory for its tensors as float32, found too little");
    }
}

void write_safetensors(const std::string &path, const StateDict &tensors, const std::map<std::string, std::string> &metadata) {
    const std::string header = encode_safetensors_header(tensors, metadata);
    Replacement file(path);
    file.write(header.data(), header.size());
    for (const auto &[name, tensor] : tensors) file.write(tensor.data.data(), sizeof(float) * tensor.data.size());
    file.commit();
}

}  // namespace gdn::layer
