// What measuring a kernel asks of the machine: work of a call, memory of the child processes.
#pragma once
#include "autotune/measure/measurer.h"

namespace gdn::tune {

/// Shapes here are resolved().
Measurer::Work work_of(const Kernel &kernel, const Shape &shape);
/// What one child holds: of all shapes the tensors, of one at a time the reference that it is verified against; and the child itself.
double child_bytes(const Kernel &kernel, const std::vector<Shape> &shapes);
/// Throws TaskError where that is more than a candidate may have.
void require_memory(const Kernel &kernel, const std::vector<Shape> &shapes, uint64_t most);
/// Children beside the anchor's that may live at a time, at least one: they get half of what is `available` (0: nobody knows).
size_t children_together(double child_bytes, double available);

}  // namespace gdn::tune
