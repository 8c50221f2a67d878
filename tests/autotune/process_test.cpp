// Child processes that behave badly: small shell programs.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "autotune/build/process.h"

namespace gdn::tune {
namespace {

constexpr double kLong = 60;  // far more than any of these programs takes
constexpr double kSoon = 2;   // for programs that hang, time to start and to speak on a busy machine

ChildOptions shell(const std::string &program) {
    ChildOptions options;
    options.argv = {"/bin/sh", "-c", program};
    return options;
}

/// Whether the process is gone or only waits for its parent to notice.
bool dead(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    if (!std::getline(file, text)) return true;
    return text[text.rfind(')') + 2] == 'Z';
}

bool dies(pid_t pid) {
    for (int i = 0; i < 1000 && !dead(pid); i++) usleep(10000);
    return dead(pid);
}

TEST(Process, OutputAndExitCode) {
    std::string output;
    const Exit exit = run(shell("echo one; printf two; echo unseen >/dev/null; exit 3"), kLong, &output);
    EXPECT_EQ(exit.kind, Exit::Kind::kCode);
    EXPECT_EQ(exit.value, 3);
    EXPECT_EQ(exit.text, "exit code 3");
    EXPECT_FALSE(exit.ok());
    EXPECT_EQ(output, "one\ntwo");
    EXPECT_TRUE(run(shell("exit 0"), kLong, nullptr).ok());
}

TEST(Process, StderrIsMergedOnlyWhenAsked) {
    ChildOptions options = shell("echo out; echo err >&2");
    options.merge_stderr = true;
    std::string output;
    EXPECT_TRUE(run(options, kLong, &output).ok());
    EXPECT_EQ(output, "out\nerr\n");
    testing::internal::CaptureStderr();
    options.merge_stderr = false;
    EXPECT_TRUE(run(options, kLong, &output).ok());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "err\n");
    EXPECT_EQ(output, "out\n");
}

TEST(Process, InputIsEmptyForRun) {
    std::string output;
    EXPECT_TRUE(run(shell("cat; echo end"), kLong, &output).ok());
    EXPECT_EQ(output, "end\n");
}

TEST(Process, CrashIsASignal) {
    const Exit exit = run(shell("kill -SEGV $$"), kLong, nullptr);
    EXPECT_EQ(exit.kind, Exit::Kind::kSignal);
    EXPECT_EQ(exit.value, SIGSEGV);
    EXPECT_EQ(exit.text, "signal 11 (Segmentation fault)");
}

TEST(Process, TimeoutEndsAChildThatIgnoresTermination) {
    std::string output;
    const Exit exit = run(shell("trap '' TERM INT HUP; echo $$; while :; do sleep 1; done"), kSoon, &output);
    EXPECT_EQ(exit.kind, Exit::Kind::kTimeout);
    EXPECT_EQ(exit.text, "no answer in 2 s");
    ASSERT_GT(std::atoi(output.c_str()), 1);
    EXPECT_TRUE(dies(std::atoi(output.c_str())));
}

TEST(Process, GrandchildrenEndWithTheGroup) {
    std::string output;
    EXPECT_EQ(run(shell("sleep 1000 & echo $!; wait"), kSoon, &output).kind, Exit::Kind::kTimeout);
    ASSERT_GT(std::atoi(output.c_str()), 1);
    EXPECT_TRUE(dies(std::atoi(output.c_str())));
    // The child ends in time, what it started holds the pipe open.
    EXPECT_TRUE(run(shell("sleep 1000 & echo $!"), kLong, &output).ok());
    ASSERT_GT(std::atoi(output.c_str()), 1);
    EXPECT_TRUE(dies(std::atoi(output.c_str())));
}

TEST(Process, WhatLeftTheGroupDoesNotKeepUsWaiting) {
    std::string output;
    EXPECT_TRUE(run(shell("setsid -f sh -c 'echo $$; exec sleep 1000'; sleep 0.3"), kLong, &output).ok());
    if (std::atoi(output.c_str()) > 1) ::kill(std::atoi(output.c_str()), SIGKILL);
}

TEST(Process, ChildThatClosesItsOutputIsStillWaitedFor) {
    EXPECT_EQ(run(shell("exec >&- 2>&-; sleep 0.1; exit 7"), kLong, nullptr).text, "exit code 7");
    EXPECT_EQ(run(shell("exec >&- 2>&-; exec sleep 1000"), 0.3, nullptr).kind, Exit::Kind::kTimeout);
}

TEST(Process, MuchOutputIsKeptWhole) {
    std::string output;
    EXPECT_TRUE(run(shell("head -c 20000000 /dev/zero | tr '\\0' x; echo end"), kLong, &output).ok());
    ASSERT_EQ(output.size(), 20000004u);
    EXPECT_EQ(output.substr(19999998), "xxend\n");
}

TEST(Process, OfTooMuchOutputTheEndIsKept) {
    std::string output;
    EXPECT_TRUE(run(shell("head -c 200000000 /dev/zero; echo end"), kLong, &output).ok());
    EXPECT_LE(output.size(), size_t{66} << 20);
    EXPECT_EQ(output.substr(output.size() - 4), "end\n");
}

TEST(Process, UnstartableProgramSaysWhy) {
    ChildOptions options;
    options.argv = {"/nowhere/program", "x"};
    std::string output = "old";
    Exit exit = run(options, kLong, &output);
    EXPECT_EQ(exit.kind, Exit::Kind::kNotStarted);
    EXPECT_EQ(exit.text, "cannot run /nowhere/program: No such file or directory");
    EXPECT_EQ(output, "");
    options.argv = {"/dev/null"};
    EXPECT_EQ(run(options, kLong, nullptr).text, "cannot run /dev/null: Permission denied");
    options.argv = {};
    EXPECT_EQ(run(options, kLong, nullptr).kind, Exit::Kind::kNotStarted);
    options.argv = {"true"};
    options.cpu = 1023;
    EXPECT_EQ(run(options, kLong, nullptr).text, "cannot run true: it cannot be pinned to its CPU: Invalid argument");
    Child child(options);
    std::string line;
    EXPECT_FALSE(child.write_line("x"));
    EXPECT_FALSE(child.read_line(&line, kLong));
    EXPECT_TRUE(child.ended());
}

TEST(Process, MemoryIsLimited) {
    // The buffer of dd has the size of a block.
    ChildOptions options;
    options.argv = {"dd", "if=/dev/zero", "of=/dev/null", "bs=512M", "count=1"};
    options.merge_stderr = true;
    EXPECT_TRUE(run(options, kLong, nullptr).ok());
    options.memory_bytes = 256u << 20;
    std::string output;
    EXPECT_EQ(run(options, kLong, &output).text, "exit code 1");
    EXPECT_NE(output.find("memory exhausted"), std::string::npos) << output;
}

TEST(Process, IsPinnedToItsCpu) {
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &set)) last--;
    ChildOptions options = shell("grep Cpus_allowed_list /proc/self/status");
    options.cpu = last;
    std::string output;
    EXPECT_TRUE(run(options, kLong, &output).ok());
    EXPECT_EQ(output, "Cpus_allowed_list:\t" + std::to_string(last) + "\n");
}

