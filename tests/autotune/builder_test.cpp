// The builder on shell scripts in place of generator and linker, and on the real ones.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "autotune/build/builder.h"
#include "autotune/build/fnv.h"
#include "support/folder.h"

namespace gdn::tune {
namespace {

using namespace gdn_test;

namespace fs = std::filesystem;

// What a fake generator does with $config, the text behind config=, and $out, the folder of the object.
const char *const kWritesConfig = "echo \"$config\" > $out/candidate.o";

class BuilderTest : public ::testing::Test {
protected:
    BuilderTest() {
        kernel_.arguments = "-g family target=fake";
        kernel_.space = Space({{"rows", Kind::kSchedule, {1, 2, 3, 4, 5, 6, 7, 8}, 1}, {"cols", Kind::kAlgorithm, {1, 2}, 1},
                                  {"grain", Kind::kRuntime, {0, 1}, 0}},
            {});
        options_.generator = folder_.file("generator");
        options_.linker = folder_.file("linker");
        options_.cache = folder_.file("cache");
        options_.jobs = 2;
        generator(kWritesConfig);
        script("linker", "cat \"$4\" > \"$3\"");
    }

    void script(const std::string &name, const std::string &program) {
        // A new file: one that runs cannot be written.
        fs::remove(folder_.file(name));
        write_text(folder_.file(name), "#!/bin/sh\n" + program + "\n");
        chmod(folder_.file(name).c_str(), 0755);
    }
    void generator(const std::string &program) {
        script("generator", "if [ \"$1\" = --version ]; then echo 'fake generator, Halide 1.2.3'; exit; fi\n"
                            "echo \"$*\" >> " +
                                folder_.file("calls") +
                                "\n"
                                "for word; do case $word in config=*) config=${word#config=};; esac; out=$word; done\n" +
                                program);
    }
    Request request(int rows, int grain = 0) const { return {&kernel_, {{"rows", rows}, {"cols", 2}, {"grain", grain}}}; }
    std::vector<Built> build(const std::vector<Request> &requests) const { return make_builder(options_)->build(requests); }
    Built build_one(int rows = 1) const { return build({request(rows)})[0]; }
    long calls() const {
        const std::string text = read_text(folder_.file("calls"));
        return std::count(text.begin(), text.end(), '\n');
    }
    long entries() const { return std::distance(fs::directory_iterator(options_.cache), fs::directory_iterator()); }

