// Child processes with limits: what they are given, how long they may take, how they ended.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gdn::tune {

struct Exit {
    enum class Kind { kCode, kSignal, kTimeout, kStopped, kNotStarted } kind = Kind::kNotStarted;
    int value = 0;     // exit code or signal
    std::string text;  // "exit code 1", "signal 11 (Segmentation fault)", "no answer in 5 s", "stopped", "cannot run x: ..."
    bool ok() const { return kind == Kind::kCode && value == 0; }
};

struct ChildOptions {
    std::vector<std::string> argv;
    uint64_t memory_bytes = 0;                // address space limit, 0 = none
    bool merge_stderr = false;                // stderr into the captured output; else it is inherited
    int cpu = -1;                             // pin to this CPU
    const std::atomic<bool> *stop = nullptr;  // once it is set, a wait for the child kills it
};

/// A child with pipes at stdin and stdout, in a process group of its own. It dies with the thread that made it (PR_SET_PDEATHSIG), so that
/// thread must outlive it. Whatever the child has started and left in its group ends with it. No call waits for ever.
class Child {
public:
    explicit Child(const ChildOptions &options);
    ~Child();  // kills the group and reaps
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

    /// False once the child does not read any more.
    bool write_line(const std::string &line);
    /// The next line, or the rest without a line end; false after `seconds` (the child is killed, exit() says kTimeout) or when the child
    /// has ended.
    bool read_line(std::string *line, double seconds);
    /// Non-blocking: whether it has ended.
    bool ended();
    /// Closes its input and returns everything it printed until it ended or `seconds` passed (then it is killed). Of very much output the
    /// end.
    std::string read_all(double seconds);
    /// Closes its input and waits; a child that still runs after ten seconds is killed.
    const Exit &exit();

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Runs to the end. `output` receives stdout (and stderr when merged).
Exit run(const ChildOptions &options, double seconds, std::string *output);

}  // namespace gdn::tune
