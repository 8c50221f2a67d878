// Runs the program gdn and catches what it says.
#ifndef GDN_TESTS_CLI_PROGRAM_H
#define GDN_TESTS_CLI_PROGRAM_H

#include <map>
#include <string>
#include <vector>

namespace gdn_test {

struct Outcome {
    int code = -1;  // exit status; 128 + signal if a signal ended it
    std::string out, err;
};

struct Invocation {
    std::vector<std::string> arguments;
    std::map<std::string, std::string> environment;  // on top of ours, GDN_* and NO_COLOR removed
    bool terminal = false;                           // stdout and stderr are one terminal; all text lands in out
    double interrupt_after = 0;                      // seconds until Ctrl-C; 0: never
    std::string stdout_file;                         // instead of a pipe
    std::string stdin_file;                          // instead of ours
};

Outcome run(const Invocation &what);
std::vector<std::string> words(const std::string &text);  // separated by blanks
Outcome gdn(const std::string &arguments);  // words() of it

}  // namespace gdn_test
#endif
