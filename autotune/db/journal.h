// What a tuning run found, in SQLite: kill -9 at any moment loses at most what was being measured, and so does a power cut (WAL with
// synchronous=FULL: a transaction is on the disk when add() returns). People read it with `sqlite3 x.db`: tables run, task and trial,
// view best.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "autotune/measure/measurer.h"

namespace gdn::tune {

/// Which machine this is: what makes measurements comparable.
struct Device {
    std::string vendor, name, architecture;  // "AuthenticAMD", "AMD EPYC 9B14", "znver4": see gdn_device_info
    std::string features;                    // names of usable CPU features, sorted, separated by blanks
    int cores = 0, threads = 0;
    int64_t l1_bytes = 0, l2_bytes = 0, l3_bytes = 0;
    std::string key() const;  // file name: "authenticamd-amd_epyc_9b14"
    std::string json() const;
    static Device parse(const std::string &json);
    /// "" where measurements of the two may be mixed, else what differs: "name: A here, B there".
    std::string difference(const Device &other) const;
};
Device this_device();

/// One kernel of one target for one length class.
struct Task {
    std::string kernel, target;
    LengthClass length_class = LengthClass::kAny;
    std::vector<Shape> shapes;
    Space space;  // as searched
    Config default_config;
    std::string kernel_arguments;
    std::string searcher;
    uint64_t seed = 0;
    size_t batch = 0;  // candidates asked for at a time
    int rounds = 7;    // timed, of a batch
    int shard = 0, shards = 1;
    std::string name() const;  // "core_chunk_channel_tied_128x128 x86_avx512 long"
    /// "" where trials of the two may be mixed, else what differs: "seed: 1 here, 2 there". Which shard is no difference.
    std::string difference(const Task &other) const;
};

struct RunInfo {
    Device device;
    std::string generator_hash, halide_version, gdn_version, date;
    std::string doctor;  // JSON of doctor's findings
    bool noisy = false;  // measured with --force on a machine that doctor found unfit
};

class Journal {
public:
    /// A new file; throws Error if it exists, or cannot be written.
    static Journal create(const std::string &path, const RunInfo &info);
    /// Throws Error: no SQLite file, not a journal, a newer schema, corrupt (PRAGMA quick_check), unreadable; unless `read_only`, also a
    /// file or folder that cannot be written, or a journal that another run writes. A process opens a file for writing once.
    static Journal open(const std::string &path, bool read_only);
    ~Journal();
    Journal(Journal &&) noexcept;

    const RunInfo &info() const;
    /// Throws Error that names the difference: device, generator hash.
    void require_same(const RunInfo &now) const;
    /// From now on its results carry the mark of a machine that doctor found unfit.
    void mark_noisy(const std::string &doctor);

    /// The task's number; made if it is not there. Throws Error naming what differs where the same kernel and class has another space,
    /// shapes, default, searcher, seed, batch or shard. Configurations that are named (searcher "given") join whatever search there is.
    int64_t task(const Task &task);
    std::vector<std::pair<int64_t, Task>> tasks() const;

    /// One transaction. `phase`: "search" or "final". A second trial of a configuration in one phase replaces the first. Trials of the
    /// search void a final phase that is there: its trials and winner go.
    void add(int64_t task, const std::string &phase, const std::vector<Trial> &trials);
    std::vector<Trial> trials(int64_t task, const std::string &phase) const;  // in order of addition
    /// Set once the final phase is through: the winner's config.
    void finish(int64_t task, const Config &winner, const std::string &why);
    struct Finish {
        bool done = false;
        Config winner;
        std::string why;
    };
    Finish finished(int64_t task) const;

private:
    struct State;
    explicit Journal(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace gdn::tune
