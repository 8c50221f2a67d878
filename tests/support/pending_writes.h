// Calls whose last write stays pending.
#pragma once

#include <cstdint>

#include "grid.h"

namespace gdn_test {

// The rows of initial_pending and final_pending beside a problem's states, and the calls that use them.
class PendingWrites {
public:
    // Rows of float32 calls lie at odd addresses: a caller's memory is aligned to its elements and no further.
    explicit PendingWrites(Problem &problem)
        : args_(problem.args()), slots_(args_.final_state.shape[0]),
          rows_(GDN_DTYPE_F32, {slots_, problem.what().HV, 2 * problem.what().K + problem.what().V}, Guard::kEnd,
              {0, problem.what().dtype == GDN_DTYPE_F32 ? 1 : 0}) {
        rows_.poison();
    }

    // Token t of every sequence: the first from the problem's initial state with nothing pending, the others in place.
    gdn_status step(const Context &context, std::int64_t t, bool pending = true) {
        gdn_args args = time_slice(args_, t, 1);
        if (t > 0) from_final(&args);
        if (pending) {
            args.final_pending = rows_.view();
            if (t > 0) args.initial_pending = rows_.view();
        }
        return gdn_step(context.get(), &args, nullptr, 0);
    }
    // The rest of the tokens through gdn_forward; none brings the states up to date.
    gdn_status forward(const Context &context, std::int64_t t, std::int64_t count, bool leave) {
        gdn_args args = time_slice(args_, t, count);
        from_final(&args);
        args.initial_pending = rows_.view();
        if (leave) args.final_pending = rows_.view();
        return gdn_forward(context.get(), &args, nullptr, 0);
    }
    HostTensor &rows() { return rows_; }
    static void from_final(gdn_args *args) {
        args->initial_state = args->final_state;
        args->initial_slots = args->final_slots;
    }

private:
    gdn_args args_;
    std::int64_t slots_;
    HostTensor rows_;
};

}  // namespace gdn_test
