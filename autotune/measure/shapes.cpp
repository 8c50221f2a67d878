#include "autotune/measure/shapes.h"

#include <algorithm>
#include <charconv>

namespace gdn::tune {

namespace {

constexpr const char *kClassNames[] = {"any", "decode", "block", "short", "long"};
constexpr int64_t kLongestShort = 256;
constexpr int64_t kMostValues = 4096;                // shapes of one text
constexpr int64_t kMostElements = int64_t{1} << 28;  // of one tensor: a call in a child with limited memory

struct Field {
    const char *name;
    int64_t most;
};
constexpr Field kFields[] = {{"B", 1 << 16}, {"T", 1 << 24}, {"H", 1 << 12}, {"K", 256}, {"V", 256}, {"threads", 4096}, {"cold", 1}};
constexpr int kFieldCount = 7;

int64_t value_of(const Shape &s, int field) {
    const int64_t values[kFieldCount] = {s.B, s.T, s.H, s.K, s.V, s.threads, s.cold};
    return values[field];
}

void set(Shape *s, int field, int64_t value) {
    switch (field) {
    case 0: s->B = value; break;
    case 1: s->T = value; break;
    case 2: s->H = value; break;
    case 3: s->K = value; break;
    case 4: s->V = value; break;
    case 5: s->threads = static_cast<int>(value); break;
    case 6: s->cold = value != 0; break;
    }
}

std::vector<std::string> split(const std::string &text, char at) {
    std::vector<std::string> parts;
    for (size_t from = 0;;) {
        const size_t to = text.find(at, from);
        parts.push_back(text.substr(from, to == std::string::npos ? to : to - from));
        if (to == std::string::npos) return parts;
        from = to + 1;
    }
}

int64_t number(const std::string &text, const Field &field, const std::string &whole) {
    int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const int64_t least = std::string(field.name) == "cold" ? 0 : 1;
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > field.most) {
        throw Error("shape \"" + whole + "\": " + field.name + " is \"" + text + "\", expected a whole number from " +
                    std::to_string(least) + " to " + std::to_string(field.most));
    }
    return value;
}

/// "64", "1024:8192:x2" or "8:32:+8".
void append(const std::string &text, const Field &field, const std::string &whole, std::vector<int64_t> *values) {
    const std::vector<std::string> parts = split(text, ':');
    if (parts.size() == 1) {
        values->push_back(number(text, field, whole));
        return;
    }
    const char kind = parts.size() == 3 && !parts[2].empty() ? parts[2][0] : 0;
    if (kind != 'x' && kind != '+') {
        throw Error("shape \"" + whole + "\": \"" + text + "\" is no range, expected FIRST:LAST:xFACTOR or FIRST:LAST:+STEP");
    }
    const int64_t first = number(parts[0], field, whole), last = number(parts[1], field, whole);
    const int64_t step = number(parts[2].substr(1), {field.name, int64_t{1} << 24}, whole);
    if (first > last || (kind == 'x' && step < 2)) {
        throw Error("shape \"" + whole + "\": the range \"" + text + "\" never reaches its end");
    }
    for (int64_t v = first; v <= last; v = kind == 'x' ? v * step : v + step) {
        values->push_back(v);
        if (values->size() > static_cast<size_t>(kMostValues)) throw Error("shape \"" + whole + "\" means more than 4096 shapes");
    }
}

/// Heads whose states fill about a megabyte: as much as a core keeps near.
int64_t heads_of(int64_t k, int64_t v) { return std::clamp<int64_t>((int64_t{1} << 18) / (k * v), 2, 16); }

}  // namespace

const char *name_of(LengthClass c) { return kClassNames[static_cast<int>(c)]; }

LengthClass length_class_of(const std::string &name) {
    for (int i = 0; i < 5; i++) {
        if (name == kClassNames[i]) return static_cast<LengthClass>(i);
    }
    throw Error("length class \"" + name + "\" is unknown, expected any, decode, block, short or long");
}

bool decodes(const std::string &family) { return family == "core_step" || family == "core_pending" || family == "short_conv_step"; }

std::vector<LengthClass> classes_of(const std::string &family) {
    if (family == "core_chunk") return {LengthClass::kShort, LengthClass::kLong};
    if (family == "core_block") return {LengthClass::kBlock};
    return {decodes(family) ? LengthClass::kDecode : LengthClass::kAny};
}

LengthClass class_of(const Kernel &kernel, const Shape &shape) {
    if (kernel.family == "core_chunk") return shape.T <= kLongestShort ? LengthClass::kShort : LengthClass::kLong;
    return classes_of(kernel.family)[0];
}

bool Shape::operator==(const Shape &other) const {
    for (int i = 0; i < kFieldCount; i++) {
        if (value_of(*this, i) != value_of(other, i)) return false;
    }
    return true;
}

std::string text_of(const Shape &shape) {
    std::string text = "B=" + std::to_string(shape.B) + ",T=" + std::to_string(shape.T) + ",H=" + std::to_string(shape.H);
    if (shape.K) text += ",K=" + std::to_string(shape.K);
    if (shape.V) text += ",V=" + std::to_string(shape.V);
    if (shape.threads != 1) text += ",threads=" + std::to_string(shape.threads);
    if (shape.cold) text += ",cold=1";
    return text;
}