TEST(Process, LinesGoBothWays) {
    Child child(shell("while read x; do echo \"<$x>\"; done; printf rest; exit 2"));
    std::string line;
    for (int i = 0; i < 100; i++) {
        ASSERT_TRUE(child.write_line(std::to_string(i)));
        ASSERT_TRUE(child.read_line(&line, kLong));
        EXPECT_EQ(line, "<" + std::to_string(i) + ">");
    }
    EXPECT_FALSE(child.ended());
    EXPECT_EQ(child.exit().text, "exit code 2");  // its input has ended
    EXPECT_TRUE(child.ended());
    ASSERT_TRUE(child.read_line(&line, kLong));
    EXPECT_EQ(line, "rest");
    EXPECT_FALSE(child.read_line(&line, kLong));
    EXPECT_FALSE(child.write_line("late"));
}

TEST(Process, WritingToADeadChildIsNoSignal) {
    Child child(shell("exit 0"));
    for (int i = 0; i < 1000 && !child.ended(); i++) usleep(10000);
    EXPECT_TRUE(child.ended());
    EXPECT_FALSE(child.write_line("x"));
    Child deaf(shell("exec <&-; echo closed; exec sleep 1000"));
    std::string line;
    ASSERT_TRUE(deaf.read_line(&line, kLong));
    EXPECT_FALSE(deaf.write_line("x"));
}

