// A call of the mixer as a value: the operator's Case and what stands around it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../reference/mixer.h"
#include "case.h"

namespace gdn_test {

// How a convolution's weights lie in memory.
enum class WeightOrder { kChannelsInner, kHeadsOuter, kCheckpoint };  // [W, H, K], [H, W, K], [H, K, W]

struct MixerCase {
    Case op;
    std::int64_t W = 4;  // 0: no convolution
    bool bias = false;
    WeightOrder order = WeightOrder::kChannelsInner;
    gdn_activation activation = GDN_ACTIVATION_SILU;
    bool conv_initial = true, conv_final = true, conv_in_place = false;

    bool norm = true, norm_weight = true;
    gdn_activation gate = GDN_ACTIVATION_SILU;  // NONE: no z
    gdn_dtype z_dtype = GDN_DTYPE_NONE;         // NONE: as q
    double eps = 1e-5;
};

std::string name(const MixerCase &c);
void PrintTo(const MixerCase &c, std::ostream *out);

// The memory of one call.
class MixerProblem {
public:
    explicit MixerProblem(const MixerCase &c);

    const MixerCase &what() const { return case_; }
    const gdn_reference::MixerOperands &operands() const { return operands_; }
    Problem &op() { return op_; }
    gdn_mixer_args &args() { return args_; }  // args().op is op().args()
    HostTensor weight[3], bias[3], initial[3], final[3], z, norm_weight;

    void reset();
    gdn_status run(const Context &context, Call call = Call::kForward);
    // y and states within bounds, convolution states exact, everything else untouched.
    ::testing::AssertionResult check(const gdn_reference::MixerResult &expected, const std::string &target);
    ::testing::AssertionResult untouched();

    // y, recurrent and convolution states: for bitwise comparison.
    std::vector<unsigned char> output_bits() const;
    HostTensor &final_of(int i) { return case_.conv_in_place ? initial[i] : final[i]; }
    const HostTensor &final_of(int i) const { return case_.conv_in_place ? initial[i] : final[i]; }

private:
    std::vector<HostTensor *> inputs();
    std::int64_t final_slot(std::int64_t n) const;

    MixerCase case_;
    Problem op_;
    gdn_reference::MixerOperands operands_;
    gdn_mixer_args args_;
    std::vector<std::uint64_t> input_hashes_;
};

// The reference's result; the last few are kept.
std::shared_ptr<const gdn_reference::MixerResult> reference_of(const MixerCase &c, const MixerProblem &problem);

::testing::AssertionResult matches_reference(const MixerCase &c, const Context &context, Call call = Call::kForward);

}  // namespace gdn_test
