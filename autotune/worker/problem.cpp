#include "autotune/worker/failure.h"
#include "autotune/worker/problem.h"

namespace gdn::tune {

std::unique_ptr<Problem> make_problem(const Job &job, const Shape &shape, bool small) {
    if (job.family.compare(0, 4, "core") == 0 || job.family == "stage") return make_operator_problem(job, shape, small);
    throw Failure(Status::kLaunchFailed, "kernels of family " + job.family + " cannot be measured");
}

}  // namespace gdn::tune
