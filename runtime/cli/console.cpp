#include "console.h"

#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include "command.h"
#include "machine.h"

namespace gdn::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void on_interrupt(int) { interrupted = true; }

bool wants_colour() {
    const char *no_color = std::getenv("NO_COLOR");
    const char *term = std::getenv("TERM");
    return isatty(STDOUT_FILENO) && !(no_color && *no_color) && term && std::strcmp(term, "dumb") != 0;
}

}  // namespace

const Style &style() {
    static const Style kColour = {"\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[0m"};
    static const Style kPlain = {"", "", "", "", ""};
    static const bool colour = wants_colour();
    return colour ? kColour : kPlain;
}

void catch_interrupts() {
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one has its usual effect
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

const std::atomic<bool> &interrupt_flag() { return interrupted; }

void check_interrupt() {
    if (interrupted) throw Failure(kExitInterrupted, "interrupted");
}

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0), start_(now()) {}

Progress::~Progress() { clear(); }

void Progress::update(double done, double total) {
    check_interrupt();
    if (!terminal_ || total <= 0) return;
    const double time = now(), elapsed = time - start_;
    if (elapsed < 1 || time - last_ < 0.1) return;
    last_ = time;
    shown_ = true;
    const double share = done / total;
    if (share > 0) {
        std::fprintf(stderr, "\r\033[K%s: %3.0f %%, %.0f s left", what_.c_str(), 100 * share, elapsed * (1 - share) / share);
    } else {
        std::fprintf(stderr, "\r\033[K%s", what_.c_str());
    }
    std::fflush(stderr);
}

void Progress::clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
}

std::string grouped(long long n) {
    std::string digits = std::to_string(n);
    for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
    return digits;
}

std::string format(const char *pattern, ...) {
    va_list list;
    va_start(list, pattern);
    va_list again;
    va_copy(again, list);
    const int size = std::vsnprintf(nullptr, 0, pattern, list);
    va_end(list);
    std::string text(static_cast<size_t>(size), '\0');
    std::vsnprintf(text.data(), text.size() + 1, pattern, again);
    va_end(again);
    return text;
}

}  // namespace gdn::cli
