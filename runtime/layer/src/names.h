// Spellings of the enums of layer.hpp in configuration files and on the command line.
#pragma once
#include <string>

#include "gdn/layer.hpp"

namespace gdn::layer {

const char *text_of(Kind kind);
const char *text_of(Mode mode);
const char *text_of(OutputGate gate);
const char *text_of(DecayGate gate);

// Each throws Error naming `field`, the values there are and the one given.
Kind kind_from_text(const std::string &text, const char *field);
Mode mode_from_text(const std::string &text, const char *field);
OutputGate output_gate_from_text(const std::string &text, const char *field);
DecayGate decay_from_text(const std::string &text, const char *field);

}  // namespace gdn::layer
