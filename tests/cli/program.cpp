#include "program.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>

#include <chrono>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gdn_test {
namespace {

[[noreturn]] void start(const Invocation &what) {
    for (const char *name : {"GDN_TARGET", "GDN_NUM_THREADS", "GDN_TUNED_DIR", "GDN_LOG", "GDN_GENERATOR", "NO_COLOR"}) unsetenv(name);
    setenv("TERM", "xterm", 1);
    for (const auto &[name, value] : what.environment) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char *> argv = {const_cast<char *>("gdn")};
    for (const std::string &argument : what.arguments) argv.push_back(const_cast<char *>(argument.c_str()));
    argv.push_back(nullptr);
    execv(GDN_PROGRAM, argv.data());
    _exit(127);
}

}  // namespace

Outcome run(const Invocation &what) {
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    pid_t child;
    if (what.terminal) {
        child = forkpty(&out[0], nullptr, nullptr, nullptr);
        if (child == 0) start(what);
    } else {
        if (pipe(out) != 0 || pipe(err) != 0) return {};
        child = fork();
        if (child == 0) {
            dup2(what.stdout_file.empty() ? out[1] : open(what.stdout_file.c_str(), O_WRONLY), STDOUT_FILENO);
            dup2(err[1], STDERR_FILENO);
            if (!what.stdin_file.empty()) dup2(open(what.stdin_file.c_str(), O_RDONLY), STDIN_FILENO);
            for (int file : {out[0], out[1], err[0], err[1]}) close(file);
            start(what);
        }
        close(out[1]);
        close(err[1]);
    }

    Outcome outcome;
    const auto begin = std::chrono::steady_clock::now();
    bool interrupted = what.interrupt_after == 0;
    pollfd files[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
    std::string *texts[2] = {&outcome.out, &outcome.err};
    while (files[0].fd >= 0 || files[1].fd >= 0) {
        poll(files, 2, 20);
        if (!interrupted && std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > what.interrupt_after) {
            kill(child, SIGINT);
            interrupted = true;
        }
        for (int i = 0; i < 2; i++) {
            if (files[i].fd < 0 || !files[i].revents) continue;
            char buffer[4096];
            const ssize_t size = read(files[i].fd, buffer, sizeof buffer);
            if (size > 0) {
                texts[i]->append(buffer, static_cast<size_t>(size));
            } else {  // end of file, or EIO of a terminal whose other side has gone
                close(files[i].fd);
                files[i].fd = -1;
            }
        }
    }
    int status = 0;
    waitpid(child, &status, 0);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
}

std::vector<std::string> words(const std::string &text) {
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), {}};
}

Outcome gdn(const std::string &arguments) {
    Invocation what;
    what.arguments = words(arguments);
    return run(what);
}

}  // namespace gdn_test
