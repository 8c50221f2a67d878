// The configuration: what goes together, and its JSON.
#include <cmath>
#include <functional>
#include <tuple>

#include "fail.h"
#include "names.h"
#include "strict_json.h"

namespace gdn::layer {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::int64_t kMaxChannels = 256;                 // K and V of the operator
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 27;  // rows of one projection: all of a layer packed still fit a CBLAS int
constexpr std::size_t kMaxText = std::size_t{1} << 20;

void require(bool good, const std::string &field, const std::string &expected, const std::string &found) {
    if (!good) fail_field(field, expected, found);
}

void require_range(const std::string &field, std::int64_t value, std::int64_t low, std::int64_t high) {
    require(value >= low && value <= high, field, std::to_string(low) + " to " + std::to_string(high), std::to_string(value));
}

/// V, or 0 where head_dim * expand_v is not a whole number.
std::int64_t whole_value_dim(const Config &config) {
    const double wide = static_cast<double>(config.head_dim) * config.expand_v;
    if (!(wide >= 0.5 && wide <= static_cast<double>(kMaxWidth))) return 0;
    const double whole = std::round(wide);  // 192 * (2 / 3.) is 128 but for the last bit
    return std::abs(wide - whole) <= 1e-9 * whole ? static_cast<std::int64_t>(whole) : 0;
}

bool is_fg2(Kind kind) { return kind == Kind::kFg2 || kind == Kind::kFg2Plus; }

// The enums arrive as numbers too: a value without a name is refused like any other.
template <typename Enum> void require_named(const char *field, Enum value) {
    require(std::string(text_of(value)) != "unknown", field, "one of its names", std::to_string(static_cast<int>(value)));
}

std::int64_t integer_of(const json &value, const std::string &field) {
    if (!value.is_number_integer()) fail_field(field, "an integer", value.dump());
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
        fail_field(field, "an integer below 2^63", value.dump());
    return value.get<std::int64_t>();
}
double number_of(const json &value, const std::string &field) {
    if (!value.is_number()) fail_field(field, "a number", value.dump());
    return value.get<double>();
}
bool flag_of(const json &value, const std::string &field) {
    if (!value.is_boolean()) fail_field(field, "true or false", value.dump());
    return value.get<bool>();
}
std::string word_of(const json &value, const std::string &field) {
    if (!value.is_string()) fail_field(field, "a string", value.dump());
    return value.get<std::string>();
}

// One row a field; to_json writes them in this order.
struct Field {
    const char *name;
    std::function<void(Config &, const json &)> read;
    std::function<ordered_json(const Config &)> write;
};

Field field(const char *name, std::int64_t Config::*member) {
    return {name, [=](Config &c, const json &v) { c.*member = integer_of(v, name); }, [=](const Config &c) { return c.*member; }};
}
Field field(const char *name, std::optional<std::int64_t> Config::*member) {
    return {name,
        [=](Config &c, const json &v) { c.*member = v.is_null() ? std::nullopt : std::optional<std::int64_t>(integer_of(v, name)); },
        [=](const Config &c) { return c.*member ? ordered_json(*(c.*member)) : ordered_json(nullptr); }};
}
Field field(const char *name, double Config::*member) {
    return {name, [=](Config &c, const json &v) { c.*member = number_of(v, name); }, [=](const Config &c) { return c.*member; }};
}
Field field(const char *name, bool Config::*member) {
    return {name, [=](Config &c, const json &v) { c.*member = flag_of(v, name); }, [=](const Config &c) { return c.*member; }};
}
template <typename Enum> Field field(const char *name, Enum Config::*member, Enum (*parse)(const std::string &, const char *)) {
    return {name, [=](Config &c, const json &v) { c.*member = parse(word_of(v, name), name); },
        [=](const Config &c) { return text_of(c.*member); }};
}

const std::vector<Field> &fields() {
    static const std::vector<Field> list = {
        field("kind", &Config::kind, kind_from_text),
        field("hidden_size", &Config::hidden_size),
        field("num_heads", &Config::num_heads),
        field("num_v_heads", &Config::num_v_heads),
        field("head_dim", &Config::head_dim),
        field("expand_v", &Config::expand_v),
        field("mode", &Config::mode, mode_from_text),
        field("chunk_size", &Config::chunk_size),
        field("use_short_conv", &Config::use_short_conv),
        field("conv_size", &Config::conv_size),
        field("conv_bias", &Config::conv_bias),
        field("allow_neg_eigval", &Config::allow_neg_eigval),
        field("decay", &Config::decay, decay_from_text),
        field("lower_bound", &Config::lower_bound),
        field("output_gate", &Config::output_gate, output_gate_from_text),
        field("output_gate_low_rank", &Config::output_gate_low_rank),
        field("output_gate_bias", &Config::output_gate_bias),
        field("decay_rank", &Config::decay_rank),
        field("gate_rank", &Config::gate_rank),
        field("norm_eps", &Config::norm_eps),
    };
    return list;
}

auto tied(const Config &c) {
    return std::tie(c.kind, c.hidden_size, c.num_heads, c.num_v_heads, c.head_dim, c.expand_v, c.mode, c.chunk_size, c.use_short_conv,
        c.conv_size, c.conv_bias, c.allow_neg_eigval, c.decay, c.lower_bound, c.output_gate, c.output_gate_low_rank, c.output_gate_bias,
        c.decay_rank, c.gate_rank, c.norm_eps);
}

}  // namespace

bool operator==(const Config &a, const Config &b) { return tied(a) == tied(b); }

