#include "autotune/build/process.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "autotune/clock.h"

namespace gdn::tune {
namespace {

constexpr double kPatience = 10;           // seconds for a child that was told nothing about time
constexpr size_t kMostText = 64ull << 20;  // bytes kept of what a child prints

std::string seconds_text(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%g s", seconds);
    return text;
}

class File {
public:
    explicit File(int fd) : fd_(fd) {}
    ~File() { close(); }
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    int get() const { return fd_; }
    void close() {
        if (fd_ >= 0) ::close(fd_);
        fd_ = -1;
    }

private:
    int fd_;
};

/// What a child that could not become the program sends its parent.
struct StartError {
    const char *step;
    int error;
};

/// From here to exec only calls that are safe in a child of a process with threads.
[[noreturn]] void start(char *const *argv, const ChildOptions &options, pid_t parent, int in, int out, int report) {
    const auto fail = [report](const char *step) {
        const StartError error{step, errno};
        if (write(report, &error, sizeof error) < 0) _exit(126);
        _exit(127);
    };
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // it died before the line above
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    if (options.memory_bytes) {
        const rlimit limit{options.memory_bytes, options.memory_bytes};
        if (setrlimit(RLIMIT_AS, &limit) != 0) fail("its memory cannot be limited");
    }
    if (options.cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<size_t>(options.cpu), &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0) fail("it cannot be pinned to its CPU");
    }
    in = fcntl(in, F_DUPFD_CLOEXEC, 3);  // out of the way, should this process have been started without stdin or stdout
    out = fcntl(out, F_DUPFD_CLOEXEC, 3);
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || (options.merge_stderr && dup2(out, STDERR_FILENO) < 0))
        fail("no pipe");
    execvp(argv[0], argv);
    fail(nullptr);
    _exit(127);  // for compilers that do not see that a lambda does not return
}

}  // namespace

struct Child::State {
    pid_t pid = -1;    // -1: not started, or reaped
    int pidfd = -1;    // readable when the child has ended; -1 where the kernel has none
    int input = -1;    // a socket, since writing to it can be told not to raise SIGPIPE
    int output = -1;   // non-blocking; -1: at its end
    std::string text;  // printed, not yet taken
    Exit exit;
    const std::atomic<bool> *stop = nullptr;

    void begin(const ChildOptions &options);
    /// What came of the child, once. The group is killed while the pid of its dead leader cannot be used again.
    void settle(const siginfo_t &info) {
        ::kill(-pid, SIGKILL);
        while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
        pid = -1;
        if (pidfd >= 0) close(std::exchange(pidfd, -1));
        close_input();
        if (exit.kind == Exit::Kind::kTimeout || exit.kind == Exit::Kind::kStopped) return;
        exit.value = info.si_status;
        if (info.si_code == CLD_EXITED) {
            exit.kind = Exit::Kind::kCode;
            exit.text = "exit code " + std::to_string(exit.value);
        } else {
            exit.kind = Exit::Kind::kSignal;
            exit.text = "signal " + std::to_string(exit.value) + " (" + strsignal(exit.value) + ")" + exit.text;
        }
    }
    /// Reaps if the child has ended; `wait`: when it has.
    bool reap(bool wait) {
        if (pid < 0) return true;
        siginfo_t info{};
        while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | (wait ? 0 : WNOHANG)) < 0 && errno == EINTR) continue;
        if (info.si_pid == 0) return false;
        settle(info);
        return true;
    }
    void kill_group() {
        if (pid < 0) return;
        ::kill(-pid, SIGKILL);
        reap(true);
    }
    /// The end of a child that was waited for in vain.
    void give_up(double seconds) {
        if (pid < 0) return;
        const bool stopped = stop && *stop;
        exit.kind = stopped ? Exit::Kind::kStopped : Exit::Kind::kTimeout;
        exit.text = stopped ? "stopped" : "no answer in " + seconds_text(seconds);
        kill_group();
    }
    void close_input() {
        if (input >= 0) close(std::exchange(input, -1));
    }
    void close_output() {
        if (output >= 0) close(std::exchange(output, -1));
    }

    /// Appends what the pipe holds, a megabyte at most; whether that was all.
    bool take() {
        char part[65536];
        for (int parts = 0; output >= 0; parts++) {
            if (parts == 16) return false;
            const ssize_t n = read(output, part, sizeof part);
            if (n > 0) {
                text.append(part, static_cast<size_t>(n));
            } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
                close_output();
            } else if (errno == EAGAIN) {
                break;
            }
        }
        return true;
    }
    /// Waits until there is more text or the child has ended, or a moment; false after the deadline and when told to stop.
    bool wait(double deadline) {
        const double left = deadline - now();
        if (left <= 0 || (stop && *stop)) return false;
        const int tick = pidfd < 0 ? 10 : stop ? 50 : INT_MAX;  // milliseconds
        pollfd files[2] = {{output, POLLIN, 0}, {pidfd, POLLIN, 0}};
        poll(files, 2, static_cast<int>(std::min<double>(tick, left * 1000 + 1)));
        const bool was_over = reap(false);
        if (take() && was_over) close_output();  // what the child has started may hold the other end
        return true;
    }
};