TEST(Process, LineThatDoesNotComeIsATimeout) {
    Child child(shell("printf half; exec sleep 1000"));
    std::string line = "untouched";
    EXPECT_FALSE(child.read_line(&line, 0.2));
    EXPECT_EQ(line, "untouched");
    EXPECT_TRUE(child.ended());
    EXPECT_EQ(child.exit().kind, Exit::Kind::kTimeout);
    EXPECT_EQ(child.exit().text, "no answer in 0.2 s");
}

TEST(Process, StopEndsAChildThatIsWaitedFor) {
    std::atomic<bool> stop{false};
    ChildOptions options = shell("echo started; exec sleep 1000");
    options.stop = &stop;
    Child child(options);
    std::string line;
    ASSERT_TRUE(child.read_line(&line, kLong));
    std::thread other([&] { stop = true; });
    EXPECT_FALSE(child.read_line(&line, kLong));
    other.join();
    EXPECT_EQ(child.exit().kind, Exit::Kind::kStopped);
    EXPECT_EQ(child.exit().text, "stopped");
    EXPECT_EQ(run(options, kLong, nullptr).kind, Exit::Kind::kStopped);
}

TEST(Process, EndlessLineIsNotKept) {
    Child child(shell("exec cat /dev/zero"));
    std::string line;
    EXPECT_FALSE(child.read_line(&line, kLong));
    EXPECT_EQ(child.exit().text, "signal 9 (Killed) after more than 64 MiB without a line end");
}

TEST(Process, NoZombiesAndNoFilesAreLeft) {
    const auto files = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
    };
    const auto before = files();
    for (int i = 0; i < 5; i++) {
        Child child(shell("exec sleep 1000"));
        run(shell("exit 1"), kLong, nullptr);
        ChildOptions none;
        none.argv = {"/nowhere/program"};
        run(none, kLong, nullptr);
    }
    EXPECT_EQ(files(), before);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no child at all
    EXPECT_EQ(errno, ECHILD);
}

TEST(Process, ChildrenHoldNoPipesOfEachOther) {
    // Were the second child to inherit the first one's input, `cat` would wait for ever.
    Child first(shell("exec cat"));
    Child second(shell("exec sleep 1000"));
    EXPECT_EQ(first.exit().text, "exit code 0");
}

TEST(Process, DiesWithTheProcessThatMadeIt) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t parent = fork();
    if (parent == 0) {
        Child child(shell("echo $$; exec sleep 1000"));
        std::string line;
        child.read_line(&line, kLong);
        const pid_t pid = std::atoi(line.c_str());
        if (write(pipe[1], &pid, sizeof pid) < 0) _exit(1);
        for (;;) pause();
    }
    pid_t pid = 0;
    ASSERT_EQ(read(pipe[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
    ::kill(parent, SIGKILL);
    waitpid(parent, nullptr, 0);
    ASSERT_GT(pid, 1);
    EXPECT_TRUE(dies(pid));
    close(pipe[0]);
    close(pipe[1]);
}

TEST(Process, ManyThreadsRunManyChildren) {
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([t, &wrong] {
            for (int i = 0; i < 20; i++) {
                std::string output;
                const std::string word = std::to_string(t) + "." + std::to_string(i);
                if (!run(shell("echo " + word), kLong, &output).ok() || output != word + "\n") wrong[static_cast<size_t>(t)]++;
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace gdn::tune