std::int64_t Config::value_dim() const {
    const std::int64_t V = whole_value_dim(*this);
    if (V == 0)
        fail_field("expand_v", "head_dim * expand_v to be a whole number of 1 or more",
            std::to_string(head_dim) + " * " + text_of(expand_v) + " = " + text_of(static_cast<double>(head_dim) * expand_v));
    return V;
}

void Config::validate() const {
    require_named("kind", kind);
    require_named("mode", mode);
    require_named("decay", decay);
    require_named("output_gate", output_gate);

    require_range("hidden_size", hidden_size, 1, kMaxWidth);
    require_range("num_heads", num_heads, 1, kMaxWidth);
    if (num_v_heads) require_range("num_v_heads", *num_v_heads, 1, kMaxWidth);
    require(value_heads() % num_heads == 0, "num_v_heads", "a multiple of num_heads = " + std::to_string(num_heads),
        std::to_string(value_heads()));
    require_range("head_dim", head_dim, 1, kMaxChannels);
    const std::int64_t V = value_dim();
    require(V <= kMaxChannels, "expand_v", "head_dim * expand_v of at most " + std::to_string(kMaxChannels),
        std::to_string(head_dim) + " * " + text_of(expand_v) + " = " + std::to_string(V));
    require_range("num_heads * head_dim", num_heads * head_dim, 1, kMaxWidth);
    require_range("value heads * head_dim", value_heads() * head_dim, 1, kMaxWidth);
    require_range("value heads * head_dim * expand_v", value_heads() * V, 1, kMaxWidth);

    require(chunk_size == 16 || chunk_size == 32 || chunk_size == 64 || chunk_size == 128, "chunk_size", "16, 32, 64 or 128",
        std::to_string(chunk_size));
    require_range("conv_size", conv_size, 2, 8);
    require(use_short_conv || !conv_bias, "conv_bias", "false where use_short_conv is false", "true");
    require(std::isfinite(norm_eps) && norm_eps > 0, "norm_eps", "a finite number above 0", text_of(norm_eps));
    require(lower_bound >= -5 && lower_bound < 0, "lower_bound", "-5 <= lower_bound < 0", text_of(lower_bound));

    if (is_fg2(kind)) {
        const std::string name = text_of(kind);
        require(value_heads() == num_heads, "num_v_heads",
            "num_heads = " + std::to_string(num_heads) + ": " + name + " has no grouped heads", std::to_string(value_heads()));
        require(!allow_neg_eigval, "allow_neg_eigval", "false: " + name + " takes the root of beta", "true");
        require(kind != Kind::kFg2 || V == head_dim, "expand_v",
            "1: fg2 scales keys and values by one beta, so K = V (fg2_plus has one for each)",
            text_of(expand_v) + ", K = " + std::to_string(head_dim) + ", V = " + std::to_string(V));
    }

    require(
        output_gate != OutputGate::kUnspecified, "output_gate", "none, silu or sigmoid (checkpoints of one naming differ)", "unspecified");
    require(
        kind != Kind::kGdn || !decay_rank, "decay_rank", "null: gdn's decay is one full matrix", std::to_string(decay_rank.value_or(0)));
    if (decay_rank) require_range("decay_rank", *decay_rank, 1, kMaxWidth);
    require(!gate_rank || (output_gate != OutputGate::kNone && output_gate_low_rank), "gate_rank", "null without a low-rank output gate",
        std::to_string(gate_rank.value_or(0)));
    if (gate_rank) require_range("gate_rank", *gate_rank, 1, kMaxWidth);
}

Config Config::defaults(Kind kind) {
    Config config;
    config.kind = kind;
    switch (kind) {
    case Kind::kGdn:
        config.head_dim = 256;
        config.num_heads = 6;
        config.expand_v = 2;
        config.output_gate = OutputGate::kSilu;
        config.output_gate_low_rank = false;
        config.output_gate_bias = false;
        break;
    case Kind::kKda: config.output_gate = OutputGate::kSigmoid; break;
    case Kind::kGdn2: break;
    case Kind::kFg2:
    case Kind::kFg2Plus:
        config.output_gate = OutputGate::kSigmoid;
        config.output_gate_bias = false;
        break;
    }
    return config;
}

Config Config::from_json(const std::string &text) {
    const std::string what = "configuration";
    if (text.size() > kMaxText) fail(GDN_STATUS_INVALID_ARGUMENT, what + ": expected at most 1 MiB, found " + std::to_string(text.size()));
    const json object = parse_json(text.data(), text.data() + text.size(), 4, GDN_STATUS_INVALID_ARGUMENT, what);
    if (!object.is_object()) fail(GDN_STATUS_INVALID_ARGUMENT, what + ": expected a JSON object, found " + object.type_name());
    if (!object.contains("kind")) fail_field("kind", "gdn, kda, gdn2, fg2 or fg2_plus", "no such field");
    Config config = defaults(kind_from_text(word_of(object["kind"], "kind"), "kind"));
    for (const auto &[name, value] : object.items()) {
        const Field *found = nullptr;
        for (const Field &field : fields()) {
            if (name == field.name) found = &field;
        }
        if (!found) {
            std::string known;
            for (const Field &field : fields()) known += (known.empty() ? "" : ", ") + std::string(field.name);
            fail(GDN_STATUS_INVALID_ARGUMENT, what + ": unknown field '" + name + "'; the fields are " + known);
        }
        found->read(config, value);
    }
    config.validate();
    return config;
}

std::string Config::to_json() const {
    ordered_json object = ordered_json::object();
    for (const Field &field : fields()) object[field.name] = field.write(*this);
    return object.dump(2) + "\n";
}

}  // namespace gdn::layer
