#!/usr/bin/env bash
# no_directives.sh SOURCE_DIR: generators/ say what is computed; a scheduling directive there is in the wrong place. Facts about buffers
# (set_bounds, set_min, set_stride, set_host_alignment, set_estimate) may stand there.
words='vectorize|parallel|serial|unroll|tile|split|fuse|reorder|reorder_storage|compute_at|compute_root|compute_inline|compute_with|store_in|store_at'
words+='|store_root|hoist_storage|hoist_storage_root|bound|bound_extent|bound_storage|align_bounds|align_extent|align_storage|fold_storage|ring_buffer'
words+='|async|atomic|prefetch|specialize|specialize_fail|partition|never_partition|never_partition_all|always_partition|always_partition_all'
words+='|rfactor|unscheduled|memoize|eager_inline|clone_in|copy_to_device|copy_to_host|gpu|gpu_blocks|gpu_threads|gpu_lanes|gpu_tile|gpu_single_thread'
if grep -rnE "(\.|->)($words)\(" "$1/generators" --include='*.cpp' --include='*.h'; then
    echo "scheduling directives in generators/; they belong in schedules/"
    exit 1
fi
# The words themselves: the schedules use many of them, so an empty search there would mean that the pattern is broken.
[[ $(grep -rhoE "(\.|->)($words)\(" "$1/schedules" | sort -u | wc -l) -ge 5 ]] || { echo "the pattern finds nothing in schedules/ either"; exit 1; }
