#include "names.h"

#include <iterator>

namespace gdn::layer {
namespace {

template <typename Enum> struct Name {
    Enum value;
    const char *text;
};

constexpr Name<Kind> kKinds[] = {
    {Kind::kGdn, "gdn"}, {Kind::kKda, "kda"}, {Kind::kGdn2, "gdn2"}, {Kind::kFg2, "fg2"}, {Kind::kFg2Plus, "fg2_plus"}};
constexpr Name<Mode> kModes[] = {{Mode::kChunk, "chunk"}, {Mode::kFusedRecurrent, "fused_recurrent"}};
constexpr Name<OutputGate> kOutputGates[] = {
    {OutputGate::kUnspecified, "unspecified"}, {OutputGate::kNone, "none"}, {OutputGate::kSilu, "silu"}, {OutputGate::kSigmoid, "sigmoid"}};
constexpr Name<DecayGate> kDecayGates[] = {{DecayGate::kSoftplus, "softplus"}, {DecayGate::kLowerBound, "lower_bound"}};
constexpr Name<Layout> kLayouts[] = {{Layout::kGdn, "gdn"}, {Layout::kFlaGdn2, "fla-gdn2"}, {Layout::kNvGdn2, "nv-gdn2"},
    {Layout::kFlaGdn, "fla-gdn"}, {Layout::kFlaKda, "fla-kda"}, {Layout::kKimiLinear, "kimi-linear"},
    {Layout::kKimiLinearFused, "kimi-linear-fused"}, {Layout::kFg2, "fg2"}, {Layout::kQwen3Next, "qwen3-next"}};

template <typename Enum, std::size_t N> const char *text(const Name<Enum> (&names)[N], Enum value) {
    for (const Name<Enum> &name : names) {
        if (name.value == value) return name.text;
    }
    return "unknown";
}

template <typename Enum, std::size_t N> Enum parse(const Name<Enum> (&names)[N], const std::string &text, const char *field) {
    std::string known;
    for (const Name<Enum> &name : names) {
        if (text == name.text) return name.value;
        known += (known.empty() ? "'" : ", '") + std::string(name.text) + "'";
    }
    throw Error(GDN_STATUS_INVALID_ARGUMENT, std::string(field) + ": expected one of " + known + ", found '" + text + "'");
}

}  // namespace

const char *text_of(Kind kind) { return text(kKinds, kind); }
const char *text_of(Mode mode) { return text(kModes, mode); }
const char *text_of(OutputGate gate) { return text(kOutputGates, gate); }
const char *text_of(DecayGate gate) { return text(kDecayGates, gate); }
std::string name_of(Layout layout) { return text(kLayouts, layout); }

Kind kind_from_text(const std::string &text, const char *field) { return parse(kKinds, text, field); }
Mode mode_from_text(const std::string &text, const char *field) { return parse(kModes, text, field); }
OutputGate output_gate_from_text(const std::string &text, const char *field) { return parse(kOutputGates, text, field); }
DecayGate decay_from_text(const std::string &text, const char *field) { return parse(kDecayGates, text, field); }
Layout layout_from_name(const std::string &name) { return parse(kLayouts, name, "layout"); }

}  // namespace gdn::layer