    Folder folder_;
    Kernel kernel_;
    BuilderOptions options_;
};

TEST_F(BuilderTest, OutcomesComeInOrderAndRunTimeParametersNeedNoCompiler) {
    std::vector<size_t> counts;
    const std::vector<Built> built =
        make_builder(options_)->build({request(3), request(1), request(3, 1), request(2)}, [&](size_t n) { counts.push_back(n); });
    ASSERT_EQ(built.size(), 4u);
    const char *const expected[] = {"cols:2,rows:3\n", "cols:2,rows:1\n", "cols:2,rows:3\n", "cols:2,rows:2\n"};
    for (size_t i = 0; i < 4; i++) {
        EXPECT_EQ(built[i].status, Status::kOk) << built[i].error;
        EXPECT_EQ(read_text(built[i].path), expected[i]);
        EXPECT_FALSE(built[i].cached);
        EXPECT_EQ(built[i].error, "");
        EXPECT_GT(built[i].seconds, 0);
        EXPECT_EQ(built[i].hash.size(), 16u);
        EXPECT_EQ(built[i].hash, short_name_of_content(expected[i]));
    }
    EXPECT_EQ(calls(), 3);
    EXPECT_EQ(entries(), 3);
    ASSERT_FALSE(counts.empty());
    EXPECT_TRUE(std::is_sorted(counts.begin(), counts.end()));
    EXPECT_EQ(counts.back(), 4u);
    const std::string line = read_text(folder_.file("calls"));
    EXPECT_EQ(line.find("-g family target=fake config=cols:2,rows:"), 0u) << line;
    EXPECT_NE(line.find(" -f candidate -e object -o "), std::string::npos) << line;
}

TEST_F(BuilderTest, NothingToCompileHasNoConfiguration) {
    kernel_.space = Space({{"grain", Kind::kRuntime, {0, 1}, 0}}, {});
    EXPECT_EQ(build({{&kernel_, {{"grain", 1}}}})[0].status, Status::kOk);
    EXPECT_EQ(read_text(folder_.file("calls")).find("config="), std::string::npos);
    EXPECT_TRUE(build({}).empty());
}

TEST_F(BuilderTest, WhatWasBuiltIsRemembered) {
    const Built first = build_one();
    const Built second = build_one();
    EXPECT_FALSE(first.cached);
    EXPECT_TRUE(second.cached);
    EXPECT_EQ(second.status, Status::kOk);
    EXPECT_EQ(second.path, first.path);
    EXPECT_EQ(second.hash, first.hash);
    EXPECT_EQ(second.seconds, first.seconds);
    EXPECT_EQ(calls(), 1);
    // Other arguments and another generator are other objects.
    kernel_.arguments += " x=y";
    EXPECT_FALSE(build_one().cached);
    generator(std::string(kWritesConfig) + " # another");
    EXPECT_FALSE(build_one().cached);
    EXPECT_EQ(calls(), 3);
}

TEST_F(BuilderTest, EqualObjectsHaveEqualHashes) {
    generator("echo ${config%rows*} > $out/candidate.o; [ $config != cols:2,rows:3 ] || echo more >> $out/candidate.o");
    const std::vector<Built> built = build({request(1), request(2), request(3)});
    EXPECT_EQ(built[0].hash, built[1].hash);
    EXPECT_NE(built[0].hash, built[2].hash);
    EXPECT_NE(built[0].path, built[1].path);
}

TEST_F(BuilderTest, RefusalIsRememberedWithItsWords) {
    generator("echo first; echo \"no room in $out/candidate.o\" >&2; exit 9");
    for (bool cached : {false, true}) {
        const Built built = build_one();
        EXPECT_EQ(built.status, Status::kBuildFailed);
        EXPECT_EQ(built.error, "generator: exit code 9\nfirst\nno room in candidate.o");
        EXPECT_EQ(built.path, "");
        EXPECT_EQ(built.cached, cached);
    }
    EXPECT_EQ(calls(), 1);
}

TEST_F(BuilderTest, OfManyWordsTheLastAreKept) {
    generator("i=0; while [ $i -lt 3000 ]; do echo \"line $i\"; i=$((i+1)); done; printf 'odd \\377\\000 bytes\\n\\n'; exit 1");
    const Built built = build_one();
    EXPECT_LT(built.error.size(), 2100u);
    EXPECT_EQ(built.error.find("generator: exit code 1\nline "), 0u) << built.error;
    EXPECT_NE(built.error.find("line 2999\nodd \xEF\xBF\xBD"), std::string::npos) << built.error;
    EXPECT_EQ(build_one().error, built.error);
}

TEST_F(BuilderTest, CrashIsAFailureButMayNotLast) {
    generator("kill -SEGV $$");
    EXPECT_EQ(build_one().status, Status::kBuildFailed);
    EXPECT_EQ(build_one().error, "generator: signal 11 (Segmentation fault)");
    EXPECT_EQ(calls(), 2);
    generator(kWritesConfig);
    EXPECT_EQ(build_one().status, Status::kOk);
}

TEST_F(BuilderTest, TimeoutEndsTheGeneratorAndIsNotRemembered) {
    options_.seconds = 2;  // time to start and to speak on a busy machine
    generator("echo thinking; sleep 1000 & echo $! > " + folder_.file("pid") + "; wait");
    const Built built = build_one();
    EXPECT_EQ(built.status, Status::kBuildTimeout);
    EXPECT_EQ(built.error, "generator: the build took longer than 2 s\nthinking");
    EXPECT_EQ(entries(), 0);
    const pid_t pid = std::stoi(read_text(folder_.file("pid")));
    for (int i = 0; i < 1000 && kill(pid, 0) == 0 && read_text("/proc/" + std::to_string(pid) + "/stat").find(" Z ") == std::string::npos;
         i++)
        usleep(10000);
    EXPECT_TRUE(kill(pid, 0) != 0 || read_text("/proc/" + std::to_string(pid) + "/stat").find(" Z ") != std::string::npos);
}

TEST_F(BuilderTest, MemoryIsLimited) {
    options_.memory_bytes = 256u << 20;
    generator("dd if=/dev/zero of=/dev/null bs=512M count=1 && " + std::string(kWritesConfig));
    EXPECT_NE(build_one().error.find("memory exhausted"), std::string::npos);
    options_.memory_bytes = 2ull << 30;
    EXPECT_EQ(build_one(2).status, Status::kOk);
}

TEST_F(BuilderTest, MissingObjectAndBrokenLinkAreFailures) {
    generator("exit 0");
    EXPECT_EQ(build_one().error, "generator made no candidate.o");
    generator(kWritesConfig);
    script("linker", "echo \"undefined symbol in $4\"; exit 1");
    const Built built = build_one();
    EXPECT_EQ(built.status, Status::kBuildFailed);
    EXPECT_EQ(built.error, "linker: exit code 1\nundefined symbol in candidate.o");
    options_.linker = folder_.file("nowhere");
    EXPECT_THROW(build_one(2), Error);
}

TEST_F(BuilderTest, DamagedEntriesAreMadeAgain) {
    const Built good = build_one();
    const std::string code = read_text(good.path), entry = fs::path(good.path).parent_path().string() + "/entry.json",
                      text = read_text(entry);
    const auto repaired = [&](const char *what) {
        const Built built = build_one();
        EXPECT_EQ(built.status, Status::kOk) << what;
        EXPECT_FALSE(built.cached) << what;
        EXPECT_EQ(read_text(good.path), code) << what;
        EXPECT_TRUE(build_one().cached) << what;
        EXPECT_EQ(entries(), 1) << what;
    };
    write_text(good.path, code.substr(1));
    repaired("truncated object");
    write_text(good.path, "y" + code.substr(1));
    repaired("changed object");
    fs::remove(good.path);
    repaired("no object");
    fs::remove(entry);
    repaired("no entry");
    write_text(entry, text.substr(0, text.size() / 2));
    repaired("half an entry");
    write_text(entry, "[]");
    repaired("no object in JSON");
    write_text(entry, text + "}");
    repaired("more than JSON");
    std::string other = text;
    other.replace(other.find("target=fake"), 11, "target=face");
    write_text(entry, other);
    repaired("an entry of another key, as if the names collided");
    other = text;
    other.replace(other.find("\"ok\""), 4, "\"so\"");
    write_text(entry, other);
    repaired("unknown status");
}

TEST_F(BuilderTest, CacheThatCannotBeWrittenIsNamed) {
    write_text(folder_.file("file"), "");
    options_.cache = folder_.file("file") + "/cache";
    try {
        make_builder(options_);
        FAIL();
    } catch (const Error &error) {
        EXPECT_EQ(std::string(error.what()), "cannot make the folder of compiled candidates " + options_.cache + ": Not a directory");
    }
    options_.cache = "/proc/self/fdinfo";
    EXPECT_THROW(make_builder(options_), Error);
}

// In a child process with a tiny file system of its own: 0 as expected, 77 where that is not allowed.
TEST_F(BuilderTest, FullDiskIsAnErrorAndNotRemembered) {
    fs::create_directory(options_.cache);
    generator("cp /bin/sh $out/candidate.o && cat /bin/sh /bin/sh /bin/sh /bin/sh >> $out/candidate.o");
    const pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("none", options_.cache.c_str(), "tmpfs", 0, "size=256k") != 0) {
            _exit(77);
        }
        try {
            build_one();
            _exit(1);
        } catch (const Error &error) {
            const bool named = std::string(error.what()) ==
                               "cannot write to the folder of compiled candidates " + options_.cache + ": No space left on device";
            _exit(!named ? 2 : entries() != 0 ? 3 : 0);
        }
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "may not mount";
    EXPECT_EQ(status, 0);
}

TEST_F(BuilderTest, GeneratorThatDoesNotRunIsAnError) {
    const auto message = [&](const std::string &path) {
        options_.generator = path;
        try {
            make_builder(options_);
        } catch (const Error &error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_EQ(message("/nowhere/generator"), "cannot read the generator /nowhere/generator: No such file or directory");
    script("broken", "echo oh no; exit 3");
    EXPECT_EQ(message(folder_.file("broken")),
        "the generator " + folder_.file("broken") + " does not say which Halide it is made with (--version): exit code 3, oh no");
    script("foreign", "echo hello");
    EXPECT_NE(message(folder_.file("foreign")), "");
    EXPECT_NE(message(folder_.path()), "");
}

TEST_F(BuilderTest, GeneratorThatChangesUnderARunIsAnError) {
    const auto builder = make_builder(options_);
    EXPECT_EQ(builder->build({request(1)})[0].status, Status::kOk);
    generator(std::string(kWritesConfig) + " # changed");
    EXPECT_THROW(builder->build({request(2)}), Error);
}

TEST_F(BuilderTest, GeneratorHashIsOfItsSources) {
    const auto hash_of = [&](const std::string &name, const std::string &program) {
        script(name, program);
        return generator_hash(folder_.file(name));
    };
    const std::string built = hash_of("built", "echo 'x of sources 01ab, Halide 1.2.3'");
    EXPECT_EQ(built.size(), 32u);
    EXPECT_EQ(hash_of("elsewhere", "# by another compiler\necho 'x of sources 01ab, Halide 1.2.3'"), built);
    EXPECT_NE(hash_of("changed", "echo 'x of sources 02ab, Halide 1.2.3'"), built);
    EXPECT_NE(hash_of("newer", "echo 'x of sources 01ab, Halide 1.2.4'"), built);
}

TEST_F(BuilderTest, GeneratorThatNamesNoSourcesIsHashedItself) {
    const std::string hash = generator_hash(options_.generator);
    EXPECT_EQ(hash.size(), 32u);
    EXPECT_EQ(halide_version(options_.generator), "1.2.3");
    fs::copy(options_.generator, folder_.file("copy"));
    EXPECT_EQ(generator_hash(folder_.file("copy")), hash);
    generator("exit 1");
    EXPECT_NE(generator_hash(options_.generator), hash);
}

TEST_F(BuilderTest, StopEndsWhatRuns) {
    std::atomic<bool> stop{false};
    generator("[ $config = cols:2,rows:1 ] || { touch " + folder_.file("waiting") + "; exec sleep 1000; }\n" + kWritesConfig);
    std::thread other([&] {
        for (int i = 0; i < 3000 && !fs::exists(folder_.file("waiting")); i++) usleep(10000);
        stop = true;
    });
    options_.jobs = 1;
    const std::vector<Built> built = make_builder(options_)->build({request(1), request(2), request(3)}, {}, &stop);
    other.join();
    EXPECT_EQ(built[0].status, Status::kOk);
    EXPECT_EQ(built[1].status, Status::kSkipped);
    EXPECT_EQ(built[2].status, Status::kSkipped);
    EXPECT_EQ(calls(), 2);
    EXPECT_EQ(entries(), 1);
    EXPECT_EQ(make_builder(options_)->build({request(4)}, {}, &stop)[0].status, Status::kSkipped);
}

TEST_F(BuilderTest, CallbackMayThrow) {
    const auto throws = [](size_t) { throw std::runtime_error("enough"); };
    EXPECT_THROW(make_builder(options_)->build({request(1), request(2), request(3), request(4)}, throws), std::runtime_error);
    EXPECT_EQ(build_one().status, Status::kOk);
}

TEST_F(BuilderTest, ProcessesShareOneCache) {
    std::vector<Request> requests;
    for (int rows = 1; rows <= 8; rows++) requests.push_back(request(rows));
    std::vector<pid_t> children;
    for (int i = 0; i < 3; i++) {
        children.push_back(fork());
        if (children.back()) continue;
        int wrong = 0;
        for (int round = 0; round < 3; round++) {
            const std::vector<Built> built = build(requests);
            for (int rows = 1; rows <= 8; rows++) {
                const Built &b = built[static_cast<size_t>(rows - 1)];
                wrong += b.status != Status::kOk || read_text(b.path) != "cols:2,rows:" + std::to_string(rows) + "\n";
            }
        }
        _exit(wrong);
    }
    for (pid_t child : children) {
        int status = 1;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(entries(), 8);
    for (const Built &built : build(requests)) EXPECT_TRUE(built.cached);
}

TEST_F(BuilderTest, KilledBuilderLeavesNothingHalf) {
    generator("echo half > $out/candidate.o; touch " + folder_.file("begun") + "; exec sleep 1000");
    const pid_t child = fork();
    if (child == 0) {
        build_one();
        _exit(0);
    }
    for (int i = 0; i < 3000 && !fs::exists(folder_.file("begun")); i++) usleep(10000);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(entries(), 1);  // its work folder, which goes after an hour
    make_builder(options_);
    EXPECT_EQ(entries(), 1);
    const fs::path work = fs::directory_iterator(options_.cache)->path();
    fs::last_write_time(work, fs::file_time_type::clock::now() - std::chrono::hours(2));
    make_builder(options_);
    EXPECT_EQ(entries(), 0);
    generator(kWritesConfig);
    EXPECT_EQ(read_text(build_one().path), "cols:2,rows:1\n");
}

TEST(Builder, CompilesRealKernels) {
    const Folder folder;
    const std::vector<Kernel> kernels =
        select_kernels(list_kernels(GDN_GENERATOR, GDN_SOURCE_DIR "/generators/kernels.json"), "core_chunk_channel_tied_64x64", "x86_avx2");
    ASSERT_EQ(kernels.size(), 1u);
    const Space &space = kernels[0].space;
    const Config config = space.config(space.default_point());
    Config runtime = config, broken = config;
    runtime["time_block"] = 8;
    broken["cols"] = 64;
    BuilderOptions options;
    options.generator = GDN_GENERATOR;
    options.cache = folder.file("cache");
    const std::vector<Built> built = make_builder(options)->build({{&kernels[0], config}, {&kernels[0], runtime}, {&kernels[0], broken}});
    ASSERT_EQ(built[0].status, Status::kOk) << built[0].error;
    EXPECT_EQ(built[1].path, built[0].path);
    EXPECT_EQ(built[2].status, Status::kBuildFailed);
    EXPECT_NE(built[2].error.find("broken constraint"), std::string::npos) << built[2].error;
    void *library = dlopen(built[0].path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_NE(dlsym(library, "candidate_argv"), nullptr);
    dlclose(library);
}

}  // namespace
}  // namespace gdn::tune