void Child::State::begin(const ChildOptions &options) {
    stop = options.stop;
    exit.text = "cannot run a program without a name";
    if (options.argv.empty()) return;
    std::vector<char *> argv;
    for (const std::string &argument : options.argv) argv.push_back(const_cast<char *>(argument.c_str()));
    argv.push_back(nullptr);

    const auto fail = [&](const char *step, int error) {
        exit.text = "cannot run " + options.argv[0] + ": " + (step ? step + std::string(": ") : "") + std::strerror(error);
    };
    int in[2], out[2], report[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) return fail("no pipe", errno);
    input = in[1];
    const File child_in(in[0]);
    if (pipe2(out, O_CLOEXEC) != 0) return fail("no pipe", errno);
    output = out[0];
    const File child_out(out[1]);
    fcntl(output, F_SETFL, O_NONBLOCK);
    if (pipe2(report, O_CLOEXEC) != 0) return fail("no pipe", errno);
    const File report_in(report[0]);
    File report_out(report[1]);

    const pid_t parent = getpid();
    pid = fork();
    if (pid < 0) return fail("no process", errno);
    if (pid == 0) start(argv.data(), options, parent, child_in.get(), child_out.get(), report_out.get());
    report_out.close();
    StartError error;
    ssize_t n;
    while ((n = read(report_in.get(), &error, sizeof error)) < 0 && errno == EINTR) continue;  // ends with exec
    if (n == sizeof error) {
        kill_group();
        exit = Exit();
        return fail(error.step, error.error);
    }
    pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (pidfd >= 0) fcntl(pidfd, F_SETFD, FD_CLOEXEC);
    exit.text.clear();
}

Child::Child(const ChildOptions &options) : state_(std::make_unique<State>()) { state_->begin(options); }

Child::~Child() {
    state_->kill_group();
    state_->close_input();
    state_->close_output();
}

bool Child::write_line(const std::string &line) {
    State &s = *state_;
    const std::string text = line + "\n";
    const double deadline = now() + kPatience;
    size_t done = 0;
    while (s.input >= 0 && done < text.size()) {
        const ssize_t n = send(s.input, text.data() + done, text.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            done += static_cast<size_t>(n);
        } else if (errno == EAGAIN) {
            const double left = deadline - now();
            if (left <= 0) {
                s.give_up(kPatience);
                break;
            }
            pollfd file{s.input, POLLOUT, 0};
            poll(&file, 1, static_cast<int>(left * 1000 + 1));
        } else if (errno != EINTR) {
            s.close_input();
        }
    }
    return done == text.size();
}

bool Child::read_line(std::string *line, double seconds) {
    State &s = *state_;
    const double deadline = now() + seconds;
    for (size_t seen = 0;;) {
        const size_t end = s.text.find('\n', seen);
        if (end != std::string::npos) {
            line->assign(s.text, 0, end);
            s.text.erase(0, end + 1);
            return true;
        }
        seen = s.text.size();
        if (s.output < 0 && seen) {
            *line = std::exchange(s.text, std::string());
            return true;
        }
        if (s.output < 0 && s.pid < 0) return false;
        if (seen >= kMostText) {
            s.exit.text = " after more than " + std::to_string(kMostText >> 20) + " MiB without a line end";
            s.text.clear();
            s.kill_group();
            s.close_output();
            return false;
        }
        if (!s.wait(deadline)) {
            s.give_up(seconds);
            s.close_output();
            return false;
        }
    }
}

bool Child::ended() { return state_->reap(false); }

std::string Child::read_all(double seconds) {
    State &s = *state_;
    s.close_input();
    const double deadline = now() + seconds;
    while (s.output >= 0 || s.pid >= 0) {
        if (!s.wait(deadline)) {
            s.give_up(seconds);
            s.close_output();
        }
        if (s.text.size() >= kMostText) s.text.erase(0, s.text.size() - kMostText / 2);
    }
    return std::exchange(s.text, std::string());
}

const Exit &Child::exit() {
    State &s = *state_;
    s.close_input();
    const double deadline = now() + kPatience;
    while (s.pid >= 0) {
        if (!s.wait(deadline)) s.give_up(kPatience);
        if (s.text.size() >= kMostText) s.text.erase(0, s.text.size() - kMostText / 2);
    }
    return s.exit;
}

Exit run(const ChildOptions &options, double seconds, std::string *output) {
    Child child(options);
    std::string text = child.read_all(seconds);
    if (output) *output = std::move(text);
    return child.exit();
}

}  // namespace gdn::tune
