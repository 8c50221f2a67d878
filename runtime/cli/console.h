// The terminal: colour where it is wanted, progress where someone watches, and Ctrl-C.
#pragma once
#include <atomic>
#include <string>

namespace gdn::cli {

/// Escape sequences of stdout, or empty strings when it is no terminal, TERM is "dumb" or NO_COLOR is set.
struct Style {
    const char *bold, *dim, *good, *bad, *off;
};
const Style &style();

/// Ctrl-C sets a flag that long loops look at; a second one ends the program at once.
void catch_interrupts();
/// Throws Failure(kExitInterrupted) once Ctrl-C was pressed.
void check_interrupt();

/// The flag itself, for loops that end by themselves.
const std::atomic<bool> &interrupt_flag();

/// One line on stderr with the share done and the time that remains. Appears only on a terminal, and only after a second.
class Progress {
public:
    explicit Progress(std::string what);
    ~Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    /// `done` of `total` steps of equal cost. Also the place where Ctrl-C is noticed.
    void update(double done, double total);
    void clear();

private:
    std::string what_;
    bool terminal_;
    bool shown_ = false;
    double start_;
    double last_ = 0;
};

/// 1234567 as "1,234,567".
std::string grouped(long long n);

/// printf into a string.
std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

}  // namespace gdn::cli
