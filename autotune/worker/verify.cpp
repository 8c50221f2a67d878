#include "autotune/worker/verify.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

#include "autotune/build/fnv.h"
#include "autotune/worker/failure.h"
#include "tests/support/metric.h"

namespace gdn::tune {

namespace {

/// First line of a reference's file. The values follow.
std::string header(const std::string &key, const std::vector<double> &values) {
    return "gdn reference 1, " + std::to_string(values.size()) + " values " +
           hex16(gdn_test::hash_bytes(values.data(), values.size() * sizeof(double))) + ": " + key;
}

bool read(const std::string &path, const std::string &key, std::vector<double> *values) {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    if (!in) return false;
    const std::streamoff size = in.tellg();
    in.seekg(0);
    std::string first;
    if (!std::getline(in, first)) return false;
    const std::streamoff left = size - in.tellg();
    if (left <= 0 || left % static_cast<std::streamoff>(sizeof(double))) return false;
    values->resize(static_cast<size_t>(left) / sizeof(double));
    in.read(reinterpret_cast<char *>(values->data()), left);
    return in && first == header(key, *values);
}

/// Beside it, then renamed: a reader finds all of it or nothing.
void write(const std::string &path, const std::string &key, const std::vector<double> &values) {
    const std::string beside = path + "." + std::to_string(getpid());
    const int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    const auto put = [file](const char *data, size_t bytes) {
        while (bytes) {
            const ssize_t n = ::write(file, data, bytes);
            if (n <= 0) return false;
            data += n;
            bytes -= static_cast<size_t>(n);
        }
        return true;
    };
    const std::string first = header(key, values) + "\n";
    const bool written = file >= 0 && put(first.data(), first.size()) &&
                         put(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(double)) && fsync(file) == 0;
    const int error = errno;
    if (file >= 0) close(file);
    if (!written || std::rename(beside.c_str(), path.c_str())) {
        const std::string why = std::strerror(written ? errno : error);
        unlink(beside.c_str());
        throw Failure(Status::kLaunchFailed, "the reference cannot be written to " + path + ": " + why);
    }
}

std::string number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", x);
    return text;
}

}  // namespace

std::vector<double> reference_of(const Problem &problem, const std::string &folder) {
    const std::string key = problem.key(), path = folder + "/" + short_name_of_content(key) + ".reference";
    std::vector<double> values;
    if (!read(path, key, &values)) {
        values = problem.reference();
        write(path, key, values);
    }
    return values;
}

double verify(Problem &problem, const std::string &folder) {
    problem.run();
    if (const std::string buffer = problem.written_beside(); !buffer.empty()) {
        throw Failure(Status::kWrongResult, "memory beside " + buffer + " was written (" + problem.key() + ")");
    }
    const std::vector<double> expected = reference_of(problem, folder);
    const double *should = expected.data();
    double worst = 0;
    for (const Output &output : problem.outputs()) {
        const Tensor &tensor = *output.tensor;
        const int64_t n = tensor.elements();
        std::vector<gdn_test::ErrorSum> groups(static_cast<size_t>(output.groups));
        int64_t unwritten = 0;
        for (int64_t row = 0; row * output.width < n; row++) {
            gdn_test::ErrorSum &sum = groups[static_cast<size_t>(row % output.groups)];
            for (int64_t i = row * output.width; i < (row + 1) * output.width; i++) {
                const float is = tensor.element(i);
                unwritten += std::isnan(is);
                sum.add(is, *should++);
            }
        }
        const auto wrong = [&](const std::string &what) {
            return Failure(Status::kWrongResult, output.name + what + " (" + problem.key() + ")");
        };
        if (unwritten) throw wrong(": " + std::to_string(unwritten) + " of " + std::to_string(n) + " values are NaN or were not written");
        for (size_t g = 0; g < groups.size(); g++) {
            const gdn_test::Error error = groups[g].error();
            if (!error.within(output.bound)) {
                throw wrong(" of " + output.group + " " + std::to_string(g) + ": relative RMS error " + number(error.rms) + ", largest " +
                            number(error.max) + " RMS, allowed " + number(output.bound) + " and " +
                            number(output.bound * gdn_test::kMaxOverRms));
            }
            worst = std::max(worst, error.rms);
        }
    }
    return worst;
}

}  // namespace gdn::tune