std::vector<Shape> parse_shapes(const std::string &text) {
    std::vector<int64_t> values[kFieldCount];
    int field = -1;
    for (std::string item : split(text, ',')) {
        const size_t equals = item.find('=');
        if (equals != std::string::npos) {
            const std::string name = item.substr(0, equals);
            for (field = 0; field < kFieldCount && name != kFields[field].name; field++) {
            }
            if (field == kFieldCount) {
                throw Error("shape \"" + text + "\": \"" + name + "\" is unknown, expected B, T, H, K, V, threads or cold");
            }
            if (!values[field].empty()) throw Error("shape \"" + text + "\" names " + name + " twice");
            item = item.substr(equals + 1);
        }
        if (field < 0) throw Error("shape \"" + text + "\" does not begin with a name, expected the form B=1,T=1024,H=16");
        append(item, kFields[field], text, &values[field]);
    }
    Shape one;
    one.T = 1;
    std::vector<Shape> shapes = {one};
    for (int f = 0; f < kFieldCount; f++) {
        if (values[f].empty()) continue;
        std::vector<Shape> more;
        for (const Shape &shape : shapes) {
            for (const int64_t value : values[f]) {
                more.push_back(shape);
                set(&more.back(), f, value);
            }
        }
        if (more.size() > static_cast<size_t>(kMostValues)) throw Error("shape \"" + text + "\" means more than 4096 shapes");
        shapes = std::move(more);
    }
    return shapes;
}

KernelSize size_of(const std::map<std::string, std::string> &params) {
    KernelSize size;
    const auto found = params.find("size");
    if (found == params.end()) return size;
    const std::string &text = found->second;
    const size_t x = text.find('x');
    if (text.compare(0, 3, "any") == 0) {
        if (x != std::string::npos) size.unit = std::stoll(text.substr(x + 1));
    } else {
        size.k = std::stoll(text.substr(0, x));
        size.v = std::stoll(text.substr(x + 1));
    }
    return size;
}

Shape resolved(const Kernel &kernel, Shape shape) {
    const auto refuse = [&](const std::string &why) -> Error {
        return Error(kernel.name + " takes no shape " + text_of(shape) + ": " + why);
    };
    const KernelSize size = size_of(kernel.params);
    if ((size.k && shape.K && shape.K != size.k) || (size.v && shape.V && shape.V != size.v)) {
        throw refuse("it is made for K=" + std::to_string(size.k) + ",V=" + std::to_string(size.v));
    }
    if (size.k) shape.K = size.k;
    if (size.v) shape.V = size.v;
    if (!shape.K) shape.K = kernel.family == "stage" ? 64 : size.unit > 16 || kernel.family.compare(0, 4, "core") == 0 ? 160 : 128;
    if (!shape.V) shape.V = shape.K % size.unit ? 192 : shape.K;
    if (kernel.family.compare(0, 4, "core") == 0 || kernel.family == "stage") {
        if (shape.K % 16) throw refuse("K is no multiple of 16");
        if (shape.V % size.unit) throw refuse("V is no multiple of " + std::to_string(size.unit));
    }
    if (decodes(kernel.family) ? shape.T != 1 : shape.cold)
        throw refuse(shape.cold ? "only decoding has cold states" : "it takes one token");
    if (kernel.family == "core_block" && (shape.T < 4 || shape.T > 8)) throw refuse("a block has 4 to 8 tokens");
    if (kernel.family == "core_chunk" && shape.T < 8) throw refuse("a chunk has 8 tokens");
    if (shape.B * shape.T * shape.H * std::max(shape.K, shape.V) > kMostElements || shape.B * shape.H * shape.K * shape.V > kMostElements) {
        throw refuse("a tensor of it has more than " + std::to_string(kMostElements) + " elements");
    }
    return shape;
}

std::vector<Shape> default_shapes(const Kernel &kernel, LengthClass c) {
    Shape any;
    any.T = decodes(kernel.family) ? 1 : 8;
    const Shape sizes = resolved(kernel, any);
    std::vector<int64_t> tokens;
    switch (c) {
    case LengthClass::kShort: tokens = {64, 128}; break;
    case LengthClass::kLong: tokens = {1024, 4096}; break;  // from cache for the greater part, and from memory
    case LengthClass::kBlock: tokens = {4, 8}; break;
    case LengthClass::kDecode: tokens = {1, 1}; break;
    case LengthClass::kAny: tokens = {256}; break;
    }
    const std::vector<LengthClass> known = classes_of(kernel.family);
    if (std::find(known.begin(), known.end(), c) == known.end()) throw Error(kernel.name + " has no length class " + name_of(c));
    std::vector<Shape> shapes;
    for (size_t i = 0; i < tokens.size(); i++) {
        Shape shape;
        shape.T = tokens[i];
        shape.H = c == LengthClass::kDecode ? 16 : heads_of(sizes.K, sizes.V);
        if (shape.T > 1024) shape.H = std::max<int64_t>(1, shape.H / 2);
        shape.cold = c == LengthClass::kDecode && i == 0;
        const KernelSize own = size_of(kernel.params);
        if (!own.k) shape.K = sizes.K;
        if (!own.v) shape.V = sizes.V;
        shapes.push_back(shape);
    }
    return shapes;
}

}  // namespace gdn::tune
